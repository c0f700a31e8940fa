"""The JSON Schema (2020-12) of a configuration file, for editors: made by walking the schemas."""

from __future__ import annotations

from typing import Any

from supervisor.config.fields import ListOf, Str
from supervisor.config.receivers import MaintenanceSchema, WebhookSchema
from supervisor.config.schema import DefaultsSchema, PageSchema, RuntimeSchema, target_schema
from supervisor.config.strict import schema_of
from supervisor.config.types import TARGET_TYPES

_TEXT: dict[str, Any] = {"type": "string", "minLength": 1}
_VARIABLE = {"$ref": "#/$defs/variable"}


def jsonschema() -> dict[str, Any]:
    """The schema of one file."""
    targets = []
    for name, kind in TARGET_TYPES.items():
        target = schema_of(target_schema(kind))
        target["properties"]["type"] = {"const": name, "description": "What kind of check."}
        target["anyOf"] = [{"required": ["id"]}, {"required": ["name"]}]
        targets.append(target)
    properties = {
        "runtime": schema_of(RuntimeSchema()),
        "page": schema_of(PageSchema()),
        "defaults": schema_of(DefaultsSchema()),
        "targets": {"type": "array", "description": "What is checked.", "items": {"oneOf": targets}},
        "webhooks": {"type": "array", "description": "Who is told.", "items": schema_of(WebhookSchema())},
        "maintenance": {
            "type": "array",
            "description": "Times without alarms.",
            "items": schema_of(MaintenanceSchema()),
        },
        "include": ListOf(Str(), single=True).json_schema()
        | {"description": "Files to read too: patterns, relative to this file."},
    }
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Checkvisor configuration",
        "type": "object",
        "properties": properties,
        "patternProperties": {"^x-": {"description": "Not read: a place for anchors."}},
        "additionalProperties": False,
        "$defs": _definitions(),
    }
    made: dict[str, Any] = _with_variables(schema)
    return made


def _definitions() -> dict[str, Any]:
    number = {"type": "number"}
    comparisons = dict.fromkeys(("gte", "lte", "gt", "lt"), number)
    count = {"anyOf": [{"type": "integer", "minimum": 0}, _object({"equals": number, **comparisons}, minProperties=1)]}
    flags = {"empty": {"type": "boolean"}, "match": _TEXT}
    text = {"equals": {"type": ["string", "number"]}, "contains": _TEXT, **flags, **comparisons}
    header = {**text, "exists": {"type": "boolean"}, "not": {"$ref": "#/$defs/headerMatcher"}}
    plain = {**text, "regex": _TEXT}
    nodes = {"exists": {"type": "boolean"}, "count": count, **flags, **comparisons}
    typed = {**nodes, "equals": {}, "contains": {}}
    scalar = {**nodes, "equals": {"type": ["string", "number", "boolean"]}, "contains": _TEXT}
    rule: dict[str, Any] = {
        "some": {"type": "boolean", "description": "One node is enough; otherwise every node must hold."}
    }
    json_own = {"path": _TEXT, "dialect": {"enum": ["rfc9535", "jsonpath-ng"]}}
    css_own = {"selector": _TEXT, "attribute": _TEXT}
    xpath_own = {"path": _TEXT, "namespaces": {"type": "object", "additionalProperties": _TEXT}}
    documents = {name: {"$ref": f"#/$defs/{name}Rule"} for name in ("json", "css", "xpath")}
    return {
        "variable": {"type": "string", "pattern": r"\$\{", "description": "${NAME}, ${NAME:-default} or ${file:PATH}."},
        "headerMatcher": _object(header, minProperties=1),
        "textRule": _object({**plain, "not": {"$ref": "#/$defs/textRule"}}, minProperties=1),
        "bodyRule": _object({**plain, **documents, "not": {"$ref": "#/$defs/bodyRule"}}, minProperties=1),
        "jsonMatcher": _object({**typed, "not": {"$ref": "#/$defs/jsonMatcher"}}, minProperties=1),
        "scalarMatcher": _object({**scalar, "not": {"$ref": "#/$defs/scalarMatcher"}}, minProperties=1),
        "jsonRule": _object({**json_own, **rule, **typed, "not": {"$ref": "#/$defs/jsonMatcher"}}, required=["path"]),
        "cssRule": _object(
            {**css_own, **rule, **scalar, "not": {"$ref": "#/$defs/scalarMatcher"}}, required=["selector"]
        ),
        "xpathRule": _object(
            {**xpath_own, **rule, **scalar, "not": {"$ref": "#/$defs/scalarMatcher"}}, required=["path"]
        ),
    }


def _object(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def _with_variables(schema: Any) -> Any:
    """Everywhere a single value stands, `${...}` may stand too: its value is known at load only."""
    if isinstance(schema, list):
        return [_with_variables(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    walked = {
        key: _with_variables(value) if key not in ("examples", "const", "enum") else value
        for key, value in schema.items()
    }
    if "properties" in walked:
        walked["properties"] = {name: _or_variable(inner) for name, inner in walked["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(walked.get(key), dict):
            walked[key] = _or_variable(walked[key])
    return walked


def _or_variable(schema: Any) -> Any:
    single = schema.get("type") in ("integer", "number", "boolean", "string") or "enum" in schema
    choice = "anyOf" in schema and not any("properties" in option for option in schema["anyOf"])
    if not single and not choice:
        return schema
    outer = {key: schema[key] for key in ("description", "examples") if key in schema}
    inner = {key: value for key, value in schema.items() if key not in outer}
    if inner in ({"type": "string"}, _TEXT):
        return schema
    return {**outer, "anyOf": [*(inner["anyOf"] if list(inner) == ["anyOf"] else [inner]), _VARIABLE]}
