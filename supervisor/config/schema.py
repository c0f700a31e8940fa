"""The sections of a configuration as schemas: runtime, page, defaults, targets, webhooks, maintenance."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime
from functools import cache
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError
from marshmallow import ValidationError, post_load, validates_schema

from supervisor.config.fields import Bool, Choice, Duration, Int, Json, ListOf, MapOf, Str, Typed, found
from supervisor.config.problems import AtKey
from supervisor.config.strict import Section, Strict
from supervisor.config.types import TYPE_SCHEMAS, homes
from supervisor.config.web_fields import WEBHOOK_HEADERS, Headers, HostPort, Url
from supervisor.model import Retention

ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_ID_IS = "a name of letters, digits, _ and - (at most 64 characters)"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
EVENTS = ("down", "up", "degraded", "recovered", "result", "reminder", "started", "stopped", "reloadFailed")
_SECRET_HINT = "make one with: echo whsec_$(openssl rand -base64 32)"


# --- runtime and page ------------------------------------------------------------------------------------------------


class RetentionSchema(Strict):
    results = Duration("1h", load_default=Retention().results_s, doc="How long single results are kept.", example="14d", shows_default="7d")
    hourly = Duration("1d", load_default=Retention().hourly_s, doc="How long hourly sums are kept.", example="180d", shows_default="90d")
    daily = Duration("1d", load_default=Retention().daily_s, doc="How long daily sums are kept.", example="5y", shows_default="3y")
    events = Duration("1h", load_default=Retention().events_s, doc="How long webhook events, dead letters and incidents' events are kept.",
                      example="90d", shows_default="30d")  # fmt: skip

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> Retention:
        return Retention(**{f"{name}_s": value for name, value in data.items()})


class RuntimeSchema(Strict):
    doc = "How the supervisor itself runs."
    max_concurrent_checks = Int(1, 1000, load_default=20, doc="Worker processes, over all types and intervals.", example=50)
    data_dir = Str(doc="Directory of the database `checkvisor.db`, relative to the file.", example="/var/lib/checkvisor",
                   shows_default="`$STATE_DIRECTORY`, else `data` beside the first file", longest=4096)  # fmt: skip
    retention = Section(RetentionSchema, load_default=Retention(), doc="How long what is kept.", example={"results": "14d"},
                        shows_default="as below")  # fmt: skip
    metrics_listen = HostPort(listen=True, load_default="127.0.0.1:9464", doc='Address of the supervisor\'s own `/metrics`; `""` switches it off.',
                              example="127.0.0.1:9464")  # fmt: skip
    public_variables = ListOf(Str(pattern=_VARIABLE, expected="the name of a variable"), load_default=(),
                              doc="Variables whose values are no secrets and are shown.", example=["HOST", "PORT"], shows_default="[]")  # fmt: skip
    heartbeat_url = Url(secret=True, doc="Pinged every 60 s while the loop turns: a dead-man switch elsewhere notices when this ends.",
                        example="https://hc.example.org/ping/uuid")  # fmt: skip


class LinkSchema(Strict):
    name = Str(required=True, longest=100, doc="Text of the link.", example="Runbook")
    url = Url(required=True, doc="Where it leads.", example="https://wiki.example.org/runbook")


class ShowSchema(Strict):
    target = Choice("full", "host", "none", doc="How much of a target's URL or command line the page shows.", example="host", shows_default="full")
    failure = Choice("full", "message", "none", doc="How much of a failure the page shows.", example="message", shows_default="full")


class GroupPageSchema(Strict):
    show = Section(ShowSchema, doc="What the page shows of this group's targets.", example={"target": "none"}, shows_default="as page.show")


class PageSchema(Strict):
    doc = "Content of the status page."
    title = Str(load_default="Status", longest=100, doc="Heading of the page.", example="Example Shop")
    links = Section(LinkSchema, each=True, load_default=list, doc="Links shown on the page.",
                    example=[{"name": "Runbook", "url": "https://wiki.example.org/runbook"}], shows_default="[]")  # fmt: skip
    show = Section(ShowSchema, load_default=dict, doc="What the page shows of each target.", example={"target": "host", "failure": "message"},
                   shows_default="everything")  # fmt: skip
    groups = MapOf(Section(GroupPageSchema), load_default=dict, doc="The same for single groups, by their name.",
                   example={"Shop": {"show": {"target": "none"}}}, shows_default="{}")  # fmt: skip

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> dict[str, Any]:
        show = {"target": "full", "failure": "full"} | data["show"]
        return {
            "title": data["title"],
            "links": data["links"],
            "show": show,
            "groups": {name: show | group.get("show", {}) for name, group in data["groups"].items()},
        }


# --- targets ---------------------------------------------------------------------------------------------------------

_LABEL = r"[A-Za-z_][A-Za-z0-9_.-]{0,63}"


class CommonSchema(Strict):
    """What `defaults` and a target share."""

    interval = Duration("1s", "366d", load_default=30.0, doc="Time from the start of one check to the start of the next.", example="1m",
                        shows_default="30s")  # fmt: skip
    timeout = Duration("1ms", "1d", load_default=10.0, doc="Deadline of the whole check: DNS, connect, TLS, headers, body, rules.", example="5s",
                       shows_default="10s")  # fmt: skip
    retry_interval = Duration("1s", "366d", doc="Interval while failing or recovering. Not longer than `interval`.", example="10s",
                              shows_default="the smaller of interval and 30s")  # fmt: skip
    failure_threshold = Int(1, 1000, load_default=3, doc="Failures in a row before the state is `down`.", example=2)
    success_threshold = Int(1, 1000, load_default=2, doc="Matches in a row before a target that was down is `up`.", example=1)
    notify = ListOf(Str(), doc="Names of the webhooks to tell.", example=["ops"], distinct=True,
                    shows_default="every webhook with `default: true`")  # fmt: skip
    labels = MapOf(Str(longest=200, empty=True), name=_LABEL, name_is="a label: letters, digits, _ . - , not beginning with a digit",
                   load_default=dict, doc="Free labels, for filters and events.", example={"team": "shop"}, shows_default="{}")  # fmt: skip


class DefaultsSchema(CommonSchema):
    doc = "Values for every target that does not say otherwise. Mappings merge by key; lists and single values replace."
    elsewhere: ClassVar = {
        **homes("defaults"),
        "expect": "each target has its own: write it at the target",
        "warn": "each target has its own: write it at the target",
    }
    http = Section(TYPE_SCHEMAS["http"].defaults, doc="For targets of type http.", example={"followRedirects": False})
    command = Section(TYPE_SCHEMAS["command"].defaults, doc="For targets of type command.", example={"maxOutputBytes": "1MB"})


class TargetSchema(CommonSchema):
    doc = "One thing that is checked."
    id = Str(pattern=ID, expected=_ID_IS, doc="Identity of the target: its history hangs on it. Letters, digits, `_`, `-`, at most 64.",
             example="shop-api", shows_default="made from `name`")  # fmt: skip
    name = Str(longest=200, doc="What people read.", example="Shop API", shows_default="the `id`")
    group = Str(longest=100, doc="Heading under which the page shows it.", example="Shop")
    type = Choice(*TYPE_SCHEMAS, required=True, doc="What kind of check: `http` or `command`.", example="http")
    enabled = Bool(load_default=True, doc="`false` pauses the target and keeps its history.", example=False)
    depends_on = ListOf(Str(pattern=ID, expected=_ID_IS), load_default=(), distinct=True, example=["router"], shows_default="[]",
                        doc="Ids of targets without which this one can't be up: while one of them is down, no alarm is sent for this one.")  # fmt: skip


@cache
def target_schema(kind: str) -> TargetSchema:
    """The schema of targets of one type."""
    schemas = TYPE_SCHEMAS[kind]
    others = {name: f"it is for targets of type {name}, and this one has type {kind}" for name in TYPE_SCHEMAS if name != kind}
    fields = {
        "elsewhere": homes("the target") | others,
        kind: Section(schemas.settings, required=True, doc=f"Settings of a check of type {kind}."),
        "expect": Section(schemas.expect, doc="What must hold; the first stage that does not makes the check fail."),
        "warn": Section(schemas.expect, doc="The same grammar, judged when `expect` holds: what does not hold makes the target degraded."),
    }
    made = type(f"{kind.capitalize()}TargetSchema", (TargetSchema,), fields)
    schema: TargetSchema = made()
    return schema


# --- webhooks --------------------------------------------------------------------------------------------------------


class SigningSecret(Typed):
    expected = "whsec_ and base64 of 24 to 64 bytes"
    schema = {"type": "string", "minLength": 1}

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError(f"expected {self.expected}, found {found(value, sensitive=True)}: {_SECRET_HINT}")
        try:
            key = base64.b64decode(value.removeprefix("whsec_"), validate=True) if value.startswith("whsec_") else b""
        except (binascii.Error, ValueError):
            key = b""
        if not 24 <= len(key) <= 64:
            raise ValidationError(f"not a signing secret: expected {self.expected}: {_SECRET_HINT}")
        return str(value)


class EventName(Choice):
    def read(self, value: Any) -> str:
        if value == "closed":
            raise ValidationError("closed goes to every webhook with up: remove it, or write up")
        if isinstance(value, str) and value.startswith(("target.", "supervisor.")) and value.partition(".")[2] in self.words:
            raise self.wrong(value, f"write {value.partition('.')[2]}")
        return super().read(value)


class WebhookSchema(Strict):
    doc = "A receiver of events."
    elsewhere: ClassVar = {"secret": "write secrets: and a list", "method": "events are always sent by POST", "body": "write format: template and template:"}
    name = Str(required=True, pattern=ID, expected=_ID_IS, doc="Its name, for `notify` and on the page.", example="ops")
    url = Url(user_info=True, secret=True, doc="Where events are sent by POST. Not with `format: apprise`, required otherwise.",
              example="${OPS_WEBHOOK}")  # fmt: skip
    secrets = ListOf(SigningSecret(), load_default=(), most=10, secret=True, doc="Signing secrets (Standard Webhooks), `whsec_` and base64. Several at "
                     "once let you rotate them.", example=["${OPS_SECRET}"], shows_default="[] (no signature)")  # fmt: skip
    events = ListOf(EventName(*EVENTS), least=1, load_default=("down", "up"), distinct=True, example=["down", "up", "degraded"], shows_default="[down, up]",
                    doc=f"Events to send: {', '.join(f'`{name}`' for name in EVENTS)}.")  # fmt: skip
    default = Bool(load_default=False, doc="Receives the events of every target without `notify`.", example=True)
    enabled = Bool(load_default=True, doc="`false` keeps its events in the queue and sends nothing.", example=False)
    metadata = Json(container="a mapping", load_default=dict, doc="Echoed unchanged in every event.", example={"env": "prod"}, shows_default="{}")
    headers = Headers(reserved=WEBHOOK_HEADERS, prefix="webhook-", load_default=(), doc="Headers to add. Names that the sender sets itself are refused.",
                      example={"Authorization": "Bearer ${OPS_TOKEN}"}, shows_default="{}")  # fmt: skip
    timeout = Duration("100ms", "5m", load_default=10.0, doc="Deadline of one attempt.", example="5s", shows_default="10s")
    retries = ListOf(Duration("0s", "7d"), least=1, most=50, load_default=(0.0, 5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0),
                     doc="Waiting time before each attempt after network errors, timeouts, 408, 425, 429 and 5xx.", example=["0s", "10s", "1m"],
                     shows_default="[0s, 5s, 30s, 2m, 10m, 30m, 1h, 2h]")  # fmt: skip
    permanent_retries = ListOf(Duration("0s", "7d"), least=1, most=50, load_default=(0.0, 30.0, 300.0), example=["0s", "1m"],
                               doc="The same after answers that look permanent: 3xx, other 4xx, certificate errors.",
                               shows_default="[0s, 30s, 5m]")  # fmt: skip
    max_age = Duration("1s", "366d", load_default=86400.0, doc="An event older than this is given up.", example="12h", shows_default="24h")
    max_pending = Int(1, 100_000, load_default=1000, doc="Most events waiting for one target; above it the oldest `result` events go first.", example=500)
    allow_private = Bool(load_default=True, doc="Allow private and loopback addresses.", example=False)
    reminder_interval = Duration("1m", "366d", doc="Send `reminder` again and again while a target stays down.", example="4h", shows_default="no reminders")
    format = Choice("checkvisor", "template", "apprise", doc="Shape of the message.", example="template",
                    shows_default="checkvisor, or what `template` or `apprise` says")  # fmt: skip
    template = Json(container="a mapping or a list", doc="JSON body for `format: template`; see docs/webhooks.md for the values that can be put in.",
                    example={"text": "{name}: {message}"})  # fmt: skip
    apprise = Str(secret=True, doc="Apprise URL for `format: apprise`.", example="mailto://user:${MAIL_PASSWORD}@example.org", longest=2000)

    @validates_schema
    def _shape(self, data: dict[str, Any], **_: Any) -> None:
        errors: dict[str, list[str]] = {}
        shape = data.get("format") or ("apprise" if "apprise" in data else "template" if "template" in data else "checkvisor")
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
    schema = {"type": "string", "pattern": r"^\s*\S+(\s+\S+){4}\s*$"}

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or len(value.split()) != 5:
            raise self.wrong(value)
        try:
            next(CronSim(str(value), datetime(2024, 1, 1)))  # noqa: DTZ001 - only its fields are tried
        except CronSimError as exc:
            raise self.wrong(value, str(exc).lower()) from exc
        except StopIteration as exc:
            raise ValidationError(f'the time "{value}" never comes') from exc
        return str(value)


class Zone(Typed):
    expected = "a time zone such as Europe/Berlin or UTC"
    schema = {"type": "string", "minLength": 1}

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not value:
            raise self.wrong(value)
        try:
            ZoneInfo(str(value))
        except (ValueError, OSError, KeyError) as exc:
            raise self.wrong(value) from exc
        return str(value)


class Moment(Typed):
    """RFC 3339, or local time in the window's time zone."""

    expected = "a time such as 2026-03-01T22:00:00Z or 2026-03-01 22:00"
    schema = {"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}"}

    def read(self, value: Any) -> datetime:
        if not isinstance(value, str) or not re.match(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}", value):
            raise self.wrong(value)
        try:
            return datetime.fromisoformat(str(value))
        except ValueError as exc:
            raise self.wrong(value, str(exc)) from exc


class MaintenanceSchema(Strict):
    doc = "A time without alarms: either `cron` and `duration`, or `start` and `end`."
    targets = ListOf(Str(), load_default=(), least=1, doc="Ids of the targets it covers.", example=["shop-api"],
                     shows_default="with no `groups` either: all targets")  # fmt: skip
    groups = ListOf(Str(), load_default=(), least=1, doc="Groups it covers.", example=["Shop"], shows_default="[]")
    cron = Cron(doc="When it begins, again and again (minute, hour, day, month, weekday).", example="0 3 * * 0")
    duration = Duration("1m", "31d", doc="How long it lasts.", example="2h")
    timezone = Zone(load_default="UTC", doc="Time zone of `cron`, and of `start` and `end` without one; changes of the clock are minded.",
                    example="Europe/Berlin")  # fmt: skip
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
        for key in ("start", "end"):
            if key in data:
                moment = data.pop(key)
                data[f"{key}_ms"] = round((moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp() * 1000)
        if data.get("start_ms", 0) >= data.get("end_ms", 1):
            raise ValidationError({"end": ["the end must come after the start"]})
        return data
