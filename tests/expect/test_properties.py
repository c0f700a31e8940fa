"""What must hold for any body, header and rule."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from supervisor.expect import (
    check_css,
    check_json_path,
    check_regex,
    check_xpath,
    lint_css,
    lint_json_path,
    lint_regex,
    lint_xpath,
)
from supervisor.expect.spec import (
    CommandExpect,
    CssRule,
    Exists,
    HeaderRule,
    HttpExpect,
    JsonRule,
    TextRule,
    XpathRule,
)
from tests.expect.support import Answer, Ended, command, http, refusal
from tests.strategies import bodies, content_types, operators

PATHS = st.sampled_from(["$", "$.a", "$[0]", "$..a", "$[*]", "$..*", "$[?@.a>1]", "$[?@==@]", "$[1:]", "$.a.b[-1]"])
NG_PATHS = st.sampled_from(
    ["a", "$.*", "$..a", "$.a.`len`", "$.a.`sorted`", "$.a + 1", "$[?(@.a>1)]", "$[0] * $[1]", "`this`"]
)
SELECTORS = st.sampled_from(["p", "*", "p > b", "[a]", "p:first-child", "svg"])
XPATHS = st.sampled_from(
    ["//*", "//p", "//@*", "//text()", "count(//p)", "string(/)", "//comment()", "number(.)", "//p/..", "true()"]
)
some_operators = st.lists(operators, min_size=1, max_size=2).map(tuple)
text_rules = st.builds(TextRule, st.just("contains"), some_operators)
body_rules: st.SearchStrategy[Any] = st.one_of(
    text_rules,
    st.builds(JsonRule, PATHS, some_operators, st.booleans()),
    st.builds(JsonRule, NG_PATHS, some_operators, st.booleans(), st.just("jsonpath-ng")),
    st.builds(CssRule, SELECTORS, some_operators, st.sampled_from([None, "a", "class"]), st.booleans()),
    st.builds(XpathRule, XPATHS, some_operators, st.just(()), st.booleans()),
)
header_rules = st.builds(HeaderRule, st.sampled_from(["X-A", "Set-Cookie", "authorization"]), some_operators)
CANARY = "c4n4ry-value"


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    bodies,
    content_types,
    st.lists(body_rules, min_size=1, max_size=3).map(tuple),
    st.lists(body_rules, max_size=1).map(tuple),
)
@example(b"\xff\xfe<\x00p\x00>", "", (CssRule("p", (Exists(True),)),), ())
def test_judge_never_raises(content: bytes, content_type: str, rules: tuple[Any, ...], warn: tuple[Any, ...]) -> None:
    """Arbitrary bytes and rules give a verdict: a failure with a sentence, or none."""
    verdict = http(HttpExpect(body=rules), Answer(content, content_type), HttpExpect(body=warn))
    assert verdict.failure is None or verdict.warning is None
    for found, root in ((verdict.failure, ("expect.", "warn.")), (verdict.warning, ("warn.",))):
        if found is not None:
            assert found.path.startswith(root)
            assert found.message
            assert found.kind in ("error", "mismatch")
            assert (found.actual is not None) or found.kind == "error"


@settings(max_examples=100, deadline=None)
@given(
    st.binary(max_size=100), st.binary(max_size=100), st.integers(-64, 255), st.lists(text_rules, max_size=3).map(tuple)
)
def test_judge_command_never_raises(stdout: bytes, stderr: bytes, code: int, rules: tuple[TextRule, ...]) -> None:
    """Arbitrary output and rules give a verdict; another exit code than 0 is never matched."""
    verdict = command(CommandExpect(stdout=rules, stderr=rules), Ended(code, stdout, stderr))
    assert code == 0 or verdict.failure is not None


@settings(deadline=None)
@given(st.lists(header_rules, min_size=1, max_size=3).map(tuple))
def test_values_of_sensitive_headers_are_never_told(rules: tuple[HeaderRule, ...]) -> None:
    """Whatever the rule, and whatever fails."""
    headers = (("set-cookie", f"sid={CANARY}"), ("Authorization", CANARY))
    found = http(HttpExpect(headers=rules), Answer(headers=headers)).failure
    assert CANARY not in repr(found)


@settings(deadline=None)
@given(st.text(max_size=30))
def test_checks_refuse_with_a_sentence_or_accept(expression: str) -> None:
    """Any text is an expression that works or is refused with ValueError; what is accepted can be linted."""
    for check, lint in (
        (check_regex, lint_regex),
        (check_json_path, lint_json_path),
        (lambda path: check_json_path(path, "jsonpath-ng"), lambda path: lint_json_path(path, "jsonpath-ng")),
        (check_css, lint_css),
        (lambda path: check_xpath(path, {}), lint_xpath),
    ):
        problem = refusal(check, expression)
        assert problem != ""
        if problem is None:
            assert isinstance(lint(expression), list)


@pytest.mark.parametrize("char", ["\0", "\ud800", "\n", "\U0010ffff"], ids=ascii)
def test_checks_take_odd_characters(char: str) -> None:
    """NUL and lone surrogates are refused or accepted like other text."""
    for check in (check_regex, check_json_path, check_css, check_xpath):
        for expression in (char, f"$.a{char}", f"//a{char}", f"a{char}", f"'{char}'", f"$['{char}']"):
            assert refusal(check, expression) != ""
