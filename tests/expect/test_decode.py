"""Which encoding a body is in: mark, header, declaration, UTF-8."""

from __future__ import annotations

import encodings.aliases

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.expect.content import Content
from supervisor.expect.decode import decode, find_encoding, header_text, known_encoding

META = b'<html><head><meta charset="windows-1252">'


@pytest.mark.parametrize(
    ("content", "content_type", "encoding"),
    [
        (b"x", "", "utf-8"),
        (b"x", "text/html", "utf-8"),
        (b"x", "text/html; charset=ISO-8859-1", "cp1252"),
        (b"x", 'text/html; Charset="latin1"; x=y', "cp1252"),
        (b"x", "text/html; charset=iso-8859-15", "iso8859-15"),
        (b"<!-- <meta charset=latin1> --><meta charset=koi8-r>", "", "koi8-r"),
        (b"<!-- <meta charset=latin1>", "", "utf-8"),
        (b"x", "text/html;charset = 'koi8-r'", "koi8-r"),
        (b"x", "text/html; charset=nonsense", "utf-8"),
        (b"x", "text/html; charset=", "utf-8"),
        (b"x", "charset=cp1252", "cp1252"),
        (b"\xef\xbb\xbfx", "text/html; charset=latin1", "utf-8"),
        (b"\xff\xfex\0", "text/html; charset=utf-8", "utf-16-le"),
        (b"\xfe\xff\0x", "", "utf-16-be"),
        (b"\xff\xfe\0\0x\0\0\0", "", "utf-32-le"),
        (b"\0x", "text/plain; charset=utf-16", "utf-16-be"),
        (META, "", "cp1252"),
        (META, "text/html; charset=utf-8", "utf-8"),
        (b"text " + META, "", "utf-8"),
        (b'{"a":"' + META, "", "utf-8"),
        (b"<meta charset=utf-16le>", "", "utf-8"),
        (b"<meta charset=nonsense>", "", "utf-8"),
        (b"<p>" + b" " * 5000 + META, "", "utf-8"),
        (b"<?xml version='1.0' encoding='koi8-r'?>", "", "koi8-r"),
        (b"x", "text/html; charset=utf-7", "utf-8"),
        (b"x", "text/html; charset=hex", "utf-8"),
        (b"x", "text/html; charset=idna", "utf-8"),
        (b"x", "text/html; charset=a\0b", "utf-8"),
        (b"x", "text/html; charset=unicode_escape", "utf-8"),
        (b"x", "text/html; charset=us-ascii", "utf-8"),
    ],
    ids=repr,
)
def test_the_encoding_is_found(content: bytes, content_type: str, encoding: str) -> None:
    """In the order of the design; what is unknown or no charset is passed over."""
    assert find_encoding(content, content_type)[0] == encoding


@pytest.mark.parametrize("name", sorted({*encodings.aliases.aliases, *encodings.aliases.aliases.values()}))
def test_every_encoding_of_python_decodes_anything_or_is_refused(name: str) -> None:
    """No codec that a server can name raises."""
    known = known_encoding(name)
    if known is not None:
        for content in (bytes(range(256)), b"\\x", b"\xff", b""):
            assert decode(content, known).encode("utf-8", "replace") is not None


@pytest.mark.parametrize(
    ("charset", "sent", "text"),
    [
        ("iso-8859-1", "cp1252", "€ “up”"),
        ("iso-8859-9", "cp1254", "€ ş"),
        ("tis-620", "cp874", "…ก"),
        ("gb2312", "gbk", "镕"),
        ("gbk", "gb18030", "€"),
        ("shift_jis", "cp932", "①"),
        ("euc-kr", "cp949", "똠"),
    ],
)
def test_a_charset_that_is_named_for_a_larger_one(charset: str, sent: str, text: str) -> None:
    """Servers name the small charset and send the large one; every browser reads it so."""
    assert Content(text.encode(sent), f"text/html; charset={charset}").text == text


@pytest.mark.parametrize("text", ["plain", "läuft", "größer €", "日本"])
def test_header_values_are_utf8_or_latin1(text: str) -> None:
    """Whichever the bytes are."""
    assert header_text(text.encode().decode("latin-1")) == text
    assert header_text("läuft") == "läuft"
    assert header_text("日") == "日"


@given(
    st.binary(max_size=40) | st.text(max_size=12).map(str.encode),
    st.text(min_size=1, max_size=4),
    st.sampled_from(["", "x; charset=latin1"]),
)
def test_contains_on_bytes_is_contains_on_text(content: bytes, needle: str, content_type: str) -> None:
    """The short cut that decodes nothing says the same."""
    assert Content(content, content_type).contains(needle) == (needle in Content(content, content_type).text)
    part = Content(content, content_type).text[1:4]
    assert Content(content, content_type).contains(part)


def test_the_mark_is_not_part_of_the_text() -> None:
    """Nor found in it."""
    body = Content(b"\xef\xbb\xbfok")
    assert not body.contains("\ufeff")
    assert body.text == "ok"
    assert body.beginning() == "ok"
    assert Content("\ufeffok".encode("utf-16-le")).text == "ok"


def test_text_is_decoded_once_and_only_when_asked_for() -> None:
    """`contains` on a megabyte makes no text of it."""
    body = Content(b"x" * 1000 + "é".encode())
    assert body.contains("é")
    assert body._text is None
    assert body.text is body.text
