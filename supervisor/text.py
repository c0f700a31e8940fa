"""Text from outside on its way into results, logs and events: masked first, then cleaned, then cut. Pure."""

from __future__ import annotations

import base64
import html
import json
import math
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from supervisor.model import JsonValue, Secret

MISSING = "(missing)"
HIDDEN = "(hidden)"

# --- clean and cut ---------------------------------------------------------------------------------------------------

# Controls (C0, DEL, C1), line and paragraph separators, bidi and invisible format characters, tags, lone surrogates,
# noncharacters. None of them is printable in Python's sense, which gives `clean` its fast way out.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufdd0-\ufdef"
    "\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f"
    + "".join(f"{chr(plane << 16 | 0xFFFE)}{chr(plane << 16 | 0xFFFF)}" for plane in range(1, 17))
    + "]"
)
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(found: re.Match[str]) -> str:
    char = found.group()
    code = ord(char)
    if char in _SHORT:
        return _SHORT[char]
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def clean(text: str) -> str:
    """Escape what must not reach a terminal, a log line, SQLite or a page: the answer is one line of valid Unicode."""
    return text if text.isprintable() else _UNSAFE.sub(_escape, text)


def cut(text: str, limit: int = 256) -> str:
    """At most `limit` characters; an ellipsis says that some are gone."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)] + "…"


# --- secrets ---------------------------------------------------------------------------------------------------------

_SHORTEST = 6  # shorter values would mask ordinary words; the loader warns about them
_SHORTEST_LINE = 12  # of a value with several lines, such as a key file: each line may turn up alone
_PERCENT = re.compile(rb"%([0-9A-Fa-f]{2})|[^%]+|%", re.DOTALL)
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=")


def _upper_hex(text: str) -> str:
    return re.sub(r"\\u[0-9a-f]{4}", lambda found: "\\u" + found.group()[2:].upper(), text)


def _plain_forms(value: str) -> Iterator[str]:
    yield value
    for ascii_only in (True, False):
        escaped = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")
        yield _upper_hex(escaped)
    yield repr(value)[1:-1]
    yield html.escape(value)
    yield html.escape(value, quote=False)


def _base64_forms(value: str) -> Iterator[str]:
    """The part that is the same whatever stands before and after: a value may sit at any of three bit offsets, as a
    password does in `user:password` of basic authentication."""
    data = value.encode("utf-8", "surrogatepass")
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + data).decode()
        core = encoded[(offset * 8 + 5) // 6 : (offset + len(data)) * 8 // 6]
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _values(secret: Secret) -> Iterator[str]:
    yield secret.value
    if "\n" in secret.value:
        yield from (line.strip() for line in secret.value.splitlines() if len(line.strip()) >= _SHORTEST_LINE)


class Masker:
    """Replaces known secrets by `${NAME}`, in every form in which they may come back from a server or a library."""

    __slots__ = ("_forms", "_percent")

    def __init__(self, secrets: Iterable[Secret]) -> None:
        forms: dict[str, tuple[str, bool]] = {}
        percent: dict[bytes, str] = {}
        for secret in secrets:
            if len(secret.value) < _SHORTEST or not secret.value.strip():
                continue
            shown = f"${{{secret.name}}}"
            for value in _values(secret):
                for form in _base64_forms(value):
                    forms.setdefault(form, (shown, True))
                for form in _plain_forms(value):
                    forms[form] = (shown, False)
                percent[value.encode("utf-8", "surrogatepass")] = shown
                percent[value.replace(" ", "+").encode("utf-8", "surrogatepass")] = shown
        self._forms = tuple((form, shown, is_base64) for form, (shown, is_base64) in forms.items())
        self._percent = tuple(percent.items())

    def mask(self, text: str) -> str:
        """The text without the secrets. Overlapping finds become one, so no rest of a secret stays."""
        spans = [span for form in self._forms if form[0] in text for span in _spans(text, *form)]
        if "%" in text and self._percent:
            spans += _percent_spans(text, self._percent)
        if not spans:
            return text
        spans.sort(key=lambda span: (span[0], -span[1]))
        parts: list[str] = []
        end = 0
        for start, stop, shown in spans:
            if start >= end:
                parts += (text[end:start], shown)
            end = max(end, stop)
        parts.append(text[end:])
        return "".join(parts)


def _spans(text: str, form: str, shown: str, is_base64: bool) -> Iterator[tuple[int, int, str]]:
    start = text.find(form)
    while start != -1:
        stop = start + len(form)
        if is_base64:  # the characters at both ends hold some bits of the secret too
            first = start - 1 if start and text[start - 1] in _BASE64 else start
            while stop < len(text) and stop < start + len(form) + 2 and text[stop] in _BASE64:
                stop += 1
            yield first, stop, shown
        else:
            yield start, stop, shown
        start = text.find(form, start + 1)


def _percent_spans(text: str, forms: tuple[tuple[bytes, str], ...]) -> Iterator[tuple[int, int, str]]:
    """Finds in the decoded text, placed in the encoded one: programs differ in which characters they encode."""
    data = text.encode("utf-8", "surrogatepass")
    decoded = bytearray()
    starts: list[int] = []  # of each decoded byte, its place in `data`
    for unit in _PERCENT.finditer(data):
        if unit.group(1) is None:
            decoded += unit.group()
            starts.extend(range(unit.start(), unit.end()))
        else:
            decoded.append(int(unit.group(1), 16))
            starts.append(unit.start())
    starts.append(len(data))
    for form, shown in forms:
        found = decoded.find(form)
        while found != -1:
            first, stop = starts[found], starts[found + len(form)]
            yield _characters(data[:first]), _characters(data[:stop]), shown
            found = decoded.find(form, found + 1)


def _characters(data: bytes) -> int:
    return len(data.decode("utf-8", "surrogatepass"))


_SENSITIVE_PART = re.compile(
    r"authorization|cookie|token|secret|passw|passphrase|signature|credential|api_?key|private", re.IGNORECASE
)
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_SENSITIVE_WORDS = frozenset({"auth", "bearer", "jwt", "key", "keys", "pass", "pwd", "session", "sid", "sig"})


def is_sensitive(name: str) -> bool:
    """Whether the value that goes with this name (header, query parameter, variable, setting) must not be shown."""
    if _SENSITIVE_PART.search(name):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    return any(word in _SENSITIVE_WORDS or word.endswith(("key", "keys")) for word in words)


# --- values ----------------------------------------------------------------------------------------------------------


def show_int(value: int) -> str:
    """All digits; Python's own `str` refuses integers of more than 4300."""
    return str(value) if value.bit_length() < 14000 else str(Decimal(value))


