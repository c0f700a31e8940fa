"""The fields of the schemas: strict, each with a sentence for what it expects and a JSON Schema of its own.

marshmallow's own fields are lenient where a monitor must not guess: Boolean takes "yes", Integer cuts 5.9 to 5, Float
takes "1_000", Url refuses http://nas/.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from marshmallow import ValidationError, fields

from supervisor.config.nodes import plain
from supervisor.config.problems import AtKey
from supervisor.config.words import did_you_mean
from supervisor.text import cut

DAY_S = 86400.0
_UNITS_S = {"y": 365 * DAY_S, "w": 7 * DAY_S, "d": DAY_S, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile("".join(rf"(?:(?P<{unit}>[0-9]+(?:\.[0-9]+)?){unit})?" for unit in _UNITS_S))
_PART = re.compile(r"[0-9]+(?:\.[0-9]+)?[a-z]+")
_DURATION_PATTERN = r"^(?!$)" + "".join(rf"([0-9]+(\.[0-9]+)?{unit})?" for unit in _UNITS_S) + "$"
_LONGEST_S = 100 * 365 * DAY_S
_SIZE = re.compile(r"([0-9]+) ?(B|KB|MB|GB)", re.IGNORECASE)
_SIZE_UNITS = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_LARGEST_BYTES = 1024**4
LONGEST_CHECK_MS = 86_400_000


def found(value: Any, sensitive: bool = False) -> str:
    """What stands there instead of what is expected; never a secret."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        text = str(getattr(value, "shown", value))
        empty = ", which is empty" if text and not value else ""
        return f"a text{empty}" if sensitive else f'"{cut(text, 60)}"{empty}'
    return "a number" if sensitive else f"the number {value}"


