"""The E cases on texts, characters and the status: inputs from public bug reports, each with relatives of its kind."""

from __future__ import annotations

import json
import sqlite3

import pytest

from supervisor.expect import check_regex, lint_regex
from supervisor.expect.spec import Contains, Equals, HttpExpect, Not, StatusRange
from supervisor.text import clean, cut
from tests.expect.support import Answer, failure_of, has, holds, http, js, refused, rx, text


def test_e21_dot_and_anchors_stay_within_lines() -> None:
    """As in Python: flags change it, in the pattern."""
    lines = "start\nend\nstatus: ok\nmore"
    assert not holds(rx("start.*end"), lines)
    assert holds(rx("(?s)start.*end"), lines)
    assert not holds(rx("^status: ok$"), lines)
    assert holds(rx("(?m)^status: ok$"), lines)
    assert holds(rx("(?i)STATUS"), lines)


def test_e22_dollar_and_line_ends() -> None:
    """`$` holds before one last \\n, not before \\r\\n."""
    assert holds(rx("ok$"), "ok\n")
    assert not holds(rx("ok$"), "ok\r\n")
    assert not holds(rx("(?m)ok$"), "ok\r\nmore")
    assert holds(rx(r"ok\r?$"), "ok\r\n")
    assert not holds(rx(r"ok\Z"), "ok\n")
    assert holds(text("equals", Equals("ok")), "ok\r\n\n")


@pytest.mark.parametrize(
    "pattern", [r"\h", "(?<n>x)", "a(?i)b", r"\p{L}", "*", "(", "[", "a{2,1}", "(?<=a+)b", r"\K", "(" * 3000]
)
def test_e23_other_dialects_are_refused(pattern: str) -> None:
    """What Python does not understand is an error at load, with a hint."""
    assert refused(check_regex, pattern).startswith("not a regular expression of Python")


def test_e23_what_compiles_and_is_not_meant_is_a_warning() -> None:
    """POSIX classes, doubled backslashes, slashes."""
    for pattern in ("[[:digit:]]", r"\\d+", "/ok/i", "(a+)+$", "(.*)*x", r"(\w+)*y", "cost: $5", "ok$ok"):
        check_regex(pattern)
        assert lint_regex(pattern), pattern
    for pattern in (
        "ok",
        r"\d+",
        "^[a-z]{2}$",
        "/health",
        "(?i)up|down",
        r"\.",
        r"(\d+\.)+x",
        r"\d+(\.\d+)*",
        "[$a]b",
        r"\$5",
        "(?m)a$b",
        r"[\[]",
        r"a\$b",
    ):
        assert lint_regex(pattern) == [], pattern
    assert holds(rx(r"\d"), "١٢٣")
    assert not holds(rx("(?i)STRASSE"), "straße")


def test_e25_keyword_that_is_elsewhere_too() -> None:
    """`contains` alone is fooled; `not` beside it is not."""
    body = "API UP\nDB DOWN\n"
    assert holds(has("UP"), body)
    assert not holds(text("not", Not((Contains("DOWN"),))), body)
    assert not holds(rx(r"(?s)\A(?!.*DOWN).*UP"), body)
    assert holds(rx(r"(?s)\A(?!.*DOWN).*UP"), "API UP\nDB UP")
    assert not holds(text("contains", Contains("UP"), Not((Contains("DOWN"),))), body)


def test_e37_no_unicode_normalisation() -> None:
    """Composed and decomposed characters are different texts."""
    assert not holds(has("\u00e9"), "e\u0301")
    assert not holds(js("$", Equals("\u00e9")), json.dumps("e\u0301"))


def test_e38_hostile_values_can_be_stored() -> None:
    """Lone surrogates, NUL and huge integers reach the store as harmless text."""
    database = sqlite3.connect(":memory:")
    for content in (
        r'{"a":"\ud800"}',
        r'{"a":"x\u0000y"}',
        '{"a":' + "9" * 6000 + "}",
        r'{"a":["\udfff"]}',
        r'{"\ud800":1}',
    ):
        failure = failure_of(js("$.a", Equals("x")), content)
        assert failure is not None
        for shown in (failure.message, failure.actual or "", failure.expected or "", failure.path):
            stored = cut(clean(shown))
            assert stored.encode()
            assert database.execute("select ?, length(?)", (stored, stored)).fetchone() == (stored, len(stored))
    database.close()
    assert clean(rb"\ud800".decode("unicode_escape")) == "\\ud800"


@pytest.mark.parametrize(
    ("status", "wanted", "matches"),
    [
        (200, ((200, 200, "200"), (200, 299, "2xx")), True),
        (204, ((200, 299, "2xx"),), True), (300, ((200, 299, "200-299"),), False),
        (999, ((200, 299, "2xx"),), False), (999, ((999, 999, "999"),), True), (199, ((200, 200, "200"),), False),
    ],
)  # fmt: skip
def test_e39_status_lists(status: int, wanted: tuple[tuple[int, int, str], ...], matches: bool) -> None:
    """A status matches if one item does; the message names all."""
    failure = http(HttpExpect(status=tuple(StatusRange(*item) for item in wanted)), Answer(status=status)).failure
    assert (failure is None) == matches
    if failure is not None:
        expected = " or ".join(item[2] for item in wanted)
        assert (failure.phase, failure.path) == ("status", "expect.status")
        assert failure.message == f"status {status}, expected {expected}"
        assert (failure.expected, failure.actual) == (expected, str(status))
