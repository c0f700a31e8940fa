"""The sections that say who is told and when nobody is: webhooks and maintenance windows."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any, ClassVar, Literal
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError
from marshmallow import ValidationError, post_load, validates_schema

from supervisor.config.fields import Bool, Choice, Duration, Int, Json, ListOf, Str, Typed, found
from supervisor.config.problems import AtKey
from supervisor.config.schema import ID, ID_IS
from supervisor.config.strict import Strict
from supervisor.config.web_fields import WEBHOOK_HEADERS, Headers, Url
from supervisor.config.words import did_you_mean

EVENTS = ("down", "up", "degraded", "recovered", "result", "reminder", "started", "stopped", "reloadFailed")
HOW_TO_MAKE_ONE = "make one with: echo whsec_$(openssl rand -base64 32)"


# --- webhooks --------------------------------------------------------------------------------------------------------


class SigningSecret(Typed):
    expected = "whsec_ and base64 of 24 to 64 bytes"
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "minLength": 1}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError(f"expected {self.expected}, found {found(value, sensitive=True)}: {HOW_TO_MAKE_ONE}")
        try:
            key = base64.b64decode(value.removeprefix("whsec_"), validate=True) if value.startswith("whsec_") else b""
        except (binascii.Error, ValueError):
            key = b""
        if not 24 <= len(key) <= 64:
            raise ValidationError(f"not a signing secret: expected {self.expected}: {HOW_TO_MAKE_ONE}")
        return str(value)


class EventName(Choice):
    def read(self, value: Any) -> str:
        if value == "closed":
            raise ValidationError("closed goes to every webhook with up: remove it, or write up")
        if (
            isinstance(value, str)
            and value.startswith(("target.", "supervisor."))
            and value.partition(".")[2] in self.words
        ):
            raise self.wrong(value, f"write {value.partition('.')[2]}")
        return super().read(value)


Shape = Literal["checkvisor", "template", "apprise"]


def shape_of(values: Mapping[str, Any]) -> Shape:
    """The format of a webhook: as written, or as `template` or `apprise` say."""
    written: Shape | None = values.get("format")
    if written is not None:
        return written
    return "apprise" if "apprise" in values else "template" if "template" in values else "checkvisor"


class WebhookSchema(Strict):
    doc = "A receiver of events."
    elsewhere: ClassVar = {
        "secret": "write secrets: and a list",
        "method": "events are always sent by POST",
        "body": "write format: template and template:",
    }
    name = Str(required=True, pattern=ID, expected=ID_IS, doc="Its name, for `notify` and on the page.", example="ops")
    url = Url(
        user_info=True,
        secret=True,
        doc="Where events are sent by POST. Not with `format: apprise`, required otherwise.",
        example="${OPS_WEBHOOK}",
    )
    secrets = ListOf(
        SigningSecret(),
        load_default=(),
        most=10,
        secret=True,
        doc="Signing secrets (Standard Webhooks), `whsec_` and base64. Several at once let you rotate them.",
        example=["${OPS_SECRET}"],
        shows_default="[] (no signature)",
    )
    events = ListOf(
        EventName(*EVENTS),
        least=1,
        load_default=("down", "up"),
        distinct=True,
        example=["down", "up", "degraded"],
        shows_default="[down, up]",
        doc=f"Events to send: {', '.join(f'`{name}`' for name in EVENTS)}.",
    )
    default = Bool(load_default=False, doc="Receives the events of every target without `notify`.", example=True)
    enabled = Bool(
        load_default=True, doc="`false` sends nothing: new events pass it by, waiting ones wait.", example=False
    )
    metadata = Json(
        container="a mapping",
        load_default=dict,
        doc="Echoed unchanged in every event.",
        example={"env": "prod"},
        shows_default="{}",
    )
    headers = Headers(
        reserved=WEBHOOK_HEADERS,
        prefix="webhook-",
        load_default=(),
        doc="Headers to add. Names that the sender sets itself are refused.",
        example={"Authorization": "Bearer ${OPS_TOKEN}"},
        shows_default="{}",
    )
    timeout = Duration(
        "100ms", "5m", load_default=10.0, doc="Deadline of one attempt.", example="5s", shows_default="10s"
    )
    retries = ListOf(
        Duration("0s", "7d"),
        least=1,
        most=50,
        load_default=(0.0, 5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0),
        doc="Waiting time before each attempt after network errors, timeouts, 408, 425, 429 and 5xx.",
        example=["0s", "10s", "1m"],
        shows_default="[0s, 5s, 30s, 2m, 10m, 30m, 1h, 2h]",
    )
    permanent_retries = ListOf(
        Duration("0s", "7d"),
        least=1,
        most=50,
        load_default=(0.0, 30.0, 300.0),
        example=["0s", "1m"],
        doc="The same after answers that look permanent: 3xx, other 4xx, certificate errors.",
        shows_default="[0s, 30s, 5m]",
    )
    max_age = Duration(
        "1s",
        "366d",
        load_default=86400.0,
        doc="An event older than this is given up.",
        example="12h",
        shows_default="24h",
    )
    max_pending = Int(
        1,
        100_000,
        load_default=1000,
        doc="Most events waiting for one target; above it the oldest `result` events go first.",
        example=500,
    )
    allow_private = Bool(load_default=True, doc="Allow private and loopback addresses.", example=False)
    reminder_interval = Duration(
        "1m",
        "366d",
        doc="Send `reminder` again and again while a target stays down.",
        example="4h",
        shows_default="no reminders",
    )
    format = Choice(
        "checkvisor",
        "template",
        "apprise",
        doc="Shape of the message.",
        example="template",
        shows_default="checkvisor, or what `template` or `apprise` says",
    )
    template = Json(
        container="a mapping or a list",
        doc="JSON body for `format: template`; see docs/webhooks.md for the values that can be put in.",
        example={"text": "{{title}}: {{text}}"},
    )
    apprise = Str(
        secret=True,
        doc="Apprise URL for `format: apprise`.",
        example="mailto://user:${MAIL_PASSWORD}@example.org",
        longest=2000,
    )

    @validates_schema
    def _shape(self, data: dict[str, Any], **_: Any) -> None:
        errors: dict[str, list[str]] = {}
        shape = shape_of(data)
        for key in ("template", "apprise"):
            if shape == key and key not in data:
                errors[key] = [f"is missing: format is {key}"]
            elif shape != key and key in data:
                errors[key] = [AtKey(f"goes with format: {key}, and format is {shape}")]
        if shape != "apprise" and "url" not in data:
            errors["url"] = ["is missing: expected a URL to send events to"]
        for key in ("url", "secrets", "headers"):
            if shape == "apprise" and data.get(key):
                errors[key] = [AtKey("has no use with format: apprise, where the Apprise URL says everything")]
        if errors:
            raise ValidationError(errors)


# --- maintenance -----------------------------------------------------------------------------------------------------


class Cron(Typed):
    """Five fields; read by cronsim."""

    expected = 'a cron expression of five fields such as "0 3 * * 0"'
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "pattern": r"^\s*\S+(\s+\S+){4}\s*$"}

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or len(value.split()) != 5:
            raise self.wrong(value)
        try:
            next(CronSim(str(value), datetime(2024, 1, 1)))
        except CronSimError as exc:
            raise self.wrong(value, str(exc).lower()) from exc
        except StopIteration as exc:
            raise ValidationError(f'the time "{value}" never comes') from exc
        return str(value)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones())


class Zone(Typed):
    expected = "a time zone such as Europe/Berlin or UTC"
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "minLength": 1}

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(value)
        try:
            ZoneInfo(str(value))
        except (ValueError, OSError, KeyError) as exc:
            raise self.wrong(value, did_you_mean(value, _zones())) from exc
        return str(value)


class Moment(Typed):
    """RFC 3339, or local time in the window's time zone."""

    expected = "a time such as 2026-03-01T22:00:00Z or 2026-03-01 22:00"
    schema: ClassVar[Mapping[str, Any]] = {
        "type": "string",
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}",
    }

    def read(self, value: Any) -> datetime:
        if not isinstance(value, str) or not re.match(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}", value):
            raise self.wrong(value)
        try:
            return datetime.fromisoformat(str(value))
        except ValueError as exc:
            hint = "the offset must be less than 24 hours" if "offset" in str(exc) else str(exc)
            raise self.wrong(value, hint) from exc


