"""Plain scalars by the core schema of YAML 1.2 (YAML 1.2.2, section 10.3.2): no `yes`, no base 60, no dates."""

from __future__ import annotations

import re
from typing import Any

_CONSTANTS: dict[str, Any] = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_NUMBER = re.compile(
    r"(?P<int>[-+]?[0-9]+)|0o(?P<oct>[0-7]+)|0x(?P<hex>[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"
    r"|(?P<inf>[-+]?\.(inf|Inf|INF))|(?P<nan>\.(nan|NaN|NAN))"
)
_LONGEST_NUMBER = 400  # digits; Python itself refuses to convert more than 4,300
_STARTS = frozenset("0123456789+-.")


def resolve(text: str) -> Any:
    """The value of a plain scalar: None, bool, int, float or the text itself."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _STARTS:
        return text
    found = _NUMBER.fullmatch(text)
    if found is None or len(text) > _LONGEST_NUMBER:
        return text
    kind = found.lastgroup if found.lastgroup in ("int", "oct", "hex", "inf", "nan") else "float"
    match kind:
        case "int":
            return int(text)
        case "oct":
            return int(text[2:], 8)
        case "hex":
            return int(text[2:], 16)
        case "inf":
            return float("-inf") if text[0] == "-" else float("inf")
        case "nan":
            return float("nan")
    return float(text)


def looks_octal(text: str) -> bool:
    """`010` and its like: 8 in YAML 1.1, 10 here."""
    digits = text.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits.isascii() and digits.isdigit()
