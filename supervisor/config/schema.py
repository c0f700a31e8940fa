"""The sections of a configuration as schemas: runtime, page, defaults, targets, webhooks, maintenance."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar

from marshmallow import post_load

from supervisor.config.fields import Bool, Choice, Duration, Int, ListOf, MapOf, Str
from supervisor.config.strict import Section, Strict, camel
from supervisor.config.target_type import TargetType
from supervisor.config.types import TARGET_TYPES
from supervisor.config.web_fields import HostPort, Url
from supervisor.model import Retention

ID = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
ID_IS = "a name of letters, digits, _ and - (at most 64 characters)"
_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"


# --- runtime and page ------------------------------------------------------------------------------------------------


class RetentionSchema(Strict):
    results = Duration(
        "1h",
        load_default=Retention().results_s,
        doc="How long single results are kept.",
        example="14d",
        shows_default="7d",
    )
    hourly = Duration(
        "1d",
        load_default=Retention().hourly_s,
        doc="How long hourly sums are kept.",
        example="180d",
        shows_default="90d",
    )
    daily = Duration(
        "1d", load_default=Retention().daily_s, doc="How long daily sums are kept.", example="5y", shows_default="3y"
    )
    events = Duration(
        "1h",
        load_default=Retention().events_s,
        doc="How long webhook events, dead letters and incidents' events are kept.",
        example="90d",
        shows_default="30d",
    )

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> Retention:
        return Retention(**{f"{name}_s": value for name, value in data.items()})


class RuntimeSchema(Strict):
    doc = "How the supervisor itself runs."
    max_concurrent_checks = Int(
        1, 1000, load_default=20, doc="Worker processes, over all types and intervals.", example=50
    )
    data_dir = Str(
        doc="Directory of the database `checkvisor.db`, relative to the file.",
        example="/var/lib/checkvisor",
        shows_default="`$STATE_DIRECTORY`, else `data` beside the first file",
        longest=4096,
    )
    retention = Section(
        RetentionSchema,
        load_default=Retention(),
        doc="How long what is kept.",
        example={"results": "14d"},
        shows_default="as below",
    )
    metrics_listen = HostPort(
        listen=True,
        load_default="127.0.0.1:9464",
        doc='Address of the supervisor\'s own `/metrics`; `""` switches it off.',
        example="127.0.0.1:9464",
    )
    public_variables = ListOf(
        Str(pattern=_VARIABLE, expected="the name of a variable"),
        load_default=(),
        doc="Variables whose values are no secrets and are shown.",
        example=["HOST", "PORT"],
        shows_default="[]",
    )
    heartbeat_url = Url(
        secret=True,
        doc="Pinged every 60 s while the loop turns: a dead-man switch elsewhere notices when this ends.",
        example="https://hc.example.org/ping/uuid",
    )


class LinkSchema(Strict):
    name = Str(required=True, longest=100, doc="Text of the link.", example="Runbook")
    url = Url(required=True, doc="Where it leads.", example="https://wiki.example.org/runbook")


class ShowSchema(Strict):
    target = Choice(
        "full",
        "host",
        "none",
        doc="How much of a target's URL or command line the page shows.",
        example="host",
        shows_default="full",
    )
    failure = Choice(
        "full", "message", "none", doc="How much of a failure the page shows.", example="message", shows_default="full"
    )


class GroupPageSchema(Strict):
    elsewhere: ClassVar = dict.fromkeys(("target", "failure"), "write it under show:")
    show = Section(
        ShowSchema,
        doc="What the page shows of this group's targets.",
        example={"target": "none"},
        shows_default="as page.show",
    )


class PageSchema(Strict):
    doc = "Content of the status page."
    title = Str(load_default="Status", longest=100, doc="Heading of the page.", example="Example Shop")
    links = Section(
        LinkSchema,
        each=True,
        load_default=list,
        doc="Links shown on the page.",
        example=[{"name": "Runbook", "url": "https://wiki.example.org/runbook"}],
        shows_default="[]",
    )
    show = Section(
        ShowSchema,
        load_default=dict,
        doc="What the page shows of each target.",
        example={"target": "host", "failure": "message"},
        shows_default="all of it",
    )
    groups = MapOf(
        Section(GroupPageSchema),
        load_default=dict,
        doc="The same for single groups, by their name.",
        example={"Shop": {"show": {"target": "none"}}},
        shows_default="{}",
    )

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
_RULES = ("contains", "regex", "css", "xpath")


class CommonSchema(Strict):
    """What `defaults` and a target share."""

    interval = Duration(
        "1s",
        "366d",
        load_default=30.0,
        doc="Time from the start of one check to the start of the next.",
        example="1m",
        shows_default="30s",
    )
    timeout = Duration(
        "1ms",
        "1d",
        load_default=10.0,
        doc="Deadline of the whole check: DNS, connect, TLS, headers, body, rules.",
        example="5s",
        shows_default="10s",
    )
    retry_interval = Duration(
        "1s",
        "366d",
        doc="Interval while failing or recovering. Not longer than `interval`.",
        example="10s",
        shows_default="the smaller of interval and 30s",
    )
    failure_threshold = Int(1, 1000, load_default=3, doc="Failures in a row before the state is `down`.", example=2)
    success_threshold = Int(
        1, 1000, load_default=2, doc="Matches in a row before a target that was down is `up`.", example=1
    )
    notify = ListOf(
        Str(),
        doc="Names of the webhooks to tell.",
        example=["ops"],
        distinct=True,
        shows_default="every webhook with `default: true`",
    )
    labels = MapOf(
        Str(longest=200, empty=True),
        name=_LABEL,
        name_is="a label: letters, digits, _ . - , not beginning with a digit",
        load_default=dict,
        doc="Free labels, for filters and events.",
        example={"team": "shop"},
        shows_default="{}",
    )


def _keys(schema: type[Strict]) -> list[str]:
    return [camel(name) for name in schema().fields]


def _homes(here: str) -> dict[str, str]:
    """Where keys belong that users write at the top of a target or of `defaults`."""
    places = dict.fromkeys(_RULES, "write it under expect: of the target")
    for kind in TARGET_TYPES.values():
        places |= dict.fromkeys(_keys(kind.expect), "write it under expect: of the target")
    sections: dict[str, list[str]] = {}
    for kind in TARGET_TYPES.values():
        for key in _keys(kind.settings):
            sections.setdefault(key, []).append(f"{kind.name}:")
    places |= {key: f"write it under {' or '.join(names)}{here}" for key, names in sections.items()}
    for kind in TARGET_TYPES.values():
        places |= kind.misplaced
    return places


class DefaultsSchema(CommonSchema):
    doc = "Values for every target that does not say otherwise. Mappings merge by key; lists and single values replace."
    elsewhere: ClassVar = {
        **_homes(" of defaults"),
        "expect": "each target has its own: write it at the target",
        "warn": "each target has its own: write it at the target",
    }

    class Meta(Strict.Meta):
        include: ClassVar = {
            kind.name: Section(kind.defaults, doc=f"For targets of type {kind.name}.", example=kind.example)
            for kind in TARGET_TYPES.values()
        }


class TargetSchema(CommonSchema):
    doc = "One thing that is checked."
    first = ("id", "name", "group", "type", "enabled")
    id = Str(
        pattern=ID,
        expected=ID_IS,
        doc="Identity of the target: its history hangs on it. Letters, digits, `_`, `-`, at most 64.",
        example="shop-api",
        shows_default="made from `name`",
    )
    name = Str(longest=200, doc="What people read.", example="Shop API", shows_default="the `id`")
    group = Str(longest=100, doc="Heading under which the page shows it.", example="Shop")
    type = Choice(
        *TARGET_TYPES,
        required=True,
        doc=f"What kind of check: {' or '.join(f'`{name}`' for name in TARGET_TYPES)}.",
        example="http",
    )
    enabled = Bool(load_default=True, doc="`false` pauses the target and keeps its history.", example=False)
    depends_on = ListOf(
        Str(pattern=ID, expected=ID_IS),
        load_default=(),
        distinct=True,
        example=["router"],
        shows_default="[]",
        doc="Ids of targets without which this one can't be up: while one is down, no alarm is sent for this one.",
    )


def _required(schema: type[Strict]) -> list[str]:
    return [camel(name) for name, field in schema().fields.items() if field.required]


@cache
def target_schema(kind: TargetType) -> TargetSchema:
    """The schema of targets of one type."""
    others = {
        name: f"it is for targets of type {name}, and this one has type {kind.name}"
        for name in TARGET_TYPES
        if name != kind.name
    }
    fields = {
        "elsewhere": _homes(" of the target") | others,
        kind.name: Section(
            kind.settings,
            required=True,
            doc=f"Settings of a check of type {kind.name}.",
            expected="a mapping with " + " and ".join(_required(kind.settings)),
        ),
        "expect": Section(kind.expect, doc="What must hold; the first stage that does not makes the check fail."),
        "warn": Section(
            kind.expect,
            doc="The same grammar, judged when `expect` holds: what does not hold makes the target degraded.",
        ),
    }
    made = type(f"{kind.name.capitalize()}TargetSchema", (TargetSchema,), fields)
    schema: TargetSchema = made()
    return schema
