"""Masking, cleaning, cutting, and showing values."""

from __future__ import annotations

import base64
import html
import json
from decimal import Decimal
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model import Secret
from supervisor.text import Masker, clean, count, cut, is_sensitive, show
from tests.strategies import json_values

SECRET = "p/ä+\"s' s&w=1\\"


def test_clean_leaves_good_text_alone() -> None:
    """Letters of all scripts, emoji with joiners, typographic blanks stay as they are."""
    for text in ("", "status 200", "日本語 ☺ é e\u0301", "👩\u200d💻", "a\u00a0b\u2003c", "\\n is not a line end"):
        assert clean(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a\nb\r\tc", "a\\nb\\r\\tc"), ("\0", "\\x00"), ("\x1b[31m", "\\x1b[31m"), ("\x9b", "\\x9b"), ("\x7f", "\\x7f"),
     ("\u202e\u2066", "\\u202e\\u2066"), ("\u061c\u200f", "\\u061c\\u200f"), ("\ud800", "\\ud800"),
     ("\u2028", "\\u2028"),
     ("\ufeff\u200b", "\\ufeff\\u200b"), ("\uffff", "\\uffff"), ("\U000e0041", "\\U000e0041"),
     ("\U0010ffff", "\\U0010ffff")],
    ids=ascii,
)  # fmt: skip
def test_clean_escapes_what_is_dangerous(text: str, shown: str) -> None:
    """Controls, ANSI, bidi controls, invisible characters, lone surrogates, noncharacters."""
    assert clean(f"a{text}é") == f"a{shown}é"


@given(st.text(alphabet=st.characters()))
def test_cleaned_text_is_one_valid_line_and_stays_so(text: str) -> None:
    """It can be encoded, has one line, and cleaning it again changes nothing."""
    cleaned = clean(text)
    assert cleaned.encode("utf-8") or not text
    assert len(cleaned.splitlines()) <= 1
    assert "\0" not in cleaned
    assert clean(cleaned) == cleaned


def test_cut_keeps_the_limit() -> None:
    """At most 256 characters, the last one saying that some are gone."""
    assert cut("x" * 256) == "x" * 256
    assert cut("x" * 257) == "x" * 255 + "…"
    assert cut("abc", 2) == "a…"


def _forms(value: str) -> list[str]:
    data = value.encode()
    return [
        value, quote(value), quote(value, safe=""), quote_plus(value), quote(value, safe="").replace("%C3", "%c3"),
        json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value).replace("/", "\\/")[1:-1],
        html.escape(value), repr(value)[1:-1],
        base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(),
    ]  # fmt: skip


@pytest.mark.parametrize("form", range(len(_forms(SECRET))))
def test_every_form_of_a_secret_is_masked(form: int) -> None:
    """Raw, percent-, JSON-, HTML- and base64-encoded."""
    text = f"before {_forms(SECRET)[form]} after"
    masked = Masker([Secret("TOKEN", SECRET)]).mask(text)
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "${TOKEN}" in masked
    assert _forms(SECRET)[form][2:-2] not in masked


@pytest.mark.parametrize("user", ["", "a", "ab", "abc", "user:", "some-user:"])
@pytest.mark.parametrize("after", ["", "x", "xy", "xyz"])
def test_a_secret_within_base64_is_masked(user: str, after: str) -> None:
    """At each of the three bit offsets, as in basic authentication; no bit of it stays at the ends."""
    secret = "S3cretValue!"
    encoded = base64.b64encode(f"{user}{secret}{after}".encode()).decode()
    masked = Masker([Secret("PW", secret)]).mask(f"Basic {encoded}")
    assert "${PW}" in masked
    rest = masked.removeprefix("Basic ").replace("${PW}", "")
    assert len(rest) <= (len(user) + len(after)) * 8 // 6 + 2
    for size in (8, 9, 10):
        assert not any(encoded[start : start + size] in rest for start in range(len(encoded) - size) if len(user) < 2)


