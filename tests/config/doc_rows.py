"""The rows that docs/config.md must hold, made from the schemas: one for each key, with type, default and example."""

from __future__ import annotations

import json
from collections.abc import Iterator

from marshmallow import missing

from supervisor.config import fields, receivers, rules, schema, web_fields
from supervisor.config.resolve import built_in
from supervisor.config.strict import Section, Strict, camel
from supervisor.config.types import TARGET_TYPES, command, http

SECTIONS: dict[str, type[Strict] | Strict] = {
    "runtime": schema.RuntimeSchema,
    "runtime.retention": schema.RetentionSchema,
    "page": schema.PageSchema,
    "page.links[]": schema.LinkSchema,
    "page.show": schema.ShowSchema,
    "page.groups.NAME": schema.GroupPageSchema,
    "defaults": schema.DefaultsSchema,
    "targets[]": schema.TargetSchema,
    **{f"targets[].{name}": kind.settings for name, kind in TARGET_TYPES.items()},
    **{f"targets[].expect ({name})": kind.expect for name, kind in TARGET_TYPES.items()},
    "targets[].http.auth": http.AuthSchema,
    "targets[].http.auth.basic": http.BasicSchema,
    "targets[].http.tls": http.TlsSchema,
    "targets[].expect.certificate": http.CertificateSchema,
    "targets[].command.nagios": command.NagiosSchema,
    "webhooks[]": receivers.WebhookSchema,
    "maintenance[]": receivers.MaintenanceSchema,
}
_NAMES = {
    fields.Bool: "boolean", fields.Number: "number", fields.Size: "size", web_fields.Url: "URL",
    web_fields.Headers: "map of names to texts", web_fields.HostPort: "host:port", web_fields.Method: "text",
    rules.Rules: "list of rules", rules.HeaderRules: "map of names to matchers", rules.Status: "status",
    receivers.SigningSecret: "`whsec_` text", receivers.Cron: "cron (5 fields)", receivers.Zone: "time zone",
    receivers.Moment: "time", http.FormValue: "text, number or list", command.Nagios: "boolean or map",
}  # fmt: skip


def kind(field: fields.Typed) -> str:
    """The type of a field in a few words, with its bounds and unit."""
    if isinstance(field, fields.Int):
        return f"integer {field.low}..{field.high}" + (" (ms)" if field.unit == "milliseconds" else "")
    if isinstance(field, fields.Duration):
        return f"duration {field.low}..{field.high}"
    if isinstance(field, fields.Choice):
        return "one of " + ", ".join(f"`{word}`" for word in field.words)
    if isinstance(field, fields.ListOf):
        return f"list of {kind(field.item)}" + (", or one" if field.single else "")
    if isinstance(field, fields.MapOf):
        return f"map of names to {kind(field.value)}"
    if isinstance(field, fields.Json):
        return {"": "any value", "a mapping": "map"}.get(field.container, "map or list")
    if type(field) is Section:
        return "list of maps" if field.each else "map"
    return _NAMES.get(type(field), "text")


def default(field: fields.Typed) -> str:
    """The built-in value as users would write it, or how it comes about."""
    if field.required:
        return "required"
    if field.shows_default:
        return (
            field.shows_default
            if " " in field.shows_default or "`" in field.shows_default
            else f"`{field.shows_default}`"
        )
    value = built_in(field)
    return "none" if value is missing else f"`{value if isinstance(value, str) else json.dumps(value)}`"


def rows(section: type[Strict] | Strict) -> Iterator[str]:
    """The rows of a section's table."""
    made = section() if isinstance(section, type) else section
    order = {name: index for index, name in enumerate(made.first)}
    for name, field in sorted(made.fields.items(), key=lambda item: order.get(item[0], len(order))):
        assert isinstance(field, fields.Typed)
        example = field.example
        shown = (
            ""
            if example is None
            else f"`{example if isinstance(example, str) else json.dumps(example, ensure_ascii=False)}`"
        )
        cells = [f"`{camel(name)}`", kind(field), default(field), field.doc, shown]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
