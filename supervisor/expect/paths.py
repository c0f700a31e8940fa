"""JSONPath to values: RFC 9535, and the language of jsonpath-ng; compiled once per process. Pure."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError, JSONPathMatch, NodeList
from jsonpath.filter import UNDEFINED
from jsonpath.segments import JSONPathRecursiveDescentSegment
from jsonpath.selectors import IndexSelector, JSONPathSelector, NameSelector, WildcardSelector
from jsonpath_ng.exceptions import JSONPathError as NgError
from jsonpath_ng.ext.parser import parse as parse_ng
from jsonpath_ng.ext.string import DefintionInvalid

from supervisor.expect import badpath, iregexp
from supervisor.expect.operators import is_number, json_equal
from supervisor.model import JsonValue

Select = Callable[[JsonValue], list[JsonValue]]


class SelectError(Exception):
    """The expression can't be applied to this document; `str()` says why. A mismatch of the rule."""


class _Environment(JSONPathEnvironment):
    """RFC 9535 with comparisons of JSON: the library takes true for 1 in `>=`, between two queries and in arrays."""

    max_recursion_depth = 900  # of `..` within a filter; what json.loads can read is hardly deeper

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


@lru_cache(maxsize=2048)
def compiled_json(path: str, dialect: str) -> Select:
    """The path as a function from document to values, in document order; raises ValueError, mostly BadPathError."""
    if not path:
        raise ValueError("the path is empty: `$` is the whole document")
    if dialect == "jsonpath-ng":
        return _compile_ng(path)
    try:
        compiled = _RFC.compile(path)
    except (JSONPathError, RecursionError, ValueError, OverflowError) as error:
        raise badpath.of_rfc(path, error) from error
    assert isinstance(compiled, JSONPath)  # what joins two paths is no sign of a strict one
    return _rfc_select(compiled)


# --- RFC 9535 --------------------------------------------------------------------------------------------------------
# The library parses and filters; these few lines walk (measured: a singular path in 1 µs, not 7; `[*]` over 17,000
# elements in 1 ms, not 119). They also keep a document that is a text from being parsed as JSON once more.

Pick = Callable[[Iterable[JsonValue], JsonValue], list[JsonValue]]  # nodes and the document to selected children


def _rfc_select(compiled: JSONPath) -> Select:
    segments = tuple(
        (isinstance(segment, JSONPathRecursiveDescentSegment), tuple(_pick(each) for each in segment.selectors))
        for segment in compiled.segments
    )

    def select(document: JsonValue) -> list[JsonValue]:
        nodes: Iterable[JsonValue] = (document,)
        try:
            for descends, picks in segments:
                if descends:
                    nodes = _descend(nodes)
                if len(picks) == 1:
                    nodes = picks[0](nodes, document)
                else:
                    nodes = [child for node in nodes for pick in picks for child in pick((node,), document)]
            return list(nodes)
        except (JSONPathError, RecursionError) as error:
            raise SelectError("the document is nested too deeply for this path") from error

    return select


def _descend(nodes: Iterable[JsonValue]) -> Iterator[JsonValue]:
    """Every array and object from each node down, the outer before the inner (RFC 9535, 2.5.2.2); any depth."""
    for top in nodes:
        stack = [top]
        while stack:
            node = stack.pop()
            if isinstance(node, dict):
                yield node
                stack.extend(child for child in reversed(node.values()) if isinstance(child, dict | list))
            elif isinstance(node, list):
                yield node
                stack.extend(child for child in reversed(node) if isinstance(child, dict | list))


def _pick(selector: JSONPathSelector) -> Pick:
    if type(selector) is NameSelector:
        name = selector.name
        return lambda nodes, _: [node[name] for node in nodes if isinstance(node, dict) and name in node]
    if type(selector) is IndexSelector:
        index = selector.index
        return lambda nodes, _: [
            node[index] for node in nodes if isinstance(node, list) and -len(node) <= index < len(node)
        ]
    if type(selector) is WildcardSelector:
        return lambda nodes, _: [child for node in nodes for child in _children(node)]
    return lambda nodes, root: [match.obj for node in nodes for match in selector.resolve(_match(node, root))]


def _children(node: JsonValue) -> Iterable[JsonValue]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _match(node: JsonValue, root: JsonValue) -> JSONPathMatch:
    return JSONPathMatch(filter_context={}, obj=node, parent=None, path="$", parts=(), root=root)


# --- jsonpath-ng -----------------------------------------------------------------------------------------------------


def _compile_ng(path: str) -> Select:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # lint.py tells them at load
            compiled = parse_ng(path)
    except _NG_ERRORS as error:
        raise badpath.of_ng(path, error) from error
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
