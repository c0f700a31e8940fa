"""Patterns of `match()` and `search()` in JSONPath: I-Regexp (RFC 9485) on Python's `re`. Pure.

What `re` has and I-Regexp lacks (\\d, anchors) is let through, what I-Regexp has and `re` lacks is translated.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import lru_cache

from jsonpath.function_extensions import ExpressionType, FilterFunction

_CATEGORY = re.compile(r"\\([pP])\{([A-Z][a-z]?)\}")
_KNOWN = re.compile("C[cfnos]?|L[lmotu]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?")


@lru_cache(maxsize=64)
def _ranges(category: str, negated: bool) -> str:
    """The characters of a general category, as they stand within [...]. Takes 0.2 s, once."""
    if not _KNOWN.fullmatch(category):
        raise re.error(f"unknown category {category}")
    parts: list[str] = []
    start: int | None = None
    for code in range(sys.maxunicode + 2):
        inside = code <= sys.maxunicode and unicodedata.category(chr(code)).startswith(category) != negated
        if inside and start is None:
            start = code
        elif not inside and start is not None:
            parts.append(f"\\U{start:08x}-\\U{code - 1:08x}")
            start = None
    return "".join(parts)


@lru_cache(maxsize=256)
def compiled(pattern: str) -> re.Pattern[str] | None:
    """The compiled pattern, or None for one that is not understood: it matches nothing (RFC 9535, 2.4.6)."""
    try:
        return re.compile(_translate(pattern))
    except (re.error, OverflowError, RecursionError):
        return None


def _translate(pattern: str) -> str:
    parts: list[str] = []
    in_class = False
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            category = _CATEGORY.match(pattern, position)
            if category:
                ranges = _ranges(category.group(2), category.group(1) == "P")
                parts.append(ranges if in_class else f"[{ranges}]")
                position = category.end()
            else:
                parts.append(pattern[position : position + 2])
                position += 2
            continue
        if char == "." and not in_class:
            parts.append(r"[^\n\r]")
        else:
            in_class = char == "[" or (in_class and char != "]")
            parts.append(char)
        position += 1
    return "".join(parts)


class _Regexp(FilterFunction):
    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012
    return_type = ExpressionType.LOGICAL

    def _compiled(self, value: object, pattern: object) -> re.Pattern[str] | None:
        return compiled(pattern) if isinstance(value, str) and isinstance(pattern, str) else None


class Match(_Regexp):
    """`match(value, pattern)`: the whole text."""

    def __call__(self, value: object, pattern: object) -> bool:
        found = self._compiled(value, pattern)
        return found is not None and found.fullmatch(str(value)) is not None


class Search(_Regexp):
    """`search(value, pattern)`: anywhere in the text."""

    def __call__(self, value: object, pattern: object) -> bool:
        found = self._compiled(value, pattern)
        return found is not None and found.search(str(value)) is not None