def test_overlapping_secrets_leave_no_rest() -> None:
    """One within the other, one running into the other, and repeated."""
    masker = Masker([Secret("A", "abcdef"), Secret("B", "cdefghij"), Secret("C", "abcdefghijklm")])
    assert masker.mask("xabcdefghijx") == "x${A}x"
    assert masker.mask("xabcdefghijklmx") == "x${C}x"
    assert masker.mask("abcdefabcdef") == "${A}${A}"
    assert "cdef" not in masker.mask("abcdefghij abcdef cdefghij")
    assert Masker([Secret("Z", "zzzzzz")]).mask("z" * 20) == "${Z}"


def test_short_and_blank_values_are_not_masked() -> None:
    """They would hide ordinary words; the loader warns about them."""
    masker = Masker([Secret("A", "ok"), Secret("B", ""), Secret("C", "      "), Secret("D", "12345")])
    assert masker.mask("ok 12345       .") == "ok 12345       ."
    assert Masker([Secret("E", "123456")]).mask("123456") == "${E}"


def test_lines_of_a_key_file_are_masked_alone() -> None:
    """A value of several lines may come back line by line, or with its line ends collapsed."""
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqh\nkiG9w0BAQEFAASC\n-----END KEY-----"
    masker = Masker([Secret("KEY", key)])
    assert masker.mask(key) == "${KEY}"
    assert "kiG9w0BAQEF" not in masker.mask("bad line kiG9w0BAQEFAASC")
    assert "kiG9w0" not in masker.mask(key.replace("\n", " "))


@given(st.text(min_size=6, max_size=20), st.text(max_size=10), st.text(max_size=10))
def test_a_masked_text_never_holds_the_secret(value: str, before: str, after: str) -> None:
    """For any value, and anything around it."""
    name = "\U0001f510"
    if not value.strip() or value in f"${{{name}}}":
        return
    for form in (value, json.dumps(value), quote(value.encode("utf-8", "replace"), safe="")):
        masked = Masker([Secret(name, value)]).mask(before + form + after)
        assert value not in masked.replace(f"${{{name}}}", "") or value in before + after
    assert Masker([Secret(name, value)]).mask(value) == f"${{{name}}}"


def test_a_secret_is_not_in_a_repr() -> None:
    """Neither of the secret nor of the masker."""
    assert "topsecret" not in repr(Secret("A", "topsecret"))
    assert "topsecret" not in repr(Masker([Secret("A", "topsecret")]))


@pytest.mark.parametrize(
    "name",
    ["Authorization", "proxy-authorization", "Cookie", "Set-Cookie", "X-Api-Key", "apikey", "api_key", "accessKey",
     "key",
     "X-Auth-Token", "client_secret", "password", "PASSWD", "db-password", "X-Hub-Signature-256", "sig", "sessionId",
     "X-Amz-Credential", "X-Auth", "jwt", "private_token", "SSHKEYS"],
)  # fmt: skip
def test_sensitive_names(name: str) -> None:
    """Their values are never shown."""
    assert is_sensitive(name)


@pytest.mark.parametrize(
    "name",
    ["Content-Type", "Keep-Alive", "ETag", "keyboard", "X-Request-Id", "Location", "page", "author", "Server"],
)  # fmt: skip
def test_ordinary_names(name: str) -> None:
    """Their values are shown."""
    assert not is_sensitive(name)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "null"), (True, "true"), ("é\n\"", '"é\\n\\""'), (1, "1"), (1.0, "1"), (1.5, "1.5"), (1e300, "1e+300"),
     ([], "[]"), ({}, "{}"), ({"a": [1, None]}, '{"a": [1, null]}'), (Decimal(10) ** 3, "1000"), (float("nan"), "NaN")],
    ids=repr,
)  # fmt: skip
def test_values_are_shown_as_json(value: Any, shown: str) -> None:
    """As they would stand in a document."""
    assert show(value) == shown


def test_large_and_deep_values_are_shown_within_bounds() -> None:
    """A long integer whole, a deep or long container as far as anybody reads."""
    assert show(10**6000) == "1" + "0" * 6000
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert show(deep).startswith("[[[[")
    assert len(show(list(range(1_000_000)))) < 100_000
    assert show(["x"] * 100_000).endswith("…")
    assert count(90000) == "90,000"


@given(json_values)
def test_what_is_shown_is_json(value: Any) -> None:
    """Reading it again gives the value."""
    assert json.loads(show(value)) == value
