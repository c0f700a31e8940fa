"""HTTP answers as bytes on a socket: framing, heads, slow and broken servers (cases H01 to H54)."""

from __future__ import annotations

import time

import pytest

from supervisor.expect.spec import Empty, Equals, Exists, HeaderRule, Match, TextRule
from tests.checkers.probe import assert_error, assert_mismatch, assert_ok, check, contains, statuses, traced
from tests.servers import HALF, HOLD, OK, RST, chunked, length, localhost, script_server


def test_h01_header_drip() -> None:
    """Headers that drip end at the deadline, not after the last one."""
    with script_server([OK, *[b"X-n: y\r\n", 0.3] * 20, length(b"ok")]) as server:
        result = check(server.url, timeout_s=1)
    assert_error(result, "http.headers", "within 1 s", "bytes of headers")


def test_h02_body_drip() -> None:
    """A body that drips ends at the deadline and says how far it got."""
    with script_server([OK + b"Content-Length: 30\r\n\r\n", *[b"x", 0.25] * 30]) as server:
        result = check(server.url, timeout_s=1)
    assert_error(result, "http.body", "within 1 s", "of 30 bytes", "sent headers")
    assert result.status_detail == "HTTP 200"


def test_h03_endless_body_ends_at_the_cap() -> None:
    """An endless body ends at the cap, quickly, and the message names it."""
    with script_server([OK + b"\r\n", *[b"x" * 65536] * 2000]) as server:
        began = time.monotonic()
        result = check(server.url, max_body_bytes=1048576)
        assert time.monotonic() - began < 2
    assert_error(result, "http.maxBodyBytes", "maxBodyBytes", "1,048,576")


@pytest.mark.parametrize("rest", [b"Content-Length: 2000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n7D0\r\n"])
def test_h03_announced_size_over_the_cap_ends_at_once(rest: bytes) -> None:
    """A size over the cap needs no reading: it is refused when it is announced."""
    with script_server([OK + rest, HOLD]) as server:
        assert_error(check(server.url, max_body_bytes=1000), "http.maxBodyBytes")


@pytest.mark.parametrize("size", [999, 1000, 1001])
@pytest.mark.parametrize("kind", ["length", "chunked", "close"])
def test_the_cap_is_exact(size: int, kind: str) -> None:
    """A body of exactly the cap is fine, one byte more is not."""
    data = b"ok" + b"x" * (size - 2)
    rest = {"length": length(data), "chunked": chunked(data[:500], data[500:]), "close": b"\r\n" + data}[kind]
    with script_server([OK + rest]) as server:
        result = check(server.url, max_body_bytes=1000)
    assert_ok(result) if size <= 1000 else assert_error(result, "http.maxBodyBytes")


def test_a_body_is_not_read_without_rules() -> None:
    """Without body rules the verdict needs the headers only, however broken or endless the body is."""
    with script_server([OK + b"Transfer-Encoding: chunked\r\n\r\nnonsense", HOLD]) as server:
        assert_ok(check(server.url, body=()))


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("claim", [b"Transfer-Encoding: chunked\r\n\r\n", b"Content-Length: 5\r\n\r\n", b"\r\n"])
def test_h17_204_and_304_have_no_body(status: int, claim: bytes) -> None:
    """204 and 304 are complete with their headers, whatever they claim."""
    with script_server([b"HTTP/1.1 %d X\r\n" % status + claim, HOLD]) as server:
        rule = TextRule("empty", (Empty(True),))
        assert_ok(check(server.url, status=statuses(status), body=[rule]))


def test_h18_204_with_body_bytes() -> None:
    """Bytes behind a 204 are no body."""
    with script_server([b"HTTP/1.1 204 No\r\n" + length(b"hello")]) as server:
        assert_ok(check(server.url, status=statuses(204), body=[TextRule("empty", (Empty(True),))]))


