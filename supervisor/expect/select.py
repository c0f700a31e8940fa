"""Expressions to values: JSONPath, CSS and XPath, compiled once per process. Pure.

Compiling raises ValueError with a sentence (load time); selecting raises SelectError with one (check time).
"""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cssselect import ExpressionError, GenericTranslator, HTMLTranslator, SelectorError
from cssselect.parser import Element
from cssselect.xpath import XPathExpr
from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch, NodeList
from jsonpath.filter import UNDEFINED
from jsonpath.segments import JSONPathChildSegment
from jsonpath.selectors import IndexSelector, NameSelector
from jsonpath_ng.exceptions import JSONPathError as NgError
from jsonpath_ng.ext.parser import parse as parse_ng
from jsonpath_ng.ext.string import DefintionInvalid
from lxml import etree

from supervisor.expect import iregexp
from supervisor.expect.operators import ABSENT, Absent, Kind, is_number, json_equal
from supervisor.model import JsonValue

_CACHE = 2048
EXSLT_REGEXP = "http://exslt.org/regular-expressions"


class SelectError(Exception):
    """The expression can't be applied to this document; `str()` says why. A mismatch of the rule."""


@dataclass(slots=True)
class Selection:
    """What an expression gave: how many nodes, and their values, made one by one (texts of nested nodes overlap, all
    of them at once could be large)."""

    nodes: int
    values: Iterable[JsonValue | Absent]
    kind: Kind


# --- JSONPath --------------------------------------------------------------------------------------------------------


class _Environment(JSONPathEnvironment):
    """RFC 9535 with comparisons of JSON: the library takes true for 1 in `>=`, between two queries and in arrays."""

    max_recursion_depth = 900  # of `..`; what json.loads can read is hardly deeper

    def compare(self, left: object, operator: str, right: object) -> bool:
        if operator in ("&&", "||"):
            return super().compare(left, operator, right)
        a, b = _operand(left), _operand(right)
        match operator:
            case "==":
                return _same(a, b)
            case "!=":
                return not _same(a, b)
            case "<":
                return _less(a, b)
            case ">":
                return _less(b, a)
            case "<=":
                return _less(a, b) or _same(a, b)
            case ">=":
                return _less(b, a) or _same(a, b)
        return super().compare(left, operator, right)


def _operand(side: object) -> Any:
    """A singular query gives one value or nothing (RFC 9535, 2.3.5.2.2)."""
    if isinstance(side, NodeList):
        return side[0].obj if side else UNDEFINED
    return side


def _same(a: Any, b: Any) -> bool:
    if a is UNDEFINED or b is UNDEFINED:
        return a is b
    return json_equal(a, b)


def _less(a: Any, b: Any) -> bool:
    if (isinstance(a, str) and isinstance(b, str)) or (is_number(a) and is_number(b)):
        return bool(a < b)
    return False


_RFC = _Environment(strict=True)
_RFC.function_extensions |= {"match": iregexp.Match(), "search": iregexp.Search()}
_NG_ERRORS = (  # what jsonpath-ng lets out of its depths
    NgError,
    DefintionInvalid,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NotImplementedError,
    RecursionError,
    TypeError,
    ValueError,
    re.error,
)

Select = Callable[[JsonValue], list[JsonValue]]


@lru_cache(maxsize=_CACHE)
def compiled_json(path: str, dialect: str) -> Select:
    """The path as a function from document to values; raises ValueError."""
    if dialect == "jsonpath-ng":
        return _compile_ng(path)
    if not path:
        raise ValueError("the path is empty: `$` is the whole document")
    try:
        compiled = _RFC.compile(path)
    except JSONPathError as error:
        raise ValueError(f"not a JSONPath of RFC 9535: {_reason(error)}") from error
    except RecursionError as error:
        raise ValueError("the path is nested too deeply") from error
    if not isinstance(compiled, JSONPath):
        raise ValueError("not a JSONPath of RFC 9535: `|` and `&` between paths are not part of it")  # noqa: TRY004
    steps = _steps(compiled)
    return (lambda document: _walk(steps, document)) if steps is not None else _rfc_select(compiled)


def _reason(error: JSONPathError) -> str:
    """The library's message and the place; its own `str` fails where the place is the end of the path."""
    reason = str(error.args[0]) if error.args else "syntax error"
    reason = reason.replace("TOKEN_", "")
    token = getattr(error, "token", None)
    index = getattr(token, "index", None)
    return f"{reason} (character {index + 1})" if isinstance(index, int) and index >= 0 else reason


def _steps(compiled: JSONPath) -> tuple[str | int, ...] | None:
    """Names and indexes of a singular path, else None. Measured: walking them takes 0.5 µs, the library 6.6 µs."""
    steps: list[str | int] = []
    for segment in compiled.segments:
        if type(segment) is not JSONPathChildSegment or len(segment.selectors) != 1:
            return None
        selector = segment.selectors[0]
        if type(selector) is NameSelector:
            steps.append(selector.name)
        elif type(selector) is IndexSelector:
            steps.append(selector.index)
        else:
            return None
    return tuple(steps)


def _walk(steps: tuple[str | int, ...], value: JsonValue) -> list[JsonValue]:
    for step in steps:
        if isinstance(step, str):
            if not isinstance(value, dict) or step not in value:
                return []
        elif not isinstance(value, list) or not -len(value) <= step < len(value):
            return []
        value = value[step]
    return [value]


