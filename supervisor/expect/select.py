"""Expressions to values: JSONPath, CSS and XPath, compiled once per process. Pure.

Compiling raises ValueError with a sentence (load time); selecting raises SelectError with one (check time).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cssselect import ExpressionError, GenericTranslator, HTMLTranslator, SelectorError
from cssselect.parser import Element
from cssselect.xpath import XPathExpr
from lxml import etree

from supervisor.expect.operators import ABSENT, Absent, Kind
from supervisor.expect.paths import SelectError, compiled_json
from supervisor.model import JsonValue

_CACHE = 2048
EXSLT_REGEXP = "http://exslt.org/regular-expressions"


@dataclass(slots=True)
class Selection:
    """What an expression gave: how many nodes, and their values, made one by one (texts of nested nodes overlap, all
    of them at once could be large)."""

    nodes: int
    values: Iterable[JsonValue | Absent]
    kind: Kind


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
