"""Content codings and charsets (cases H25 to H31)."""

from __future__ import annotations

import gzip
import zlib

import pytest

from supervisor.expect.spec import Empty, TextRule
from tests.checkers.probe import assert_error, assert_ok, check, contains, statuses
from tests.servers import HOLD, OK, chunked, length, script_server

BODY = b"all is ok " * 500


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return compressor.compress(data) + compressor.flush()


CODED = {
    "gzip": ([b"gzip"], gzip.compress(BODY)),
    "x-gzip": ([b"X-GZip"], gzip.compress(BODY)),
    "identity": ([b"identity"], BODY),
    "empty name": ([b""], BODY),
    "deflate as zlib": ([b"deflate"], zlib.compress(BODY)),
    "deflate raw": ([b"deflate"], raw_deflate(BODY)),
    "two members": ([b"gzip"], gzip.compress(BODY[:100]) + gzip.compress(BODY[100:])),
    "empty member": ([b"gzip"], gzip.compress(b"") * 3 + gzip.compress(BODY)),
    "padded": ([b"gzip"], gzip.compress(BODY) + b"\0" * 512),
    "twice": ([b"gzip, gzip"], gzip.compress(gzip.compress(BODY))),
    "in two fields": ([b"deflate", b"gzip"], gzip.compress(zlib.compress(BODY))),
    "with identity": ([b"identity, gzip"], gzip.compress(BODY)),
    "stored": ([b"gzip"], gzip.compress(BODY, 0)),
    "name in the header": ([b"gzip"], b"\x1f\x8b\x08\x08" + bytes(6) + b"file\0" + gzip.compress(BODY)[10:]),
}


@pytest.mark.parametrize(("codings", "data"), CODED.values(), ids=CODED)
@pytest.mark.parametrize("framed", ["length", "chunked", "drip", "close"])
def test_codings_are_undone(codings: list[bytes], data: bytes, framed: str) -> None:
    """gzip, x-gzip and deflate are decoded whatever was asked for, in all framings, also byte by byte."""
    head = OK + b"".join(b"Content-Encoding: " + coding + b"\r\n" for coding in codings)
    steps = {
        "length": [head + length(data)],
        "chunked": [head + chunked(data[:7], data[7:])],
        "drip": [head + b"Content-Length: %d\r\n\r\n" % len(data), *[data[i : i + 1] for i in range(40)], data[40:]],
        "close": [head + b"\r\n" + data],
    }[framed]
    with script_server(steps) as server:
        assert_ok(check(server.url, body=[contains("all is ok all is ok")]))


BROKEN = {
    "H25 plain body": (b"gzip", b"all is ok"),
    "H26 cut": (b"gzip", gzip.compress(BODY)[:-30]),
    "H26 without its trailer": (b"gzip", gzip.compress(BODY)[:-8]),
    "H26 without the last byte": (b"gzip", gzip.compress(BODY)[:-1]),
    "H26 only a header": (b"gzip", gzip.compress(BODY)[:10]),
    "H26 nothing": (b"gzip", b""),
    "wrong checksum": (b"gzip", gzip.compress(BODY)[:-8] + b"\0" * 4 + gzip.compress(BODY)[-4:]),
    "wrong length": (b"gzip", gzip.compress(BODY)[:-4] + b"\1\0\0\0"),
    "bytes behind the end": (b"gzip", gzip.compress(BODY) + b"trailing"),
    "second member cut": (b"gzip", gzip.compress(BODY) * 2 + gzip.compress(BODY)[:20]),
    "half a magic": (b"gzip", gzip.compress(BODY) + b"\x1f"),
    "zlib cut": (b"deflate", zlib.compress(BODY)[:-3]),
    "zlib checksum": (b"deflate", zlib.compress(BODY)[:-4] + b"abcd"),
    "raw deflate cut": (b"deflate", raw_deflate(BODY)[:-5]),
    "deflate of one byte": (b"deflate", b"x"),
    "deflate of nothing": (b"deflate", b""),
    "deflate of text": (b"deflate", b"\xff\xffall is ok"),
    "gzip called deflate": (b"deflate", gzip.compress(BODY)),
    "H27 br": (b"br", b"all is ok"),
    "H27 br of nothing": (b"br", b""),
    "H29 zstd": (b"zstd", b"\x28\xb5\x2f\xfd"),
    "H29 a charset": (b"utf-8", b"all is ok"),
    "H29 unknown": (b"foo", b"all is ok"),
    "H29 known and unknown": (b"gzip, br", gzip.compress(BODY)),
    "compress": (b"compress", b"\x1f\x9d\x90"),
    "too many": (b", ".join([b"gzip"] * 9), BODY),
    "only the outer one": (b"gzip, gzip", gzip.compress(BODY)),
}