class MaintenanceSchema(Strict):
    doc = "A time without alarms: either `cron` and `duration`, or `start` and `end`."
    targets = ListOf(
        Str(),
        load_default=(),
        least=1,
        doc="Ids of the targets it covers.",
        example=["shop-api"],
        shows_default="with no `groups` either: all targets",
    )
    groups = ListOf(Str(), load_default=(), least=1, doc="Groups it covers.", example=["Shop"], shows_default="[]")
    cron = Cron(doc="When it begins, again and again (minute, hour, day, month, weekday).", example="0 3 * * 0")
    duration = Duration("1m", "31d", doc="How long it lasts.", example="2h")
    timezone = Zone(
        load_default="UTC",
        doc="Time zone of `cron`, and of `start` and `end` without one; changes of the clock are minded.",
        example="Europe/Berlin",
    )
    start = Moment(doc="When it begins, once.", example="2026-03-01T22:00:00Z")
    end = Moment(doc="When it ends.", example="2026-03-02T02:00:00Z")

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        errors: dict[str, list[str]] = {}
        pairs = (("cron", "duration"), ("start", "end"))
        for first, second in (*pairs, *((b, a) for a, b in pairs)):
            if first in data and second not in data:
                errors[second] = [f"is missing: {first} goes with {second}"]
        if "cron" in data and "start" in data:
            errors["start"] = [AtKey("cron and start are two kinds of windows: write two items")]
        if not any(key in data for pair in pairs for key in pair):
            raise ValidationError("expected either cron and duration, or start and end")
        if errors:
            raise ValidationError(errors)
        zone = ZoneInfo(data["timezone"])
        local = [data[key] for key in ("start", "end") if key in data and data[key].tzinfo is None]
        for key in ("start", "end"):
            if key in data:
                moment = data.pop(key)
                data[f"{key}_ms"] = round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp() * 1000)
        if data.get("start_ms", 0) >= data.get("end_ms", 1):
            skipped = len(local) == 2 and local[0] < local[1]
            why = f": in {data['timezone']} the clock is set forward between them" if skipped else ""
            raise ValidationError({"end": [f"the end must come after the start{why}"]})
        return data
