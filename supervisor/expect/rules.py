"""One rule against one text, document or header: None, or the failure. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from supervisor.expect import describe
from supervisor.expect.content import Content
from supervisor.expect.decode import header_text
from supervisor.expect.markup import MarkupLostError, MarkupMismatchError
from supervisor.expect.operators import ABSENT, Absent, Kind, holds, holds_all
from supervisor.expect.paths import SelectError
from supervisor.expect.select import Selection, select_css, select_json, select_xpath
from supervisor.expect.spec import BodyRule, Contains, Count, CssRule, JsonRule, Match, Operator, TextRule, XpathRule
from supervisor.expect.strictjson import NotJsonError
from supervisor.model import CheckFailure, JsonValue
from supervisor.text import HIDDEN, MISSING, count, is_sensitive


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rule stands (`expect.body[1].json($.status)`), the phase, and what the sentence calls its value."""

    phase: str
    path: str
    subject: str

    def failure(
        self,
        message: str,
        expected: str | None = None,
        actual: str | None = None,
        kind: Literal["error", "mismatch"] = "mismatch",
    ) -> CheckFailure:
        """The failure at this place."""
        return CheckFailure(kind, self.phase, self.path, message, expected, actual)


def rule_path(rule: BodyRule) -> str:
    """The end of the generated path: the rule and its expression."""
    match rule:
        case TextRule():
            return rule.key
        case JsonRule():
            return f"json({rule.path})"
        case CssRule():
            return f"css({rule.selector})" if rule.attribute is None else f"css({rule.selector})@{rule.attribute}"
        case XpathRule():
            return f"xpath({rule.path})"
        case _:
            assert_never(rule)


def rule_subject(rule: BodyRule, source: str) -> str:
    """What the sentence calls the value: `$.status`, `h1`, `the body`."""
    match rule:
        case TextRule():
            return source
        case CssRule(attribute=str(attribute)):
            return f"{attribute} of {rule.selector}"
        case CssRule():
            return rule.selector
        case JsonRule() | XpathRule():
            return rule.path
        case _:
            assert_never(rule)


def judge_body_rule(rule: BodyRule, content: Content, place: Place) -> CheckFailure | None:
    """Judge one rule of `body`, `stdout` or `stderr`."""
    if isinstance(rule, TextRule):
        return _judge_text(rule.operators, content, place)
    kind = Kind.JSON if isinstance(rule, JsonRule) else Kind.TEXT
    expected = describe.expected(rule.operators, kind)
    try:
        selection = _select(rule, content)
    except NotJsonError as error:
        reason = f"the body is not JSON: {error}"
    except MarkupMismatchError as error:
        reason = str(error)
    except SelectError as error:
        reason = f"{place.subject}: {error}"
    except MarkupLostError as error:
        return place.failure(str(error), expected, kind="error")
    else:
        return _judge_selection(rule.operators, selection, rule.some, place)
    return place.failure(reason, expected, content.beginning() or describe.EMPTY)


def seen_by(rule: BodyRule, content: Content) -> tuple[str, str]:
    """For the trace of a rule that held: what it saw, and what it expected."""
    if isinstance(rule, TextRule):
        return describe.inline(content.text), describe.expected(rule.operators, Kind.TEXT)
    selection = _select(rule, content)
    expected = describe.expected(rule.operators, selection.kind)
    first = next(iter(selection.values), ABSENT)
    shown = MISSING if first is ABSENT else describe.inline(first)
    return (f"{shown} and {count(selection.nodes - 1)} more" if selection.nodes > 1 else shown), expected


def _select(rule: JsonRule | CssRule | XpathRule, content: Content) -> Selection:
    match rule:
        case JsonRule():
            return select_json(content.json(), rule.path, rule.dialect)
        case CssRule():
            tree = content.tree()
            return select_css(tree.root, tree.is_xml, rule.selector, rule.attribute)
        case XpathRule():
            return select_xpath(content.tree().root, rule.path, rule.namespaces)
        case _:
            assert_never(rule)


def _judge_text(operators: tuple[Operator, ...], content: Content, place: Place) -> CheckFailure | None:
    for each in operators:
        if isinstance(each, Contains) and isinstance(each.value, str):
            held: bool | None = content.contains(each.value)  # on the bytes: no need to decode a megabyte
        else:
            held = holds(each, content.text, Kind.TEXT, 1)
        if not held:
            expected = describe.expected(operators, Kind.TEXT)
            return place.failure(_text_sentence(each, content, place), expected, content.beginning() or describe.EMPTY)
    return None


def _text_sentence(each: Operator, content: Content, place: Place) -> str:
    text = content.text
    if not text and isinstance(each, Contains | Match):
        return f"{place.subject} is empty, expected: {describe.expected((each,), Kind.TEXT)}"
    return describe.sentence(place.subject, each, text, Kind.TEXT, 1)


def _judge_selection(
    operators: tuple[Operator, ...], selection: Selection, some: bool, place: Place
) -> CheckFailure | None:
    """Every value must hold, or one with `some`, and there must be at least one; no value is one absent value."""
    nodes, kind = selection.nodes, selection.kind
    if nodes == 0:
        return _judge_value(operators, ABSENT, kind, 0, place)
    first: JsonValue | Absent = ABSENT
    for position, value in enumerate(selection.values):
        if holds_all(operators, value, kind, nodes):
            if some:
                return None
            continue
        if not some:
            lead = f"value {position + 1} of {count(nodes)} of " if nodes > 1 else ""
            return _mismatch(operators, value, kind, nodes, place, lead)
        if position == 0:
            first = value
    if not some:
        return None
    lead = f"none of {count(nodes)} values holds; the first of " if nodes > 1 else ""
    return _mismatch(operators, first, kind, nodes, place, lead)


def _judge_value(
    operators: tuple[Operator, ...], value: JsonValue | Absent, kind: Kind, nodes: int, place: Place
) -> CheckFailure | None:
    if holds_all(operators, value, kind, nodes):
        return None
    return _mismatch(operators, value, kind, nodes, place, "")


def _mismatch(
    operators: tuple[Operator, ...],
    value: JsonValue | Absent,
    kind: Kind,
    nodes: int,
    place: Place,
    lead: str,
) -> CheckFailure:
    failing = next(each for each in operators if not holds(each, value, kind, nodes))
    subject = place.subject if isinstance(failing, Count) else f"{lead}{place.subject}"
    message = describe.sentence(subject, failing, value, kind, nodes)
    actual = describe.actual_of(failing, value, kind, nodes)
    return place.failure(message, describe.expected(operators, kind), actual)


def judge_header(
    operators: tuple[Operator, ...], headers: tuple[tuple[str, str], ...], name: str, place: Place
) -> CheckFailure | None:
    """Judge one header: its lines joined with `, ` (RFC 9110, 5.3). A sensitive value is in no failure."""
    wanted = name.lower()
    lines = [header_text(value.strip(" \t")) for key, value in headers if key.lower() == wanted]
    value: str | Absent = ", ".join(lines) if lines else ABSENT
    failure = _judge_value(operators, value, Kind.TEXT, len(lines), place)
    if failure is None or not is_sensitive(name):
        return failure
    expected = describe.expected(operators, Kind.TEXT, hide=True)
    if value is ABSENT:
        return place.failure(f"{place.subject} is missing", expected, MISSING)
    return place.failure(f"{place.subject} is not what is expected (its value is not shown)", expected, HIDDEN)