class Typed(fields.Field[Any]):
    """A field that says what it expects. `doc` is its line in docs/config.md and the description in the JSON Schema;
    `shows_default` is how a built-in value that depends on something is told."""

    expected = "a value"
    hint = ""
    schema: ClassVar[Mapping[str, Any]] = {}

    def __init__(
        self, *, doc: str = "", example: Any = None, shows_default: str = "", secret: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.doc, self.example, self.shows_default, self.secret = doc, example, shows_default, secret
        self.error_messages["required"] = f"is missing: expected {self.expected}"
        self.error_messages["null"] = f"is empty: expected {self.expected}"

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        return self.read(value)

    def read(self, value: Any) -> Any:
        """The value as the program takes it; raises ValidationError."""
        raise NotImplementedError

    def wrong(self, value: Any, hint: str = "") -> ValidationError:
        """The error for a value of the wrong kind."""
        hint = hint or self.hint
        return ValidationError(
            f"expected {self.expected}, found {found(value, self.secret)}{f': {hint}' if hint else ''}"
        )

    def json_schema(self) -> dict[str, Any]:
        """What this field takes, as JSON Schema 2020-12."""
        return dict(self.schema)


class Str(Typed):
    """A text without control characters, unless `lines` allows any."""

    expected = "a text"

    def __init__(
        self,
        *,
        longest: int = 10_000,
        empty: bool = False,
        lines: bool = False,
        pattern: str = "",
        expected: str = "",
        **kwargs: Any,
    ) -> None:
        self.longest, self.empty, self.lines = longest, empty, lines
        self.pattern = re.compile(pattern) if pattern else None
        self.expected = expected or self.expected
        super().__init__(**kwargs)

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            quote = isinstance(value, bool | int | float) and (not self.pattern or self.pattern.fullmatch(str(value)))
            raise self.wrong(value, "quote it if it is meant as a text" if quote else "")
        text = str(value)
        if not text.strip() and not self.empty:
            raise ValidationError(f"is empty: expected {self.expected}")
        if "\0" in text:
            raise ValidationError("a text with a NUL character can't be used here")
        if not self.lines and any(ord(char) < 32 or ord(char) == 127 for char in text):
            raise ValidationError(f"expected {self.expected} in one line, without control characters")
        if len(text) > self.longest:
            raise ValidationError(f"expected at most {self.longest:,} characters, found {len(text):,}")
        if self.pattern is not None and not self.pattern.fullmatch(text):
            raise self.wrong(value)
        return text

    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string", "maxLength": self.longest}
        if not self.empty:
            schema["minLength"] = 1
        if self.pattern is not None:
            schema["pattern"] = f"^({self.pattern.pattern})$"
        elif not self.empty:
            schema["pattern"] = r"\S"
        return schema


class Bool(Typed):
    expected = "true or false"
    schema: ClassVar[Mapping[str, Any]] = {"type": "boolean"}

    def read(self, value: Any) -> bool:
        if not isinstance(value, bool):
            words = isinstance(value, str) and value.lower() in ("yes", "no", "on", "off")
            raise self.wrong(value, "yes, no, on and off are text in YAML 1.2" if words else "")
        return value


class Int(Typed):
    """A whole number between two bounds. 5.0, 1e3 and "5" are none."""

    def __init__(self, low: int, high: int, *, unit: str = "", **kwargs: Any) -> None:
        self.low, self.high, self.unit = low, high, unit
        self.expected = f"a whole number from {low:,} to {high:,}" + (f" ({unit})" if unit else "")
        super().__init__(**kwargs)

    def read(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not self.low <= value <= self.high:
            raise self.wrong(value, self._hint(value))
        return value

    def _hint(self, value: Any) -> str:
        if not isinstance(value, str):
            return ""
        if value.strip().isascii() and value.strip().isdigit():
            return "write it without quotes"
        seconds = duration_s(value)
        return f"write {round(seconds * 1000)}" if self.unit == "milliseconds" and seconds > 0 else ""

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.low, "maximum": self.high}


class Number(Typed):
    """A finite number, 0 or more."""

    expected = "a number, 0 or more"
    schema: ClassVar[Mapping[str, Any]] = {"type": "number", "minimum": 0}

    def read(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise self.wrong(value)
        return float(value)


class Choice(Typed):
    """One of a few words. `numbers` are other spellings that YAML reads as numbers (`ipVersion: 4`)."""

    def __init__(self, *words: str, numbers: Mapping[int | float, str] | None = None, **kwargs: Any) -> None:
        self.words, self.numbers = words, dict(numbers or {})
        self.expected = f"one of {', '.join(words)}"
        super().__init__(**kwargs)

    def read(self, value: Any) -> str:
        if isinstance(value, str) and value in self.words:
            return str(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and value in self.numbers:
            return self.numbers[value]
        raise self.wrong(value, did_you_mean(value, self.words))

    def json_schema(self) -> dict[str, Any]:
        return {"enum": [*self.words, *self.numbers]}


class Duration(Typed):
    """`500ms`, `30s`, `1m30s`, `2h`, `7d`, `3y` (365 days): seconds, as float."""

    expected = "a duration such as 500ms, 30s, 1m30s, 2h or 7d"
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "pattern": _DURATION_PATTERN}

    def __init__(self, low: str = "1ms", high: str = "100y", **kwargs: Any) -> None:
        self.low, self.high = low, high
        self.low_s, self.high_s = duration_s(low), duration_s(high)
        super().__init__(**kwargs)

    def read(self, value: Any) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool):
            unit = f" such as {value}s" if isinstance(value, int) and 0 < value < 1_000_000 else ""
            raise ValidationError(f"expected a duration with its unit{unit}, found {found(value)}")
        if not isinstance(value, str):
            raise self.wrong(value)
        seconds = duration_s(value)
        if math.isnan(seconds):
            raise self.wrong(value, _duration_hint(value))
        if not self.low_s <= seconds <= self.high_s:
            raise ValidationError(f"expected a duration from {self.low} to {self.high}, found {found(value)}")
        return seconds


def duration_s(text: str) -> float:
    """Seconds of a duration, NaN if the text is none."""
    match = _DURATION.fullmatch(text) if 0 < len(text) <= 60 else None
    if match is None:
        return math.nan
    parts = (float(number) * _UNITS_S[unit] for unit, number in match.groupdict().items() if number is not None)
    return round(sum(parts), 6)


def _duration_hint(text: str) -> str:
    number = text.strip()
    if number.replace(".", "", 1).isdigit() and number.isascii():
        return "add the unit"
    if number.startswith("-"):
        return "it can't be negative"
    joined = "".join(text.split())
    if joined != text and not math.isnan(duration_s(joined)):
        return "write it without spaces"
    parts = _PART.findall(text)
    if parts and "".join(parts) == text and all(part.lstrip("0123456789.") in _UNITS_S for part in parts):
        return "the larger unit stands first, as in 1m30s"
    if number[:1].isdigit() and "-" not in number:
        return f"the units are {', '.join(list(_UNITS_S)[:-1])} and ms"
    return ""


class Size(Typed):
    """`100MB`, `64 KB`, `4096`: bytes, by binary units."""

    expected = "a size such as 64KB, 100MB or 1GB"
    schema: ClassVar[Mapping[str, Any]] = {
        "anyOf": [
            {"type": "integer", "minimum": 1, "maximum": _LARGEST_BYTES},
            {"type": "string", "pattern": "^0*[1-9][0-9]* ?([bB]|[kKmMgG][bB])$"},
        ]
    }

    def read(self, value: Any) -> int:
        amount = -1
        if isinstance(value, int) and not isinstance(value, bool):
            amount = value
        elif isinstance(value, str) and (match := _SIZE.fullmatch(value)) and len(match[1]) < 20:
            amount = int(match[1]) * _SIZE_UNITS[match[2].upper()]
        if amount <= 0:
            raise self.wrong(value)
        if amount > _LARGEST_BYTES:
            raise ValidationError(f"expected at most 1024GB, found {found(value)}")
        return amount


class ListOf(Typed):
    """A list whose items are all of one field. `single` lifts a lone value to a list of one."""

    def __init__(
        self,
        item: Typed,
        *,
        least: int = 0,
        most: int = 10_000,
        single: bool = False,
        distinct: bool = False,
        hint: str = "",
        **kwargs: Any,
    ) -> None:
        self.item, self.least, self.most, self.single, self.distinct = item, least, most, single, distinct
        self.hint = hint
        self.expected = f"a list, each item {item.expected}"
        super().__init__(**kwargs)

    def read(self, value: Any) -> tuple[Any, ...]:
        if self.single and value is not None and not isinstance(value, list | dict):
            value = [value]
        if not isinstance(value, list):
            short = isinstance(value, str) and not self.secret and not hasattr(value, "shown") and len(value) < 40
            hint = self.hint or (f"write [{value}]" if short else "")
            raise ValidationError(f"expected a list, found {found(value, self.secret)}{': ' if hint else ''}{hint}")
        if not self.least <= len(value) <= self.most:
            what = "an empty list" if not value else f"{len(value):,} items"
            least = f"at least {self.least}" if len(value) < self.least else f"at most {self.most:,}"
            raise ValidationError(
                f"expected {least} items, found {what}" if len(value) else f"expected {least} item, found {what}"
            )
        errors: dict[int | str, Any] = {}
        items = []
        for index, inner in enumerate(value):
            try:
                items.append(self.item.deserialize(inner))
            except ValidationError as exc:
                errors[index] = exc.messages
        if not errors and self.distinct:
            errors = {i: [f"stands twice: {found(value[i])}"] for i in _repeated(items)}
        if errors:
            raise ValidationError(errors)
        return tuple(items)

    def json_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "array", "items": self.item.json_schema()}
        if self.least:
            schema["minItems"] = self.least
        return {"anyOf": [self.item.json_schema(), schema]} if self.single else schema


