"""Operators on one value: does it hold? Pure tables of truth, no messages (describe.py) and no selecting (select.py).

Three answers: True, False, and None where the operator can't be evaluated on the value (it is absent, or NaN). None is
no match, under `not` too: what was never there to be looked at must not turn into a green light.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any, Final, assert_never

from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not, Operator
from supervisor.model import JsonValue


class Kind(Enum):
    """Where a value comes from, which decides how it is compared (design section 5)."""

    JSON = "json"  # typed
    TEXT = "text"  # header, output, text of a node: always str
    SCALAR = (
        "scalar"  # number, boolean or string that an XPath expression gave: typed, and nothing that could be absent
    )


class Absent(Enum):
    """The value that is not there."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gte": operator.ge,
    "lte": operator.le,
    "gt": operator.gt,
    "lt": operator.lt,
}
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_INT_DIGITS = 4300  # Python refuses to read longer integers from text

Number = int | float | Decimal


@lru_cache(maxsize=4096)
def compiled_regex(pattern: str) -> re.Pattern[str]:
    """The compiled pattern; raises re.error. The loader has shown its warnings, the worker is not told again."""
    return re.compile(pattern)


def is_number(value: object) -> bool:
    """Whether this is a number of JSON; `True` is none."""
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def read_int(digits: str) -> int | Decimal:
    """An integer of any size, exactly. Long ones become Decimals: reading them as int takes quadratic time."""
    return int(digits) if len(digits) <= _INT_DIGITS else Decimal(digits)


def read_number(text: str) -> Number | None:
    """The number that is the whole text, or None: `1_000`, `inf`, `0x10` and `٣` are none."""
    if not _DECIMAL.fullmatch(text):
        return None
    if not any(char in text for char in ".eE"):
        return read_int(text)
    number = float(text)
    return number if math.isfinite(number) else None


def json_equal(left: JsonValue, right: JsonValue) -> bool:
    """Equality of JSON: 1 = 1.0, true ≠ 1, "1" ≠ 1, order of keys free; at any depth, so without recursion. A number
    too large to be read (1e400 is infinite here) equals nothing, as nothing says which it was."""
    stack = [(left, right)]
    while stack:
        a, b = stack.pop()
        if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None:
            if a is not b:
                return False
        elif isinstance(a, dict):
            if not isinstance(b, dict) or a.keys() != b.keys():
                return False
            stack.extend((value, b[key]) for key, value in a.items())
        elif isinstance(a, list | tuple):
            if not isinstance(b, list | tuple) or len(a) != len(b):
                return False
            stack.extend(zip(a, b, strict=True))
        elif a != b or (isinstance(a, float) and math.isinf(a)):
            return False
    return True


def holds_all(operators: Iterable[Operator], value: JsonValue | Absent, kind: Kind, nodes: int) -> bool:
    """Whether every operator holds on the value, which is one of `nodes` values."""
    return all(holds(each, value, kind, nodes) for each in operators)


def holds(each: Operator, value: JsonValue | Absent, kind: Kind, nodes: int) -> bool | None:
    """Whether the operator holds; None when it can't be said."""
    if isinstance(each, Count):
        return holds_all(each.operators, nodes, Kind.JSON, 1)
    if isinstance(each, Not):
        return _holds_not(each, value, kind, nodes)
    if isinstance(each, Exists):
        return None if kind is Kind.SCALAR else each.want == (value is not ABSENT)
    if value is ABSENT or (isinstance(value, float) and not math.isfinite(value)):
        return None
    match each:
        case Equals():
            return _equals_text(value, each.value) if kind is Kind.TEXT else json_equal(value, each.value)
        case Contains():
            return _contains(value, each.value)
        case Match():
            return isinstance(value, str) and compiled_regex(each.pattern).search(value) is not None
        case Empty():
            return each.want == is_empty(value)
        case Compare():
            return _compare(each, value, kind)
        case _:
            assert_never(each)


def _holds_not(each: Not, value: JsonValue | Absent, kind: Kind, nodes: int) -> bool | None:
    answers = [holds(inner, value, kind, nodes) for inner in each.operators]
    return None if None in answers else not all(answers)


def is_empty(value: JsonValue) -> bool:
    """null, "", white space only, [] and {}."""
    if isinstance(value, str):
        return not value or value.isspace()
    return value is None or (isinstance(value, list | tuple | dict) and not value)


def _equals_text(value: str, expected: JsonValue) -> bool:
    if isinstance(expected, str):
        return value.rstrip("\r\n") == expected.rstrip("\r\n")
    if not is_number(expected):
        return False
    number = read_number(value.strip())
    return number is not None and number == expected


def _contains(value: JsonValue, expected: JsonValue) -> bool:
    if isinstance(value, str):
        return isinstance(expected, str) and expected in value
    return isinstance(value, list | tuple) and any(json_equal(element, expected) for element in value)


def _compare(each: Compare, value: JsonValue, kind: Kind) -> bool:
    number = value
    if isinstance(value, str):
        number = read_number(value.strip() if kind is Kind.TEXT else value)
    return number is not None and is_number(number) and _COMPARE[each.op](number, each.value)