def _rfc_select(compiled: JSONPath) -> Select:
    def select(document: JsonValue) -> list[JsonValue]:
        # Not `compiled.finditer`: it would parse a document that is a string as JSON once more.
        root = JSONPathMatch(filter_context={}, obj=document, parent=None, path="$", parts=(), root=document)
        matches: Iterable[JSONPathMatch] = [root]
        try:
            for segment in compiled.segments:
                matches = segment.resolve(matches)
            return [match.obj for match in matches]
        except (JSONPathError, RecursionError) as error:
            raise SelectError("the document is nested too deeply for this path") from error

    return select


def _compile_ng(path: str) -> Select:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lint.py tells them at load
            compiled = parse_ng(path)
    except _NG_ERRORS as error:
        raise ValueError(f"not a path of jsonpath-ng: {error}") from error
    changes_document = any(char in path for char in "`\\/")  # `sorted` sorts in place

    def select(document: JsonValue) -> list[JsonValue]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = compiled.find(copy.deepcopy(document) if changes_document else document)
            return [datum.value for datum in found]
        except _NG_ERRORS as error:
            raise SelectError(f"jsonpath-ng can't apply the path to this document ({type(error).__name__})") from error

    return select


def select_json(document: JsonValue, path: str, dialect: str) -> Selection:
    """The values at the path, in document order."""
    values = compiled_json(path, dialect)(document)
    return Selection(len(values), values, Kind.JSON)


# --- CSS and XPath ---------------------------------------------------------------------------------------------------


class _AnyNamespace(GenericTranslator):
    """For XML: a bare element name matches in any namespace, as CSS has it where no default namespace is declared."""

    def xpath_element(self, selector: Element) -> XPathExpr:
        translated = super().xpath_element(selector)
        if selector.namespace is None and selector.element:
            translated = self.xpathexpr_cls(element="*")
            translated.add_condition(f"local-name() = {self.xpath_literal(selector.element)}")
        return translated


def _bare(error: Exception) -> str:
    return str(error).rstrip(". ")


_HTML = HTMLTranslator()
_XML_ANY = _AnyNamespace()
_XML_PLAIN = GenericTranslator()
_STRING = etree.XPath("string()", smart_strings=False)


@lru_cache(maxsize=_CACHE)
def compiled_css(selector: str, is_xml: bool) -> Any:
    """The selector as an XPath; raises ValueError."""
    try:
        return etree.XPath(_css_to_xpath(selector, is_xml), smart_strings=False)
    except SelectorError as error:
        raise ValueError(f"not a CSS selector that is understood here: {_bare(error)}") from error
    except RecursionError as error:
        raise ValueError("the selector is nested too deeply") from error
    except (etree.XPathError, ValueError) as error:
        raise ValueError(f"the selector can't be used: {_bare(error)}") from error


def _css_to_xpath(selector: str, is_xml: bool) -> str:
    if not is_xml:
        return str(_HTML.css_to_xpath(selector))
    try:
        return str(_XML_ANY.css_to_xpath(selector))
    except ExpressionError:  # `entry:nth-of-type(2)` needs the name as it is
        return str(_XML_PLAIN.css_to_xpath(selector))


@lru_cache(maxsize=_CACHE)
def compiled_xpath(path: str, namespaces: tuple[tuple[str, str], ...]) -> Any:
    """The XPath 1.0 expression, with `re:` of EXSLT; raises ValueError."""
    try:
        return etree.XPath(path, namespaces={"re": EXSLT_REGEXP} | dict(namespaces), smart_strings=False)
    except (etree.XPathError, TypeError, ValueError) as error:
        raise ValueError(f"not an XPath 1.0 expression: {_bare(error)}") from error


def evaluate(compiled: Any, root: Any) -> Any:
    """The result of a compiled XPath; raises SelectError."""
    try:
        return compiled(root)
    except (etree.XPathError, TypeError, ValueError, re.error, RecursionError) as error:
        raise SelectError(f"the expression can't be evaluated: {_bare(error)}") from error


def select_css(root: Any, is_xml: bool, selector: str, attribute: str | None) -> Selection:
    """The texts of the elements, or the values of their attribute, in document order."""
    nodes = evaluate(compiled_css(selector, is_xml), root)
    if attribute is None:
        return Selection(len(nodes), (_text(node) for node in nodes), Kind.TEXT)
    name = attribute if is_xml else attribute.lower()
    return Selection(len(nodes), (_attribute(node, name) for node in nodes), Kind.TEXT)


def select_xpath(root: Any, path: str, namespaces: tuple[tuple[str, str], ...]) -> Selection:
    """The texts of the nodes, or the one number, boolean or string that the expression gives."""
    result = evaluate(compiled_xpath(path, namespaces), root)
    if isinstance(result, list):
        return Selection(len(result), _texts(result), Kind.TEXT)
    return Selection(1, (result,), Kind.SCALAR)


def _texts(nodes: list[Any]) -> Iterator[str]:
    for node in nodes:
        yield _text(node)


def _text(node: Any) -> str:
    if isinstance(node, str):
        text = node
    elif isinstance(node, tuple):  # a namespace node: prefix and URI
        text = node[1] or ""
    elif isinstance(node.tag, str):
        text = str(_STRING(node))
    else:  # a comment or a processing instruction
        text = node.text or ""
    return collapse(text)


def _attribute(node: Any, name: str) -> str | Absent:
    value = node.get(name)
    return ABSENT if value is None else collapse(value)


def collapse(text: str) -> str:
    """White space of Unicode, U+00A0 too, collapsed to single blanks and removed at both ends."""
    return " ".join(text.split())