@pytest.mark.parametrize("claim", [b"Content-Length: 500\r\n", b"Transfer-Encoding: chunked\r\n", b""])
def test_h19_head(claim: bytes) -> None:
    """HEAD has no body, whatever the headers claim."""
    with script_server([OK + claim + b"\r\n", HOLD]) as server:
        assert_ok(check(server.url, method="HEAD", body=()))
        assert server.lines() == ["HEAD / HTTP/1.1"]


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\n" * 5,
        b"HTTP/1.1 199 What\r\nContent-Length: 5\r\n\r\n",
    ],
)
def test_interim_answers_are_skipped(interim: bytes) -> None:
    """1xx answers are skipped, in one packet with the final one or before it."""
    with script_server([interim + OK + length(b"ok")]) as server:
        assert_ok(check(server.url))
    with script_server([interim, 0.1, OK + length(b"ok")]) as server:
        assert_ok(check(server.url))


def test_a_flood_of_interim_answers_ends() -> None:
    """1xx answers without an end are an error of the headers."""
    with script_server([b"HTTP/1.1 100 Continue\r\n\r\n"] * 5000) as server:
        assert_error(check(server.url), "http.headers", "interim")


def test_101_is_final_only_where_an_upgrade_was_asked_for() -> None:
    """Whoever sends Upgrade may expect 101; for all others it is an interim answer."""
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    wanted = (("Upgrade", "websocket"), ("Connection", "Upgrade"))
    with script_server([switch, HOLD]) as server:
        assert_ok(check(server.url, headers=wanted, status=statuses(101), body=()))
        assert server.headers()["connection"] == "Upgrade"
    with script_server([switch, HOLD]) as server:
        assert_error(check(server.url, timeout_s=0.5), "http.headers")


def test_h21_needle_split_over_chunks() -> None:
    """Chunk borders do not stand in the text."""
    with script_server([OK + chunked(b"read", b"y!")]) as server:
        assert_ok(check(server.url, body=[contains("ready!")]))


BROKEN_CHUNKS = {
    "plain text": b"<html>ok</html>",
    "plain text and a line end": b"<html>ok</html>\r\n",
    "size is no number": b"xyz\r\nok\r\n0\r\n\r\n",
    "negative": b"-2\r\nok\r\n0\r\n\r\n",
    "plus sign": b"+2\r\nok\r\n0\r\n\r\n",
    "0x": b"0x2\r\nok\r\n0\r\n\r\n",
    "underscore": b"0_2\r\nok\r\n0\r\n\r\n",
    "empty size": b"\r\nok\r\n0\r\n\r\n",
    "blank before": b" 2\r\nok\r\n0\r\n\r\n",
    "bare LF": b"2\nok\n0\n\n",
    "bare LF in an extension": b"2;a\nb\r\nok\r\n0\r\n\r\n",
    "too many digits": b"00000000000000002\r\nok\r\n0\r\n\r\n",
    "longer than announced": b"2\r\nokok\r\n0\r\n\r\n",
    "no end of the chunk": b"2\r\nok0\r\n\r\n",
    "shorter": b"5\r\nok",
    "no last chunk": b"2\r\nok\r\n",
    "no empty line at the end": b"2\r\nok\r\n0\r\n",
    "half a size": b"2\r\nok\r\n1",
    "endless extension": b"2;" + b"a" * 10000 + b"\r\nok\r\n0\r\n\r\n",
    "malformed trailer": b"2\r\nok\r\n0\r\na\nb\r\n\r\n",
    "nothing": b"",
}


@pytest.mark.parametrize("data", BROKEN_CHUNKS.values(), ids=BROKEN_CHUNKS)
def test_h22_broken_chunks(data: bytes) -> None:
    """A broken chunk is an error, even though what arrived would match."""
    with script_server([OK + b"Transfer-Encoding: chunked\r\n\r\n" + data]) as server:
        assert_error(check(server.url), "http.body")


@pytest.mark.parametrize("data", [b"<html>ok</html>", b"2\r\nokok\r\n", b"zz"], ids=["text", "too long", "no size"])
def test_h22_broken_chunks_are_told_at_once(data: bytes) -> None:
    """What can't become a chunk is refused without waiting for more."""
    with script_server([OK + b"Transfer-Encoding: chunked\r\n\r\n" + data, HOLD]) as server:
        began = time.monotonic()
        assert_error(check(server.url), "http.body")
        assert time.monotonic() - began < 2