def _repeated(items: list[Any]) -> list[int]:
    """Where an item stands that stood before."""
    first: dict[Any, int] = {}
    return [index for index, item in enumerate(items) if first.setdefault(item, index) != index]


class MapOf(Typed):
    """A mapping of names to values of one field; `name` is the pattern of the names."""

    def __init__(self, value: Typed, *, name: str = ".+", name_is: str = "a name", **kwargs: Any) -> None:
        self.value, self.names, self.name_is = value, re.compile(name), name_is
        self.expected = "a mapping of names to values"
        super().__init__(**kwargs)

    def read(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong(value)
        errors: dict[int | str, Any] = {}
        read: dict[str, Any] = {}
        for key, inner in value.items():
            if not self.names.fullmatch(key):
                errors[key] = [AtKey(f"the key is not {self.name_is}")]
                continue
            try:
                read[str(key)] = self.value.deserialize(inner)
            except ValidationError as exc:
                errors[key] = exc.messages
        if errors:
            raise ValidationError(errors)
        return read

    def json_schema(self) -> dict[str, Any]:
        names = {"propertyNames": {"pattern": f"^({self.names.pattern})$"}} if self.names.pattern != ".+" else {}
        return {"type": "object", **names, "additionalProperties": self.value.json_schema()}


class Json(Typed):
    """Any JSON value; `container` asks for a mapping (or a list)."""

    expected = "any value"

    def __init__(self, *, container: str = "", **kwargs: Any) -> None:
        self.container = container
        self.expected = container or self.expected
        super().__init__(allow_none=not container, **kwargs)

    def read(self, value: Any) -> Any:
        kinds = {"a mapping": dict, "a mapping or a list": (dict, list)}.get(self.container, object)
        if not isinstance(value, kinds):  # type: ignore[arg-type]
            raise self.wrong(value)
        if not _finite(value):
            raise ValidationError("JSON has no .nan and no .inf: use another value")
        return plain(value)

    def json_schema(self) -> dict[str, Any]:
        kinds: dict[str, dict[str, Any]] = {
            "a mapping": {"type": "object"},
            "a mapping or a list": {"type": ["object", "array"]},
        }
        return kinds.get(self.container, {})


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(_finite(item) for item in value.values())
    return all(_finite(item) for item in value) if isinstance(value, list) else True
