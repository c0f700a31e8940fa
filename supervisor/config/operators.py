"""Operators as written -> expect.spec operators. A matcher is a mapping of operators that must all hold."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeVar

from marshmallow import ValidationError

from supervisor.config.fields import found
from supervisor.config.nodes import plain
from supervisor.config.strict import unknown_key
from supervisor.expect import checks
from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not, Operator

Source = Literal["text", "header", "json", "css", "xpath"]
OPERATORS = ("equals", "contains", "match", "empty", "exists", "gte", "lte", "gt", "lt", "count", "not")
COMPARISONS = ("gte", "lte", "gt", "lt")
Errors = dict[int | str, Any]
T = TypeVar("T")

check_regex = lru_cache(4096)(checks.check_regex)
check_json_path = lru_cache(4096)(checks.check_json_path)
check_css = lru_cache(4096)(checks.check_css)
check_xpath = lru_cache(4096)(checks.check_xpath)


def compiled(check: Callable[..., None], *args: Any) -> None:
    """Run a check of `expect`; its ValueError becomes ours."""
    try:
        check(*args)
    except ValueError as exc:
        raise ValidationError(str(exc)) from exc


def pattern(value: Any) -> str:
    """A regular expression that compiles."""
    if not isinstance(value, str) or not value:
        hint = ": quote it" if isinstance(value, int | float) else ""
        raise ValidationError(
            f"expected a regular expression (a text), found {found(value) if value != '' else 'an empty text'}{hint}"
        )
    compiled(check_regex, str(value))
    return str(value)


def read_operators(written: dict[str, Any], source: Source, *, extra: tuple[str, ...] = ()) -> tuple[Operator, ...]:
    """The operators of a matcher, in the order written; keys in `extra` belong to the rule around it.

    Raises ValidationError with the problems of every key."""
    errors: Errors = {}
    operators: list[Operator] = []
    for key, value in written.items():
        if key in extra:
            continue
        try:
            operators.append(_operator(key, value, source, extra))
        except ValidationError as exc:
            errors[key] = exc.messages
    if not errors and len(operators) > 1 and any(op == Exists(False) for op in operators):
        errors["exists"] = [
            "exists: false stands alone: an absent value satisfies no other operator; remove one of them"
        ]
    if errors:
        raise ValidationError(errors)
    return tuple(operators)


def _operator(key: str, value: Any, source: Source, extra: tuple[str, ...]) -> Operator:
    match key:
        case "equals":
            return Equals(_equal(value, source))
        case "contains":
            return Contains(_part(value, source))
        case "match" | "regex" if key == "match" or source == "text":
            return Match(pattern(value))
        case "empty":
            return Empty(_flag(value))
        case "exists":
            if source == "text":
                raise ValidationError("the text is always there: use empty: true or empty: false")
            return Exists(_flag(value))
        case "gte" | "lte" | "gt" | "lt":
            return Compare(key, _number(value))
        case "count":
            return Count(_count(value, source))
        case "not":
            return negate(value, source)
    if key == "regex":
        raise ValidationError(unknown_key(key, [*OPERATORS, *extra], {"regex": "here the operator is called match"}))
    raise ValidationError(unknown_key(key, [*OPERATORS, *extra], {}))


def negate(value: Any, source: Source) -> Operator:
    """`not: {OPS}`: not all of OPS hold on the value. On `exists` and `count` the operator itself is turned round."""
    if not isinstance(value, dict) or not value:
        raise ValidationError(
            f"expected a mapping of operators, found {found(value) if value != {} else 'an empty one'}"
        )
    turned = turn(read_operators(value, source))
    return turned[0]


def turn(operators: tuple[Operator, ...]) -> tuple[Operator, ...]:
    """The one operator that holds where not all of `operators` do (see expect.spec)."""
    if len(operators) == 1:
        only = operators[0]
        if isinstance(only, Exists):
            return (Exists(not only.want),)
        if isinstance(only, Count):
            return (Count((Not(only.operators),)),)
    if any(isinstance(operator, Count) for operator in operators):
        raise ValidationError({"count": ["count stands alone under not: it judges the number of nodes, not a value"]})
    return (Not(operators),)


def under(key: str, read: Callable[[], T]) -> T:
    """Run a reader; its problems stand under `key`."""
    try:
        return read()
    except ValidationError as exc:
        raise ValidationError({key: exc.messages}) from exc


def _has_no_number(value: Any) -> bool:
    """Whether .nan or .inf stands in it, however deep: nesting is limited when the file is read."""
    if isinstance(value, dict | list):
        return any(map(_has_no_number, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float) and not math.isfinite(value)


def _equal(value: Any, source: Source) -> Any:
    if _has_no_number(value):
        raise ValidationError("nothing equals .nan or .inf: expected a finite number, a text or another JSON value")
    if source in ("json", "xpath"):
        if source == "xpath" and (value is None or isinstance(value, dict | list)):
            raise ValidationError(f"expected a text, a number or a boolean, found {found(value)}")
        return plain(value)
    if isinstance(value, bool):
        raise ValidationError(f"a text is compared, and {str(value).lower()} is a boolean: quote it")
    if not isinstance(value, str | int | float):
        raise ValidationError(f"a text is compared: expected a text or a number, found {found(value)}")
    return plain(value)


def _part(value: Any, source: Source) -> Any:
    if source == "json":
        return _equal(value, source)
    if not isinstance(value, str):
        quote = ": quote it" if isinstance(value, bool | int | float) else ""
        raise ValidationError(f"expected a text, found {found(value)}{quote}")
    if not value:
        raise ValidationError("every text contains the empty text: expected a text that is not empty")
    return str(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValidationError(f"expected true or false, found {found(value)}")
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        quoted = ": write the number without quotes and without unit" if isinstance(value, str) else ""
        raise ValidationError(f"expected a number, found {found(value)}{quoted}")
    return value


def _count(value: Any, source: Source) -> tuple[Operator, ...]:
    if source in ("text", "header"):
        raise ValidationError("count is the number of nodes of a json, css or xpath rule: a text has none")
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return (Equals(value),)
    if not isinstance(value, dict) or not value:
        raise ValidationError(
            f"expected a whole number, 0 or more, or a mapping such as {{gte: 3}}, found {found(value)}"
        )
    errors: Errors = {}
    operators: list[Operator] = []
    for key, bound in value.items():
        try:
            operators.append(_bound(key, bound))
        except ValidationError as exc:
            errors[key] = exc.messages
    if errors:
        raise ValidationError(errors)
    return tuple(operators)


def _bound(key: str, value: Any) -> Operator:
    if key == "equals":
        return Equals(_number(value))
    if key in COMPARISONS:
        return Compare(key, _number(value))
    raise ValidationError(unknown_key(key, ["equals", *COMPARISONS], {}))