GOOD_CHUNKS = {
    "plain": b"2\r\nok\r\n0\r\n\r\n",
    "leading zeros": b"0002\r\nok\r\n0000\r\n\r\n",
    "capital": b"A\r\nok12345678\r\n0\r\n\r\n",
    "extension": b'2;a=b;c="d"\r\nok\r\n0;x\r\n\r\n',
    "blank behind the size": b"2  \r\nok\r\n0\r\n\r\n",
    "trailers": b"2\r\nok\r\n0\r\nX-Sum: 1\r\nX-B: 2\r\n\r\n",
    "bytes behind the end": b"2\r\nok\r\n0\r\n\r\nHTTP/1.1 500 No\r\n\r\n",
    "a line end in the data": b"4\r\nok\r\n\r\n0\r\n\r\n",
}


@pytest.mark.parametrize("data", GOOD_CHUNKS.values(), ids=GOOD_CHUNKS)
@pytest.mark.parametrize("split", [False, True], ids=["one packet", "byte by byte"])
def test_chunked_bodies(data: bytes, split: bool) -> None:
    """What RFC 9112 allows in chunked coding is read, however it is cut into packets."""
    steps = [bytes([byte]) for byte in data] if split else [data]
    with script_server([OK + b"Transfer-Encoding: Chunked\r\n\r\n", *steps, HOLD]) as server:
        assert_ok(check(server.url))


@pytest.mark.parametrize(
    "coding", [b"gzip, chunked", b"gzip", b"xchunked", b"chunked, chunked", b"chunked, identity, x"]
)
def test_unknown_transfer_codings(coding: bytes) -> None:
    """A transfer coding we can't undo is an error of the body, not a body."""
    with script_server([OK + b"Transfer-Encoding: " + coding + b"\r\n\r\nok"]) as server:
        assert_error(check(server.url), "http.body", "transfer coding")


def test_chunked_wins_over_content_length() -> None:
    """Transfer-Encoding overrides Content-Length (RFC 9112, 6.3)."""
    with script_server([OK + b"Content-Length: 3\r\n" + chunked(b"is ok")]) as server:
        assert_ok(check(server.url))


def test_h23_content_length_larger_than_the_body() -> None:
    """A body shorter than its Content-Length is an error that says both numbers."""
    with script_server([OK + b"Content-Length: 100\r\n\r\nhi ok"]) as server:
        assert_error(check(server.url), "http.body", "5 of 100 bytes")


def test_h23_content_length_smaller_than_the_body() -> None:
    """A smaller Content-Length frames the body: what follows is not looked at."""
    with script_server([OK + b"Content-Length: 2\r\n\r\nok and more", HOLD]) as server:
        assert_ok(check(server.url, body=[TextRule("equals", (Equals("ok"),))]))


@pytest.mark.parametrize("value", [b"-1", b"+2", b"2.0", b"0x2", b"two", b"", b"2 3", b"9" * 30, b"9" * 5000, b"\xb2"])
def test_content_length_that_is_no_length(value: bytes) -> None:
    """A Content-Length that is no number makes the framing invalid: the answer is discarded."""
    with script_server([OK + b"Content-Length: " + value + b"\r\n\r\nok"]) as server:
        assert_error(check(server.url), "http.headers", "Content-Length")


@pytest.mark.parametrize("value", [b"2\r\nContent-Length: 3", b"2, 3", b"3\r\ncontent-length: 2", b"2,"])
def test_different_content_lengths(value: bytes) -> None:
    """Several different lengths are an error of the headers: no one knows where the body ends."""
    with script_server([OK + b"Content-Length: " + value + b"\r\n\r\nok!"]) as server:
        assert_error(check(server.url), "http.headers", "Content-Length")


@pytest.mark.parametrize("value", [b"2\r\nContent-Length: 2", b"2, 2", b"002", b"2 ", b"\t2"])
def test_the_same_content_length_twice(value: bytes) -> None:
    """The same length several times is one length."""
    with script_server([OK + b"Content-Length: " + value + b"\r\n\r\nok", HOLD]) as server:
        assert_ok(check(server.url))