@pytest.mark.parametrize(("coding", "data"), BROKEN.values(), ids=BROKEN)
def test_h25_to_h29_broken_codings(coding: bytes, data: bytes) -> None:
    """A body that is not whole in the coding it claims is an error of decoding, never the part that came out."""
    with script_server([OK + length(data, b"Content-Encoding: " + coding)]) as server:
        result = check(server.url, body=[contains("all is ok")])
        assert_error(result, "http.decode", "gzip" if coding == b"gzip" else "")
        assert_error(check(server.url, body=[TextRule("empty", (Empty(True),))]), "http.decode")


def test_h27_unsupported_names_the_coding() -> None:
    """The message names the coding and the setting it came from."""
    with script_server([OK + length(b"x", b"Content-Encoding: zstd")]) as server:
        assert_error(check(server.url), "http.decode", "content-encoding", "zstd")


def test_codings_do_not_matter_without_a_body() -> None:
    """Where no body is read, or none can be, its coding does not count."""
    with script_server([OK + b"Content-Encoding: br\r\n" + length(b"x")]) as server:
        assert_ok(check(server.url, body=()))
    with script_server([b"HTTP/1.1 204 No\r\nContent-Encoding: gzip\r\n\r\n", HOLD]) as server:
        assert_ok(check(server.url, status=statuses(204), body=[TextRule("empty", (Empty(True),))]))


def test_accept_encoding() -> None:
    """We ask for gzip only, unless the user asks for something else."""
    with script_server([OK + length(b"ok")]) as server:
        assert_ok(check(server.url))
        assert_ok(check(server.url, headers=(("Accept-Encoding", "identity"),)))
        assert [server.headers(index)["accept-encoding"] for index in (0, 1)] == ["gzip", "identity"]


def test_the_cap_counts_decoded_bytes() -> None:
    """A small body that decodes to more than the cap ends at the cap; one that just fits is fine."""
    data = b"ok" + b"\0" * 99_998
    with script_server([OK + length(gzip.compress(data), b"Content-Encoding: gzip")]) as server:
        assert_error(check(server.url, max_body_bytes=99_999), "http.maxBodyBytes", "99,999")
        assert_ok(check(server.url, max_body_bytes=100_000))


def test_a_coded_body_may_be_larger_than_the_cap() -> None:
    """The bytes on the wire do not count to the cap: empty members are large and decode to nothing."""
    data = gzip.compress(b"") * 500 + gzip.compress(b"ok")
    with script_server([OK + length(data, b"Content-Encoding: gzip")]) as server:
        assert_ok(check(server.url, max_body_bytes=1000))


def test_endless_empty_members_end_at_the_deadline() -> None:
    """A stream that decodes to nothing without an end ends at the deadline."""
    with script_server([OK + b"Content-Encoding: gzip\r\n\r\n", *[gzip.compress(b"") * 2000] * 5000]) as server:
        assert_error(check(server.url, timeout_s=0.7), "http.body", "within 0.7 s")


CHARSETS = {
    "H30 no charset": (b"text/html", "läuft".encode()),
    "header": (b"text/html; charset=iso-8859-1", "läuft".encode("latin-1")),
    "BOM wins": (b"text/html; charset=iso-8859-1", b"\xef\xbb\xbf" + "läuft".encode()),
    "UTF-16 by BOM": (b"text/plain", "läuft".encode("utf-16")),
    "meta": (b"text/html", '<meta charset="iso-8859-1">läuft'.encode("latin-1")),
    "H31 bogus": (b"text/plain; charset=bogus", "läuft".encode()),
    "H31 idna": (b"text/plain; charset=idna", "läuft".encode()),
    "H31 base64": (b"text/plain; charset=base64", "läuft".encode()),
}


@pytest.mark.parametrize(("content_type", "data"), CHARSETS.values(), ids=CHARSETS)
def test_h30_h31_charsets(content_type: bytes, data: bytes) -> None:
    """Text is decoded by BOM, header, declared encoding, then UTF-8; an impossible charset is skipped."""
    with script_server([OK + length(data, b"Content-Type: " + content_type)]) as server:
        assert_ok(check(server.url, body=[contains("läuft")]))
