"""Operators against a table, and against an oracle written from the words of the design, not from the code."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given

from supervisor.expect.operators import ABSENT, Kind, holds, holds_all, json_equal, read_number
from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not, Operator
from tests.strategies import json_values, operators, scalars

# --- the oracle: True, False or "can't say", by the sentences of the documentation -------------------------------

UNSAID = "can't say"


def _canonical(value: Any) -> Any:
    """A form in which Python's own equality is that of JSON."""
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean", value)
        case int() | float() | Decimal():
            return ("number", Fraction(value))
        case str():
            return ("text", value)
        case list():
            return ("array", tuple(_canonical(item) for item in value))
        case dict():
            return ("object", frozenset((key, _canonical(item)) for key, item in value.items()))
    raise AssertionError(value)


def _decimal(text: str) -> Fraction | None:
    if not text or not text.isascii() or any(c not in "0123456789+-.eE" for c in text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if "e" in text.lower() or "." in text:
        approximately = float(text)
        return Fraction(approximately) if math.isfinite(approximately) else None
    return Fraction(number)


def _number(value: Any, kind: Kind) -> Fraction | None:
    if isinstance(value, bool) or value is None or isinstance(value, list | dict):
        return None
    if isinstance(value, str):
        return _decimal(value.strip() if kind is Kind.TEXT else value)
    return Fraction(value)


def _oracle_not(each: Not, value: Any, kind: Kind, nodes: int) -> Any:
    answers = [oracle(inner, value, kind, nodes) for inner in each.operators]
    if UNSAID in answers:
        return UNSAID
    return False in answers


def oracle(each: Operator, value: Any, kind: Kind, nodes: int) -> Any:
    match each:
        case Not():
            return _oracle_not(each, value, kind, nodes)
        case Count(inner):
            return all(oracle(one, nodes, Kind.JSON, 1) is True for one in inner)
        case Exists(want):
            return UNSAID if kind is Kind.SCALAR else (value is not ABSENT) == want
    if value is ABSENT:
        return UNSAID
    match each:
        case Equals(wanted) if kind is Kind.TEXT:
            if isinstance(wanted, str):
                return re.sub(r"[\r\n]+\Z", "", value) == re.sub(r"[\r\n]+\Z", "", wanted)
            if isinstance(wanted, bool) or not isinstance(wanted, int | float):
                return False
            return _number(value, kind) == Fraction(wanted)
        case Equals(wanted):
            return _canonical(value) == _canonical(wanted)
        case Contains(wanted):
            if isinstance(value, str):
                return isinstance(wanted, str) and value.find(wanted) != -1
            return isinstance(value, list) and _canonical(wanted) in [_canonical(item) for item in value]
        case Match(pattern):
            return isinstance(value, str) and bool(re.findall(pattern, value))
        case Empty(want):
            is_empty = (
                value in (None, [], {}) if not isinstance(value, str) else re.fullmatch(r"\s*", value) is not None
            )
            return bool(is_empty and not isinstance(value, bool | int | float)) == want
        case Compare(op, limit):
            number = _number(value, kind)
            if number is None:
                return False
            order = (number > Fraction(limit)) - (number < Fraction(limit))
            return order in {"gte": (0, 1), "lte": (0, -1), "gt": (1,), "lt": (-1,)}[op]
    raise AssertionError(each)


def _said(answer: bool | None) -> Any:
    return UNSAID if answer is None else answer


@given(operators, json_values)
def test_operators_agree_with_the_oracle_on_json(each: Operator, value: Any) -> None:
    """Every operator on every typed value."""
    assert _said(holds(each, value, Kind.JSON, 1)) == oracle(each, value, Kind.JSON, 1)


@given(operators, scalars.map(str))
def test_operators_agree_with_the_oracle_on_text(each: Operator, value: str) -> None:
    """Every operator on headers, outputs and texts of nodes."""
    assert _said(holds(each, value, Kind.TEXT, 2)) == oracle(each, value, Kind.TEXT, 2)


@given(operators, scalars)
def test_operators_agree_with_the_oracle_on_scalars(each: Operator, value: Any) -> None:
    """Every operator on what an XPath expression gives."""
    assert _said(holds(each, value, Kind.SCALAR, 1)) == oracle(each, value, Kind.SCALAR, 1)


def _speaks_of_values(each: Operator) -> bool:
    """Whether the operator needs a value: all but exists and count, and `not` over nothing but those."""
    if isinstance(each, Not):
        return any(_speaks_of_values(inner) for inner in each.operators)
    return not isinstance(each, Exists | Count)


@given(operators, operators)
def test_an_absent_value_matches_nothing_that_needs_a_value(first: Operator, second: Operator) -> None:
    """Not even under `not`: only exists: false and count hold on it."""
    for kind in (Kind.JSON, Kind.TEXT):
        if _speaks_of_values(first) or _speaks_of_values(second):
            assert not holds_all((first, second), ABSENT, kind, 0)
        assert not holds_all((first, Exists(True)), ABSENT, kind, 0)


@given(operators, json_values)
def test_not_is_the_opposite_on_a_value_that_is_there(each: Operator, value: Any) -> None:
    """`not` holds exactly where the operator does not; twice is once."""
    answer = holds(each, value, Kind.JSON, 1)
    assert holds(Not((each,)), value, Kind.JSON, 1) == (not answer)
    assert holds(Not((Not((each,)),)), value, Kind.JSON, 1) == answer


@given(operators, operators, json_values)
def test_not_negates_all_of_them_together(first: Operator, second: Operator, value: Any) -> None:
    """`not: {A, B}` is not (A and B)."""
    both = holds_all((first, second), value, Kind.JSON, 1)
    assert holds(Not((first, second)), value, Kind.JSON, 1) == (not both)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("kind", [Kind.JSON, Kind.SCALAR])
@given(each=operators)
def test_what_is_no_finite_number_never_holds(value: float, kind: Kind, each: Operator) -> None:
    """NaN and the infinities that overflow or XPath give: no comparison holds, and neither does its opposite."""
    if _speaks_of_values(each):
        assert not holds(each, value, kind, 1)


@given(json_values)
def test_equality_is_that_of_json(value: Any) -> None:
    """A value equals itself, and nothing of another type."""
    assert json_equal(value, value)
    assert not json_equal(value, [value])
    assert not json_equal({"a": value}, {"b": value})
    assert not json_equal(value, str(value)) or isinstance(value, str)


@pytest.mark.parametrize(
    ("text", "number"),
    [("1", 1), ("-1", -1), ("+1", 1), ("1.", 1), (".5", 0.5), ("1e3", 1000), ("007", 7), ("9" * 5000, 10**5000 - 1),
     ("1.5E-1", 0.15), ("-0", 0)],
    ids=lambda value: str(value)[:8] if isinstance(value, str) else "",
)  # fmt: skip
def test_text_that_is_a_number(text: str, number: float) -> None:
    """Decimal numbers as people and programs write them."""
    assert read_number(text) == number


@pytest.mark.parametrize(
    "text", ["", " ", ".", "e5", "1e", "1 2", "1_0", "0x1", "inf", "-inf", "nan", "1e999", "½", "１", "1\n"], ids=repr
)
def test_text_that_is_no_number(text: str) -> None:
    """What is not wholly a finite decimal number."""
    assert read_number(text) is None


def test_text_sources_ignore_line_ends_and_compare_numbers() -> None:
    """Headers, outputs and texts of nodes: `equals` and the order operators."""
    assert holds(Equals("ok"), "ok\r\n\n", Kind.TEXT, 1)
    assert holds(Equals("ok\n"), "ok", Kind.TEXT, 1)
    assert not holds(Equals("ok"), " ok", Kind.TEXT, 1)
    assert holds(Equals(42), "42.0\n", Kind.TEXT, 1)
    assert holds(Compare("gte", 40), " 42 \n", Kind.TEXT, 1)
    assert not holds(Equals(True), "true", Kind.TEXT, 1)
    assert not holds(Equals("ok"), "ok\n", Kind.JSON, 1)
    assert not holds(Compare("gte", 40), "42 ", Kind.JSON, 1)
