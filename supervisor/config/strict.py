"""The base of the schemas: unknown keys are errors that name the nearest known key, or say where the key belongs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar

from marshmallow import RAISE, Schema, ValidationError, fields

from supervisor.config.fields import Typed, found
from supervisor.config.problems import AtKey
from supervisor.config.words import nearest

_UNKNOWN = "unknown"


@cache
def camel(name: str) -> str:
    """`max_body_bytes` -> `maxBodyBytes`: the one place where names change."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(word.capitalize() for word in rest)


def unknown_key(key: str, known: list[str], elsewhere: Mapping[str, str]) -> AtKey:
    """The sentence for a key that does not stand here."""
    if key in elsewhere:
        return AtKey(f"does not belong here: {elsewhere[key]}")
    near = nearest(key, known)
    space = " (the key holds a no-break space, U+00A0)" if "\u00a0" in key else ""
    meant = f"did you mean {near}?" if near else f"expected one of {', '.join(sorted(known))}"
    return AtKey(f"unknown key{space}: {meant}")


class Strict(Schema):
    """Base schema: attributes in snake_case, keys in camelCase. `elsewhere` says where stray keys belong."""

    elsewhere: ClassVar[Mapping[str, str]] = {}
    doc: ClassVar[str] = ""
    first: ClassVar[tuple[str, ...]] = ()  # what a reader wants to see first

    class Meta:
        unknown = RAISE

    error_messages = {"unknown": _UNKNOWN}  # noqa: RUF012 - marshmallow declares it as an instance variable

    def on_bind_field(self, field_name: str, field_obj: fields.Field[Any]) -> None:
        field_obj.data_key = camel(field_name)

    def handle_error(self, error: ValidationError, data: Any, **kwargs: Any) -> None:
        """marshmallow's "unknown" becomes a sentence, at the key."""
        known = [camel(name) for name in self.fields]
        messages = error.messages
        if isinstance(messages, dict):
            for key, texts in messages.items():
                if texts == [_UNKNOWN]:
                    messages[key] = [unknown_key(str(key), known, self.elsewhere)]


class Section(Typed):
    """A mapping read by a schema of its own. Its value is a dict, or what the schema makes of it."""

    expected = "a mapping"

    def __init__(self, schema: type[Strict], *, each: bool = False, expected: str = "a mapping", **kwargs: Any) -> None:
        self.inner = schema()
        self.expected = expected
        self.each = each
        super().__init__(**kwargs)
        if each:
            self.error_messages["null"] = f"is empty: expected a list, each item {expected}"

    def read(self, value: Any) -> Any:
        if self.each:
            return self._list(value)
        if not isinstance(value, dict):
            raise self.wrong(value)
        return self.inner.load(value)

    def _list(self, value: Any) -> list[Any]:
        if not isinstance(value, list):
            hint = ": begin each item with `- `" if isinstance(value, dict) else ""
            raise ValidationError(f"expected a list, found {found(value)}{hint}")
        errors: dict[int | str, Any] = {}
        read = []
        for index, item in enumerate(value):
            try:
                if not isinstance(item, dict):
                    raise self.wrong(item)
                read.append(self.inner.load(item))
            except ValidationError as exc:
                errors[index] = exc.messages
        if errors:
            raise ValidationError(errors)
        return read

    def json_schema(self) -> dict[str, Any]:
        inner = schema_of(self.inner)
        return {"type": "array", "items": inner} if self.each else inner


def schema_of(schema: Strict) -> dict[str, Any]:
    """The JSON Schema of a mapping: its fields, each stating its own, and nothing else."""
    properties: dict[str, Any] = {}
    required = []
    for name, field in schema.fields.items():
        assert isinstance(field, Typed)
        inner = field.json_schema()
        if field.doc:
            inner = {"description": field.doc, **inner}
        if field.example is not None:
            inner["examples"] = [field.example]
        properties[camel(name)] = inner
        if field.required:
            required.append(camel(name))
    result: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if schema.doc:
        result["description"] = schema.doc
    if required:
        result["required"] = required
    return result