def test_h37_accepts_and_never_answers() -> None:
    """A server that accepts and says nothing is an error of the headers by the deadline."""
    with script_server([HOLD]) as server:
        result = check(server.url, timeout_s=0.7)
    assert_error(result, "http.headers", "within 0.7 s", "sent nothing")


def test_closes_without_an_answer() -> None:
    """A connection closed without a byte is named as that."""
    with script_server([]) as server:
        assert_error(check(server.url), "http.headers", "closed the connection without an answer")


def test_half_close_before_and_behind_the_answer() -> None:
    """A server that closes only its sending side has ended its answer."""
    with script_server([HALF, HOLD]) as server:
        assert_error(check(server.url), "http.headers", "without an answer")
    with script_server([OK + b"\r\nok", HALF, HOLD]) as server:
        assert_ok(check(server.url))
    with script_server([OK + b"Content-Length: 9\r\n\r\nok", HALF, HOLD]) as server:
        assert_error(check(server.url), "http.body", "2 of 9 bytes")


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        ([RST], "http.headers"),
        ([b"HTTP/1.1 2", 0.1, RST], "http.headers"),
        ([OK + b"A: b\r\n", 0.1, RST], "http.headers"),
        ([OK + b"Content-Length: 9\r\n\r\nok", 0.1, RST], "http.body"),
        ([OK + b"\r\nok", 0.1, RST], "http.body"),
        ([OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok", 0.1, RST], "http.body"),
    ],
    ids=["before", "status line", "headers", "length", "until close", "chunk"],
)
def test_resets_at_each_step(steps: list[object], path: str) -> None:
    """A reset is an error at the step it struck."""
    with script_server(steps) as server:
        assert_error(check(server.url), path, "reset")


def test_reset_before_the_request_is_read() -> None:
    """A server that resets at once is an error of the request."""
    with script_server([RST], greet=True) as server:
        result = check(server.url)
    assert result.failure is not None
    assert result.failure.path in ("http.headers", "http.send", "http.connect")


def test_an_answer_before_the_request_is_read_counts() -> None:
    """A server may refuse a large body early and close: its answer is the answer."""
    answer = b"HTTP/1.1 413 Too Large\r\n" + length(b"no")
    with script_server([answer, HALF, 0.2, RST], greet=True) as server:
        result = check(server.url, method="POST", send=b"x" * 20_000_000, body=(), status=statuses(413))
    assert_ok(result)
    with script_server([lambda sock: sock.recv(1000), RST], greet=True) as server:
        result = check(server.url, method="POST", send=b"x" * 20_000_000)
    assert_error(result, "http.send", "while the request was being sent")


def test_a_server_that_does_not_take_the_request() -> None:
    """A request that is not read ends at the deadline, at the place of sending."""
    with script_server([HOLD], greet=True) as server:
        result = check(server.url, method="POST", send=b"x" * 20_000_000, timeout_s=0.7)
    assert_error(result, "http.send", "did not take the whole request")


# --- heads -----------------------------------------------------------------------------------------------------------

STATUS_LINES = {
    "HTTP/1.0": (b"HTTP/1.0 200 OK", 200),
    "no reason": (b"HTTP/1.1 200", 200),
    "empty reason": (b"HTTP/1.1 200 ", 200),
    "odd reason": (b"HTTP/1.1 200 \xc3\xa4 (fine): yes", 200),
    "999": (b"HTTP/1.1 999 Denied", 999),
    "600": (b"HTTP/1.1 600 X", 600),
    "1.9": (b"HTTP/1.9 200 OK", 200),
}


@pytest.mark.parametrize(("line", "status"), STATUS_LINES.values(), ids=STATUS_LINES)
def test_h49_status_lines(line: bytes, status: int) -> None:
    """Old and odd status lines are read; any status from 100 to 999 is judged."""
    with script_server([line + b"\r\n\r\nok"]) as server:
        assert_ok(check(server.url, status=statuses(status)))
    if status != 200:
        with script_server([line + b"\r\n\r\nok"]) as server:
            assert_mismatch(check(server.url), "status")