def show(value: JsonValue) -> str:
    """A JSON value as messages show it: JSON, with characters as they are, numbers of any size, at any depth."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return show_int(value)
    if isinstance(value, float):
        return _show_float(value)
    if isinstance(value, list | tuple | dict):
        return _show_container(value)
    return str(value)


def _show_float(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _show_container(value: JsonValue) -> str:
    """Without recursion, and no longer than anybody reads: a parsed body may be deep and may be 100 MB."""
    parts: list[str] = []
    length = 0
    stack: list[tuple[bool, JsonValue]] = [(False, value)]  # (is it text to write as it is, the value or text)
    while stack and length < _SHOW_LIMIT:
        is_text, item = stack.pop()
        if not is_text and isinstance(item, list | tuple | dict):
            stack.extend(reversed(_opened(item)))
            continue
        part = item if is_text else show(item)
        parts.append(part)
        length += len(part)
    return "".join(parts) + ("…" if stack else "")


_SHOW_LIMIT = 65536


def _opened(item: JsonValue) -> list[tuple[bool, JsonValue]]:
    opened: list[tuple[bool, JsonValue]] = [(True, "{" if isinstance(item, dict) else "[")]
    pairs = item.items() if isinstance(item, dict) else ((None, element) for element in item)
    for count, (key, element) in enumerate(pairs):
        if count >= _SHOW_LIMIT:
            break
        lead = ", " if count else ""
        opened.append((True, lead if key is None else f"{lead}{show(key)}: "))
        opened.append((False, element))
    opened.append((True, "}" if isinstance(item, dict) else "]"))
    return opened


def count(number: int) -> str:
    """A number as people read it: 90,000."""
    return f"{number:,}"
