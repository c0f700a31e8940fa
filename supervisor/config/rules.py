"""The fields of `expect:` and `warn:`: status, headers, certificate and the rules on bodies and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from lxml import etree
from marshmallow import ValidationError

from supervisor.config.fields import Typed, found
from supervisor.config.operators import (
    OPERATORS,
    Errors,
    Source,
    check_css,
    check_json_path,
    check_xpath,
    compiled,
    negate,
    pattern,
    read_operators,
    turn,
    under,
)
from supervisor.config.problems import AtKey
from supervisor.config.strict import unknown_key
from supervisor.config.web_fields import header_name_problem
from supervisor.expect.select import compiled_xpath, evaluate
from supervisor.expect.spec import (
    BodyRule,
    CssRule,
    Equals,
    Exists,
    HeaderRule,
    JsonRule,
    Match,
    Not,
    Operator,
    StatusRange,
    TextRule,
    XpathRule,
)

_BARE = tuple(name for name in OPERATORS if name not in ("not", "exists", "count"))
_TEXT_KEYS = ("contains", "regex", "not", *(name for name in _BARE if name != "contains"))
_BODY_KEYS = (*_TEXT_KEYS, "json", "css", "xpath")
_DOCUMENTS = ("json", "css", "xpath")
_STATUS = re.compile(r"(?P<class>[1-9])xx|(?P<low>[1-9][0-9]{2})-(?P<high>[1-9][0-9]{2})", re.IGNORECASE)


class Status(Typed):
    """`200`, `"2xx"`, `"200-299"`."""

    expected = "a status: a number from 100 to 999, 2xx, or a range such as 200-299"
    schema: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 100, "maximum": 999},
            {"type": "string", "pattern": "^([1-9][xX][xX]|[1-9][0-9]{2}-[1-9][0-9]{2})$"},
        ]
    }

    def read(self, value: Any) -> StatusRange:
        if isinstance(value, int) and not isinstance(value, bool) and 100 <= value <= 999:
            return StatusRange(value, value, str(value))
        if isinstance(value, str) and (match := _STATUS.fullmatch(value)):
            if match["class"]:
                low = int(match["class"]) * 100
                return StatusRange(low, low + 99, str(value))
            low, high = int(match["low"]), int(match["high"])
            if low > high:
                raise ValidationError(f"the range is empty: write {high}-{low}")
            return StatusRange(low, high, str(value))
        number = isinstance(value, str) and re.fullmatch("[1-9][0-9]{2}", value)
        raise self.wrong(value, f"write {value} without quotes" if number else "")


class HeaderRules(Typed):
    """Header names with a plain text (= equals) or operators."""

    expected = "a mapping of header names to a text or to operators"
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "additionalProperties": {"anyOf": [{"type": ["string", "number"]}, {"$ref": "#/$defs/headerMatcher"}]},
    }

    def read(self, value: Any) -> tuple[HeaderRule, ...]:
        if not isinstance(value, dict):
            raise self.wrong(value)
        errors: Errors = {}
        rules: list[HeaderRule] = []
        seen: set[str] = set()
        for name, written in value.items():
            problem = header_name_problem(name)
            if not problem and name.lower() in seen:
                problem = AtKey("the header stands twice: names are compared without regard to case")
            seen.add(name.lower())
            if problem:
                errors[name] = [problem]
                continue
            try:
                rules.append(HeaderRule(str(name), _matcher(written)))
            except ValidationError as exc:
                errors[name] = exc.messages
        if errors:
            raise ValidationError(errors)
        return tuple(rules)


def _matcher(written: Any) -> tuple[Operator, ...]:
    if isinstance(written, dict):
        if not written:
            raise ValidationError("expected operators such as {contains: json}, found an empty mapping")
        return read_operators(written, "header")
    if isinstance(written, bool):
        raise ValidationError(f"a text is compared, and {str(written).lower()} is a boolean: quote it")
    if not isinstance(written, str | int | float):
        raise ValidationError(f"expected a text or operators such as {{contains: json}}, found {found(written)}")
    return (Equals(str(written) if isinstance(written, str) else written),)


class Rules(Typed):
    """A list of rules on a text; `documents` allows json, css and xpath."""

    expected = "a list of rules"

    def __init__(self, *, documents: bool, **kwargs: Any) -> None:
        self.documents = documents
        super().__init__(**kwargs)

    def read(self, value: Any) -> tuple[BodyRule, ...]:
        if not isinstance(value, list):
            hint = ": begin each rule with `- `, as in `- contains: ok`" if isinstance(value, dict | str) else ""
            raise ValidationError(f"expected a list of rules, found {found(value)}{hint}")
        if not value:
            raise ValidationError("the list is empty: write a rule, or remove the key")
        errors: Errors = {}
        rules: list[BodyRule] = []
        for index, item in enumerate(value):
            try:
                rules.append(self._rule(item))
            except ValidationError as exc:
                errors[index] = exc.messages
        if errors:
            raise ValidationError(errors)
        return tuple(rules)

    def json_schema(self) -> dict[str, Any]:
        name = "bodyRule" if self.documents else "textRule"
        return {"type": "array", "minItems": 1, "items": {"$ref": f"#/$defs/{name}"}}

    def _rule(self, item: Any) -> BodyRule:
        if not isinstance(item, dict):
            hint = (
                f": write - contains: {item}"
                if isinstance(item, str) and not hasattr(item, "shown") and len(item) < 40
                else ""
            )
            raise ValidationError(f"expected a rule such as `contains: ok`, found {found(item)}{hint}")
        if not item:
            raise ValidationError("the rule is empty: expected one such as `contains: ok`")
        keys = _BODY_KEYS if self.documents else _TEXT_KEYS
        known = [key for key in item if key in keys]
        _one_rule_only(item, known)
        if not known:
            raise ValidationError({key: [unknown_key(key, list(keys), self._elsewhere())] for key in item})
        key = str(next(iter(item)))
        value = item[key]
        if key in _DOCUMENTS and self.documents:
            return under(key, lambda: _DOCUMENT_READERS[key](value, False))
        if key == "not" and len(item) == 1:
            return under(key, lambda: self._negated(value))
        if key == "regex":
            return TextRule(key, (Match(under(key, lambda: pattern(value))),))
        return TextRule(key, read_operators(item, "text"))

    def _negated(self, inner: Any) -> BodyRule:
        if not isinstance(inner, dict) or not inner:
            raise ValidationError(
                f"expected a rule or operators, found {found(inner) if inner != {} else 'an empty mapping'}"
            )
        _one_rule_only(inner, list(inner))
        key = str(next(iter(inner)))
        if key in _DOCUMENTS and self.documents:
            return under(key, lambda: _DOCUMENT_READERS[key](inner[key], True))
        return TextRule("not", (negate(inner, "text"),))

    def _elsewhere(self) -> dict[str, str]:
        elsewhere = {
            "exists": "the text is always there: use empty: true or empty: false",
            "count": "count is the number of nodes of a json, css or xpath rule: a text has none",
        }
        if not self.documents:
            message = "json, css and xpath judge an HTTP body; a command's output takes contains, regex and operators"
            elsewhere |= dict.fromkeys(_DOCUMENTS, message)
        return elsewhere


def _one_rule_only(item: dict[str, Any], known: list[str]) -> None:
    rules = [key for key in known if key in ("contains", "regex", *_DOCUMENTS)]
    if len(rules) > 1 or (rules and rules[0] != "contains" and len(item) > 1):
        first, second = list(item)[:2]
        inside = second in OPERATORS and first in _DOCUMENTS
        where = "put the operator inside the rule" if inside else "write one item for each"
        raise ValidationError({second: [AtKey(f"{first} and {second} stand in one item: {where}")]})


def _parts(
    value: Any, kind: Source, name: str, extra: tuple[str, ...], negated: bool
) -> tuple[str, bool, tuple[Operator, ...]]:
    """Expression, `some` and operators: what the three kinds of rules have in common."""
    if not isinstance(value, dict):
        hint = (
            f": write {{{name}: {value}}}"
            if isinstance(value, str) and not hasattr(value, "shown") and len(value) < 60
            else ""
        )
        raise ValidationError(f"expected a mapping with `{name}`, found {found(value)}{hint}")
    errors: Errors = {}
    expression = value.get(name)
    if name not in value:
        errors[name] = [f"is missing: expected the {name} to look for"]
    elif not isinstance(expression, str):
        errors[name] = [f"expected a text, found {found(expression)}: quote it"]
    some = value.get("some", False)
    if not isinstance(some, bool):
        errors["some"] = [f"expected true or false, found {found(some)}"]
    operators: tuple[Operator, ...] = ()
    try:
        operators = read_operators(value, kind, extra=(name, "some", *extra))
    except ValidationError as exc:
        errors |= exc.messages if isinstance(exc.messages, dict) else {}
    if errors:
        raise ValidationError(errors)
    operators = operators or (Exists(True),)
    return str(expression), some, turn(operators) if negated else operators


def _json(value: Any, negated: bool) -> JsonRule:
    path, some, operators = _parts(value, "json", "path", ("dialect",), negated)
    dialect = value.get("dialect", "rfc9535")
    if dialect not in ("rfc9535", "jsonpath-ng"):
        raise ValidationError({"dialect": [f"expected rfc9535 or jsonpath-ng, found {found(dialect)}"]})
    shown = getattr(value["path"], "shown", None)
    under("path", lambda: compiled(check_json_path, path, str(dialect), shown))
    return JsonRule(path, operators, some, str(dialect))


def _css(value: Any, negated: bool) -> CssRule:
    selector, some, operators = _parts(value, "css", "selector", ("attribute",), negated)
    attribute = value.get("attribute")
    if attribute is not None and (not isinstance(attribute, str) or not attribute.strip()):
        raise ValidationError({"attribute": [f"expected the name of an attribute, found {found(attribute)}"]})
    if "attribute" in value and attribute is None:
        raise ValidationError({"attribute": ["is empty: expected the name of an attribute"]})
    under("selector", lambda: compiled(check_css, selector))
    return CssRule(selector, operators, None if attribute is None else str(attribute), some)


def _xpath(value: Any, negated: bool) -> XpathRule:
    path, some, operators = _parts(value, "xpath", "path", ("namespaces",), negated)
    namespaces = value.get("namespaces", {})
    if not isinstance(namespaces, dict) or not all(isinstance(uri, str) and uri for uri in namespaces.values()):
        raise ValidationError({"namespaces": ["expected a mapping of prefixes to namespace URIs"]})
    pairs = tuple((str(prefix), str(uri)) for prefix, uri in namespaces.items())
    under("path", lambda: compiled(check_xpath, path, pairs))
    if any(_compares_boolean(operator) for operator in operators) and _gives_nodes(path, pairs):
        raise ValidationError("the expression gives the text of nodes, and a boolean is compared: quote true or false")
    return XpathRule(path, operators, pairs, some)


def _compares_boolean(operator: Operator) -> bool:
    if isinstance(operator, Not):
        return any(_compares_boolean(inner) for inner in operator.operators)
    return isinstance(operator, Equals) and isinstance(operator.value, bool)


def _gives_nodes(path: str, namespaces: tuple[tuple[str, str], ...]) -> bool:
    return isinstance(evaluate(compiled_xpath(path, namespaces), etree.Element("html")), list)


_DOCUMENT_READERS: dict[str, Callable[[Any, bool], BodyRule]] = {"json": _json, "css": _css, "xpath": _xpath}
