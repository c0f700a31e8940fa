"""Words for operators and values: `expected`, `actual` and the sentences of failures. Pure.

A sentence holds a value whole or not at all: cutting comes after masking (worker.py), so half a secret never gets out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from supervisor.expect.operators import ABSENT, Absent, Kind, is_number, read_number
from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not, Operator
from supervisor.model import JsonValue
from supervisor.text import HIDDEN, MISSING, count, show

EMPTY = "(empty)"
INLINE = 120  # longer values are told by their size; `actual` and `expected` show their beginning
ACTUAL_LIMIT = 65536
_SIGNS = {"gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}


def expected(operators: Iterable[Operator], kind: Kind, *, hide: bool = False) -> str:
    """What must hold, as `failure.expected` says it."""
    return " and ".join(_one(each, kind, hide=hide) for each in operators)


def _one(each: Operator, kind: Kind, *, hide: bool) -> str:
    match each:
        case Equals():
            if hide:
                return HIDDEN
            return each.value if kind is Kind.TEXT and isinstance(each.value, str) and each.value else show(each.value)
        case Contains():
            return f"contains {show(each.value)}"
        case Match():
            return f"matches {each.pattern}"
        case Empty():
            return "empty" if each.want else "not empty"
        case Exists():
            return "exists" if each.want else "does not exist"
        case Compare():
            return f"{_SIGNS[each.op]} {show(each.value)}"
        case Count():
            return f"count {expected(each.operators, Kind.JSON)}"
        case Not():
            return f"not ({expected(each.operators, kind, hide=hide)})"
        case _:
            assert_never(each)


def actual(value: JsonValue | Absent, kind: Kind) -> str:
    """What was there, as `failure.actual` says it: JSON for typed values, the text itself for text."""
    if value is ABSENT:
        return MISSING
    if kind is Kind.TEXT and isinstance(value, str):
        return value[:ACTUAL_LIMIT] or EMPTY
    if isinstance(value, str) and len(value) > ACTUAL_LIMIT:
        value = value[:ACTUAL_LIMIT]
    return show(value)


def actual_of(failing: Operator, value: JsonValue | Absent, kind: Kind, nodes: int) -> str:
    """`actual` for the operator that does not hold: of `count`, the number of values."""
    return count(nodes) if isinstance(failing, Count) else actual(value, kind)


def sentence(subject: str, each: Operator, value: JsonValue | Absent, kind: Kind, nodes: int) -> str:
    """Why this operator does not hold: `$.status is "starting", expected "ok"`."""
    if isinstance(each, Count):
        noun = "value" if nodes == 1 else "values"
        return f"{subject} gives {count(nodes)} {noun}, expected {expected(each.operators, Kind.JSON)}"
    if value is ABSENT:
        if isinstance(each, Exists):
            return f"{subject} is missing"
        return f"{subject} is missing, expected{_wanted(each, kind)}"
    shown = inline(value)
    match each:
        case Equals() | Compare() | Not():
            return f"{subject} is {shown}, expected{_wanted(each, kind)}{_hint(each, value, kind)}"
        case Contains():
            return f"{subject} is {shown}, which does not contain {inline(each.value)}{_hint(each, value, kind)}"
        case Match():
            return f"{subject} is {shown}, which does not match {short(each.pattern)}{_hint(each, value, kind)}"
        case Empty():
            return f"{subject} is {shown}, expected it {'' if each.want else 'not '}to be empty"
        case Exists() if kind is Kind.SCALAR:
            return (
                f"{subject} gives {shown}, a {type_name(value)}, no nodes that could be missing:"
                " write another operator than exists, such as equals"
            )
        case Exists():
            return f"{subject} is {shown}, expected it not to exist"
        case _:
            assert_never(each)


def _wanted(each: Operator, kind: Kind) -> str:
    if isinstance(each, Equals):
        return f" {inline(each.value)}"
    wanted = short(expected((each,), kind))
    return f" {wanted}" if isinstance(each, Compare | Not) else f": {wanted}"


def short(text: str) -> str:
    """A rule within a sentence: as it is, or by its size when that is long."""
    return text if len(text) <= 2 * INLINE else f"a rule of {count(len(text))} characters"


def inline(value: JsonValue) -> str:
    """A value within a sentence: as JSON, or by its size when that is long."""
    if isinstance(value, str):
        return show(value) if len(value) <= INLINE else f"a text of {count(len(value))} characters"
    if isinstance(value, list | tuple):
        return _inline_container(value, "an array", "elements")
    if isinstance(value, dict):
        return _inline_container(value, "an object", "members")
    shown = show(value)
    return shown if len(shown) <= INLINE else f"a number of {count(len(shown))} characters"


def _inline_container(value: JsonValue, what: str, parts: str) -> str:
    shown = show(value) if len(value) <= INLINE else ""
    return shown if 0 < len(shown) <= INLINE else f"{what} of {count(len(value))} {parts}"


def type_name(value: JsonValue) -> str:
    """The word of JSON for the type."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "number"
    if isinstance(value, str):
        return "text"
    return "array" if isinstance(value, list | tuple) else "object"


def _hint(each: Operator, value: JsonValue, kind: Kind) -> str:
    """Why it does not hold, where that is not plain to see: the types differ."""
    found = type_name(value)
    match each:
        case Equals() if kind is not Kind.TEXT and found != type_name(each.value):
            return f" (found {found}, expected {type_name(each.value)}: JSON is typed)"
        case Compare() if not is_number(value):
            if not isinstance(value, str):
                return f" (found {found}, expected a number)"
            if read_number(value.strip() if kind is Kind.TEXT else value) is None:
                return " (the text is not a finite decimal number)"
        case Match() if not isinstance(value, str):
            return f" (found {found}: match takes text only)"
        case Contains() if found not in ("text", "array"):
            return f" (found {found}: contains takes text and arrays)"
    return ""


def number(value: float) -> str:
    """A number of the configuration as it was written: 7, not 7.0."""
    return show(value)