BAD_STATUS_LINES = [
    b"ready", b"HTTP/2 200", b"HTTP/2.0 200 OK", b"ICY 200 OK", b"HTTP/1.1 1000 X", b"HTTP/1.1 099 X", b"HTTP/1.1 20 X",
    b"HTTP/1.1 2x0 X", b"HTTP/1.1 -20 X", b"HTTP/1.1  200 OK", b"HTTP/1.1 200OK", b"HTTP/1.1\t200 OK",
    b"http/1.1 200 OK", b"HTTP/1.10 200 OK", b"HTTP/11 200 OK", b"HTTP/1.1", b"HTTP/1.1 \xb2\xb0\xb0 OK", b"",
    b"\r\nHTTP/1.1 200 OK",
    b" HTTP/1.1 200 OK", b"SSH-2.0-OpenSSH_9.2", b"220 mail ESMTP", b"<html>ok</html>", b"HTTP/1.1 200 OK\0",
    b"HTTP/1.1 200 O\rK",
]  # fmt: skip


@pytest.mark.parametrize("line", BAD_STATUS_LINES, ids=lambda line: repr(line)[2:-1] or "empty")
def test_h49_what_is_no_status_line(line: bytes) -> None:
    """Anything else is not HTTP: an error of the headers, at once."""
    with script_server([line + b"\r\nContent-Length: 2\r\n\r\nok"]) as server:
        assert_error(check(server.url), "http.headers")


def test_another_protocol_is_told_at_once() -> None:
    """A server that greets in another protocol and waits is recognised by its first bytes."""
    with script_server([b"SSH-2.0-OpenSSH_9.2\r\n", HOLD], greet=True) as server:
        began = time.monotonic()
        assert_error(check(server.url), "http.headers", "SSH-2.0")
        assert time.monotonic() - began < 2


BAD_FIELDS = {
    "no colon": b"garbage",
    "no name": b": x",
    "blank in the name": b"X Y: a",
    "control in the name": b"X\x01: a",
    "latin-1 in the name": b"X\xe4: a",
    "NUL in a value": b"X: a\0b",
    "NUL in a name": b"X\0: a",
    "bare CR": b"X: a\rY: b",
    "fold before any field": b" folded",
}


@pytest.mark.parametrize("line", BAD_FIELDS.values(), ids=BAD_FIELDS)
def test_malformed_fields(line: bytes) -> None:
    """A malformed header line is an error: what stands behind it can't be trusted."""
    with script_server([OK + line + b"\r\nContent-Length: 2\r\n\r\nok"]) as server:
        assert_error(check(server.url), "http.headers")


def test_lenient_where_every_browser_is() -> None:
    """Bare LF, blanks before the colon, folded lines and high bytes in values are read."""
    head = b"HTTP/1.1 200 OK\nX-Fold: one\n two\n\tthree\nX-Sp : v\nX-Hi: \xe4\nContent-Length: 2\n\nok"
    rules = [
        HeaderRule("x-fold", (Equals("one two three"),)),
        HeaderRule("x-sp", (Equals("v"),)),
        HeaderRule("x-hi", (Equals("ä"),)),
    ]
    with script_server([head, HOLD]) as server:
        assert_ok(check(server.url, expect_headers=tuple(rules)))
    with script_server([*[bytes([byte]) for byte in head], HOLD]) as server:
        assert_ok(check(server.url, expect_headers=tuple(rules)))


def test_h47_header_expectations() -> None:
    """Names are case-insensitive, repeated fields are joined, outer blanks do not count, an empty one is there."""
    head = OK + b"X-A: one\r\nx-a: two\r\nX-Sp: v  \r\nX-Empty:\r\n" + length(b"ok")
    rules = (
        HeaderRule("X-a", (Equals("one, two"),)),
        HeaderRule("x-sp", (Equals("v"),)),
        HeaderRule("x-empty", (Exists(True), Empty(True))),
        HeaderRule("x-none", (Exists(False),)),
    )
    with script_server([head]) as server:
        assert_ok(check(server.url, expect_headers=rules))


