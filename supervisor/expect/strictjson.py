"""JSON without guessing: duplicate keys, NaN, trailing garbage are not JSON; integers are exact at any size. Pure."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from supervisor.expect.operators import read_int
from supervisor.model import JsonValue


class NotJsonError(ValueError):
    """`str()` says why, as in `line 1 column 5: expected a value`."""


def _refuse_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is no value of JSON")


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _value in pairs:
            if key in seen:
                raise NotJsonError(f"the key {json.dumps(key, ensure_ascii=False)} stands twice in one object")
            seen.add(key)
    return made


_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
# The C parser reads integers faster without a hook; it refuses those of more than 4300 digits, which come here then.
_BIG_DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_int=read_int)


_LARGE = 50_000


@contextmanager
def _no_collecting() -> Iterator[None]:
    """A document has no cycles; looking for them in each new generation doubles the time of a large one (measured:
    1 MB in 16 ms, not 29)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def parse(text: str) -> JsonValue:
    """The document; raises NotJsonError. Long integers are Decimals. No number is NaN; one too large is infinite."""
    try:
        if len(text) < _LARGE:
            return _decode(text)
        with _no_collecting():
            return _decode(text)
    except json.JSONDecodeError as error:
        raise NotJsonError(_reason(error, text)) from error
    except RecursionError as error:
        raise NotJsonError("nested too deeply to be read") from error


def _decode(text: str) -> JsonValue:
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, NotJsonError):
        raise
    except ValueError:
        return _BIG_DECODER.decode(text)


def _reason(error: json.JSONDecodeError, text: str) -> str:
    if not text.strip():
        return "the body is empty"
    if error.msg == "Extra data":
        return f"line {error.lineno} column {error.colno}: more text after the end of the document"
    return f"line {error.lineno} column {error.colno}: {error.msg[:1].lower()}{error.msg[1:]}"
