"""Paths and patterns: what the compliance suite does not ask."""

from __future__ import annotations

import time
from decimal import Decimal

import pytest

from supervisor.context import CheckContext
from supervisor.deadline import Deadline, DeadlineExpired, alarm
from supervisor.expect import judge_http, lint_json_path
from supervisor.expect.iregexp import compiled
from supervisor.expect.select import collapse, select_json
from supervisor.expect.spec import BodyRule, Count, Equals, Exists, HttpExpect
from tests.expect.support import Answer, holds, js, rx, xp


@pytest.mark.parametrize(
    "path", ["$", "$.a", "$.a[0]", "$.a[-1].b", "$['a']['0']", "$[0]", "$.a[99]", '$["\\u0061"]', "$.a[-99]", "$.*"]
)
@pytest.mark.parametrize(
    "document",
    [{"a": [{"b": 1}, {"b": None}]}, [[1]], {}, [], None, "a", 1, True, {"a": "xyz"}, {"a": {"0": 1}}],
    ids=repr,
)
def test_the_short_way_selects_what_the_library_selects(path: str, document: object) -> None:
    """Singular paths are walked by our own few lines."""
    from jsonpath import JSONPathEnvironment  # the library as it is, to compare with

    wrapped = "$[0]" + path[1:]
    wanted = [match.obj for match in JSONPathEnvironment(strict=True).finditer(wrapped, [document])]
    assert list(select_json(document, path, "rfc9535").values) == wanted


def test_rules_on_one_document_do_not_change_it() -> None:
    """`sorted` of jsonpath-ng sorts in place: on a copy."""
    rules: tuple[BodyRule, ...] = (
        js("$.a.`sorted`", Equals([1, 2, 3]), dialect="jsonpath-ng"),
        js("$.a", Equals([3, 1, 2])),
        js("$.a[\\\\@]", Exists(True), dialect="jsonpath-ng"),
        js("$.a", Equals([3, 1, 2])),
    )
    assert (
        judge_http(HttpExpect(body=rules[:2]), None, Answer(b'{"a":[3,1,2]}'), CheckContext(Deadline(9))).failure
        is None
    )


@pytest.mark.parametrize(
    "path", ["$.a + 1", "$.n * 2", "$.a[?(@.x > 1)]", "$.s - 1", "$.n.`sub(/x/, y)`", "$..x + $..y"]
)
def test_what_jsonpath_ng_raises_is_a_mismatch(path: str) -> None:
    """Its TypeErrors on documents that it did not expect."""
    for document in ({"a": None, "n": None, "s": "x"}, {"a": [{"x": None}], "n": {}, "s": []}, [], 1, "x", None):
        assert not holds(js(path, Equals("never"), dialect="jsonpath-ng"), document)


def test_patterns_in_paths() -> None:
    """I-Regexp: categories of Unicode, a dot that stops at line ends; what is not understood matches nothing."""
    for pattern, text, found in (
        (r"\p{Lu}", "É", True), (r"\p{Lu}", "é", False), (r"\P{L}", "1", True), (r"[\p{N}_]", "٣", True),
        (r"[^\p{L}]", "a", False),
        ("a.c", "a\u2028c", True), ("a.c", "a\nc", False), ("[.]", "x", False),
        (r"\.", ".", True), (r"[\]]", "]", True),
    ):  # fmt: skip
        pattern_found = compiled(pattern)
        assert pattern_found is not None
        assert bool(pattern_found.fullmatch(text)) == found, pattern
    for pattern in (r"\p{Xx}", "[", "(", "*", "a{99999999999}", "(" * 5000):
        assert compiled(pattern) is None
    assert lint_json_path("$[?match(@.a, '[')]")
    assert lint_json_path("$[?match(@.a, '[a-z]+')]") == []
    assert not holds(js("$[?match(@.a, '[')]", Exists(True)), [{"a": "["}])


def test_numbers_in_filters() -> None:
    """Long integers are Decimals there, and compare as numbers."""
    body = b'[{"n":' + b"7" * 4400 + b'},{"n":1.5},{"n":"7"}]'
    assert holds(js("$[?@.n > 1]", Count((Equals(2),))), body)
    assert holds(js("$[?@.n == 1.5]", Count((Equals(1),))), body)
    assert isinstance(next(iter(select_json([Decimal(1)], "$[0]", "rfc9535").values)), Decimal)


def test_descent_into_deep_documents() -> None:
    """Several hundred levels are walked; more is a mismatch."""
    for depth in (99, 101, 500):
        assert holds(js("$..a", Equals(1)), "[" * depth + '{"a":1}' + "]" * depth)


def test_white_space_is_collapsed() -> None:
    """All of Unicode's, at the ends too."""
    assert collapse(" \u00a0a\u2003\n\tb\u3000 ") == "a b"


@pytest.mark.parametrize(
    "rule",
    [rx(r"(x+x+)+y"), js("$[?search(@, '(x+x+)+y')]", Exists(True)), xp("//p[re:test(., '(x+x+)+y')]", Exists(True))],
    ids=["regex", "json", "xpath"],
)
def test_a_pattern_that_runs_away_ends_at_the_deadline(rule: BodyRule) -> None:
    """By the alarm in the worker; the context says in which rule it was."""
    content = b'["' + b"x" * 60 + b'"]' if rule.__class__.__name__ == "JsonRule" else b"<p>" + b"x" * 60
    deadline = Deadline(0.3)
    context = CheckContext(deadline)
    began = time.monotonic()
    with pytest.raises(DeadlineExpired), alarm(deadline):
        judge_http(HttpExpect(body=(rule,)), None, Answer(content), context)
    assert time.monotonic() - began < 2.3
    assert context.phase == "body"
    assert context.path.startswith("expect.body[0].")