@pytest.mark.parametrize(
    "head",
    [b"X: " + b"a" * 300_000 + b"\r\n", b"X-n: y\r\n" * 5000, b"a" * 300_000, b"X: y\r\n" + b" z\r\n" * 100_000],
    ids=["one long field", "many fields", "endless name", "folds"],
)
def test_header_bombs(head: bytes) -> None:
    """Headers have a limit of size and number."""
    with script_server([OK + head + b"\r\n", HOLD]) as server:
        assert_error(check(server.url), "http.headers", "more than")


def test_many_but_reasonable_headers() -> None:
    """300 fields and a field of 60 KB are read."""
    head = b"".join(b"X-%d: y\r\n" % number for number in range(300)) + b"X-Long: " + b"a" * 60_000 + b"\r\n"
    with script_server([OK + head + length(b"ok")]) as server:
        assert_ok(check(server.url))


@pytest.mark.parametrize("end", [[*[b"X: y\r\n", 0.2] * 20], [HOLD]], ids=["drip", "nothing"])
def test_h50_trailers_that_drip(end: list[object]) -> None:
    """Trailers that never end are an error of the body by the deadline."""
    with script_server([OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n", *end]) as server:
        assert_error(check(server.url, timeout_s=1), "http.body", "within 1 s")


def test_trailer_bomb() -> None:
    """Trailers count to the limit of headers."""
    with script_server([OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", *[b"X: y\r\n"] * 100_000]) as server:
        assert_error(check(server.url), "http.body", "trailers")


def test_h51_duration_includes_the_body() -> None:
    """maxDurationMs counts until the last byte of a body that was read."""
    with script_server([OK + b"Content-Length: 2\r\n\r\n", 0.6, b"ok"]) as server:
        result = check(server.url, max_duration_ms=300)
    assert_mismatch(result, "duration")
    assert result.failure is not None
    assert result.failure.path == "expect.maxDurationMs"
    assert result.duration_ms > 550


def test_h54_user_agent() -> None:
    """The default User-Agent names the product and can be replaced; a refusal is a mismatch of the status."""
    with script_server([b"HTTP/1.1 406 No\r\n" + length(b"")]) as server:
        assert_mismatch(check(server.url), "status")
        assert_mismatch(check(server.url, headers=(("user-agent", "other/1"),)), "status")
        assert server.headers(0)["user-agent"].startswith("checkvisor/")
        assert server.headers(1)["user-agent"] == "other/1"


def test_a_rule_that_runs_away_ends_at_the_deadline() -> None:
    """A catastrophic regex is an error at its rule; what was seen before it stays in the result."""
    rule = TextRule("regex", (Match("(x+x+)+y"),))
    with script_server([OK + length(b"x" * 40)]) as server:
        result = check(server.url, body=[rule], timeout_s=0.7)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase) == ("error", "body")
    assert result.failure.path.startswith("expect.body[0]")
    assert "within 0.7 s" in result.failure.message
    assert result.status_detail == "HTTP 200"
    assert result.duration_ms < 600, "evaluation is not in the duration"


def test_the_trace_shows_the_whole_way() -> None:
    """Request, address, answer, rules and times stand in the trace, in order."""
    with script_server([OK + length(b"ok")]) as server:
        result, steps = traced(server.url_as(localhost()))
    assert_ok(result)
    names = [step.step for step in steps]
    expected = ["request", "resolve", "connect", "answer", "finalUrl", "body", "timings"]
    assert [name for name in names if name in expected] == expected
    assert any(name.startswith("expect.body[0]") for name in names)
    assert "firstByte" in steps[-1].seen


def test_timings_and_detail() -> None:
    """Each step that happened has its time; the detail is the status."""
    with script_server([0.2, OK + b"Content-Length: 2\r\n\r\n", 0.2, b"ok"]) as server:
        result = check(server.url)
    assert_ok(result)
    assert result.status_detail == "HTTP 200"
    timings = result.timings
    assert timings is not None
    assert timings.tls is None
    assert timings.dns is not None
    assert timings.connect is not None
    assert timings.first_byte is not None
    assert timings.transfer is not None
    assert 150 < timings.first_byte < 2000
    assert 150 < timings.transfer < 2000
