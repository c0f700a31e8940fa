"""The marshmallow schemas: they check what comes in, and describe in OpenAPI what goes out (jsonview.py makes that)."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate
from marshmallow.validate import OneOf, Regexp

LIMIT, LIMIT_MAX = 100, 500
CURSOR = r"^[0-9]{1,16}-[0-9]{1,16}$"
LETTER_CURSOR = r"^[0-9]{1,16}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"
OUTCOMES = ("matched", "failed", "mismatch", "error", "degraded")
STATES = ("pending", "up", "degraded", "failing", "down", "recovering")
STATUSES = (
    "unknown", "down", "recovering", "failing", "late", "degraded", "maintenance", "pending", "paused", "up",
)  # fmt: skip
OVERALL = ("unknown", "down", "late", "failing", "degraded", "up", "pending", "paused", "maintenance", "empty")
OVERLAYS = ("paused", "maintenance", "late", None)
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt ]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+ -])([0-9]{2}):([0-9]{2}))"
)


def camel(name: str) -> str:
    """`duration_ms` -> `durationMs`."""
    head, *rest = name.split("_")
    return head + "".join(part.title() for part in rest)


class Base(Schema):
    """camelCase names, in the order they are written."""

    def on_bind_field(self, field_name: str, field_obj: Any) -> None:
        field_obj.data_key = camel(field_obj.data_key or field_name)


# --- what comes in ---------------------------------------------------------------------------------------------------


class Limit(fields.Field[int]):
    """A number of items: digits, at least 1. More than the cap is the cap, because scripts write 1000000 for "all"."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        if not isinstance(value, str) or not re.fullmatch(r"[0-9]+", value) or not value.strip("0"):
            raise ValidationError(f"a whole number from 1; more than {LIMIT_MAX} means {LIMIT_MAX}")
        return LIMIT_MAX if len(value.lstrip("0")) > 4 else min(int(value), LIMIT_MAX)


class Moment(fields.Field[int]):
    """An RFC 3339 time, as UTC milliseconds."""

    def _deserialize(self, value: Any, *_: Any, **__: Any) -> int:
        found = _MOMENT.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise ValidationError("an RFC 3339 time, as in 2026-11-30T20:31:12Z")
        try:
            return _moment(*found.groups())
        except (ValueError, OverflowError) as error:
            raise ValidationError(f"no such time: {error}") from error


def _moment(*parts: Any) -> int:
    year, month, day, hour, minute, second = (int(part) for part in parts[:6])
    leap = second == 60
    at = datetime(max(year, 1), month, day, hour, minute, 59 if leap else second, tzinfo=UTC)
    millis = int(((parts[6] or "0") + "000")[:3])
    if parts[7]:
        if int(parts[8]) > 23 or int(parts[9]) > 59:
            raise ValueError("an offset is at most 23:59")
        offset = timedelta(hours=int(parts[8]), minutes=int(parts[9]))
        shift = offset if parts[7] == "-" else -offset  # "+" in an address is a blank once it is decoded
    else:
        shift = timedelta()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (at - epoch + shift) // timedelta(milliseconds=1) + millis


def _limit() -> Limit:
    text = f"How many items, at least 1. More than {LIMIT_MAX} means {LIMIT_MAX}."
    return Limit(load_default=LIMIT, metadata={"type": "integer", "minimum": 1, "description": text})


def _cursor(pattern: str = CURSOR) -> fields.String:
    text = "`nextCursor` of the page before."
    return fields.String(validate=Regexp(pattern + r"\Z"), metadata={"pattern": pattern, "description": text})


def _moment_field(text: str) -> Moment:
    return Moment(metadata={"type": "string", "format": "date-time", "description": text})


class NoQuery(Base):
    """No parameter."""


class TargetsQuery(Base):
    group = fields.String(metadata={"description": "Only targets of this group."})
    status = fields.String(validate=OneOf(STATUSES), metadata={"description": "Only targets with this status."})


class ResultsQuery(Base):
    from_ = _moment_field("Results at or after this time.")
    to = _moment_field("Results before this time.")
    outcome = fields.String(validate=OneOf(OUTCOMES), metadata={"description": "Only these results."})
    limit = _limit()
    cursor = _cursor()


class TrendQuery(Base):
    window = fields.String(
        load_default="24h",
        validate=OneOf(("24h", "7d", "30d", "90d")),
        metadata={"description": "24h and 7d are told by hour, 30d and 90d by day."},
    )


class IncidentsQuery(Base):
    ongoing = fields.String(validate=OneOf(("true", "false")), metadata={"description": "Only ongoing, or only ended."})
    limit = _limit()
    cursor = _cursor()


class LettersQuery(Base):
    limit = _limit()
    cursor = _cursor(LETTER_CURSOR)


class AllLettersQuery(LettersQuery):
    stream = fields.String(metadata={"description": "Only this stream: a target's id, or `_supervisor`."})


# --- what goes out ---------------------------------------------------------------------------------------------------


def _text(*values: str | None, none: bool = False, about: str | None = None, **more: Any) -> fields.String:
    checks = OneOf(values) if values else None
    metadata = more | ({"description": about} if about else {})
    return fields.String(required=True, allow_none=none, validate=checks, metadata=metadata)


def _when(*, none: bool = False, about: str | None = None) -> fields.String:
    return _text(none=none, about=about, format="date-time")


def _number(*, none: bool = False, about: str | None = None) -> fields.Float:
    return fields.Float(required=True, allow_none=none, metadata={"description": about} if about else {})


def _count(about: str | None = None) -> fields.Integer:
    metadata = {"description": about} if about else {}
    return fields.Integer(required=True, validate=validate.Range(min=0), metadata=metadata)


def _flag(about: str | None = None) -> fields.Boolean:
    return fields.Boolean(required=True, metadata={"description": about} if about else {})


class Problem(Base):
    """RFC 9457."""

    type = _text()
    title = _text()
    status = _count()
    detail = _text(about="A sentence for a person.")
    instance = _text(about="The path that was asked for.")
    code = _text(about="Stable, for programs: NOT_FOUND, TARGET_NOT_FOUND, INVALID_PARAMETER, STORE_UNAVAILABLE ...")
    errors = fields.List(fields.Dict(keys=fields.String(), values=fields.String()))


class Fresh(Base):
    heartbeat_at = _when(none=True, about="When the supervisor last said that it lives.")
    stale = _flag("The heartbeat is more than 30 s away: every state here is only the last known one.")


class Failure(Base):
    kind = _text("error", "mismatch")
    phase = _text()
    path = _text(about="Where: `expect.body[1].json($.status)`, `http.connect`.")
    expected = _text(none=True)
    actual = _text(none=True)
    message = _text(about="One sentence a person can act on.")


class LastResult(Base):
    timestamp = _when()
    success = _flag("The run gave something to judge.")
    matched = _flag("Every expectation held: the target is up.")
    duration_ms = _number(none=True)
    status_detail = _text()
    failure = fields.Nested(Failure, required=True, allow_none=True)
    warning = fields.Nested(Failure, required=True, allow_none=True)


class Timings(Base):
    dns = fields.Float(allow_none=True)
    connect = fields.Float(allow_none=True)
    tls = fields.Float(allow_none=True)
    first_byte = fields.Float(allow_none=True)
    transfer = fields.Float(allow_none=True)


class Metric(Base):
    label = _text()
    value = _number(none=True)
    unit = fields.String()
    warning = fields.String()
    critical = fields.String()
    minimum = fields.Float()
    maximum = fields.Float()


class Result(LastResult):
    id = _text(about="A number as text: JavaScript rounds numbers of this size.")
    timings = fields.Nested(Timings, required=True, allow_none=True)
    metrics = fields.List(fields.Nested(Metric), required=True)
    maintenance = _flag()


class Totals(Base):
    matched = _count()
    failed = _count()
    missed = _count("Due, and did not run because the last run had not ended.")
    lost = _count("Ran, and could not be stored.")


class Target(Base):
    id = _text()
    name = _text()
    type = _text()
    group = _text()
    target = _text(about="URL or command line, without secrets.")
    labels = fields.Dict(keys=fields.String(), values=fields.String(), required=True)
    enabled = _flag()
    state = _text(*STATES, about="The state machine's state, whatever lies over it.")
    overlay = _text(*OVERLAYS, none=True)
    status = _text(*STATUSES, about="The one word for it now; `unknown` when the supervisor is silent.")
    late = _flag("The last result is older than 2 intervals + timeout.")
    stale = _flag("The supervisor is silent.")
    since = _when(none=True)
    consecutive_failures = _count()
    interval_ms = _count()
    timeout_ms = _count()
    next_due_at = _when(none=True)
    last_result = fields.Nested(LastResult, required=True, allow_none=True)
    totals = fields.Nested(Totals, required=True)


class Incident(Base):
    id = _text()
    target_id = _text()
    target_name = _text()
    group = _text()
    started_at = _when(about="The first failure.")
    resolved_at = _when(none=True, about="The first match of the run that closed it.")
    duration_ms = fields.Integer(required=True, allow_none=True)
    failures = _count()
    first_failure = fields.Nested(Failure, required=True, allow_none=True)
    last_failure = fields.Nested(Failure, required=True, allow_none=True)
    notified = _flag()
    resolution = _text("recovered", "paused", "removed", None, none=True)


class Certificate(Base):
    not_before = _when(none=True)
    not_after = _when(none=True)
    subject = _text(none=True)
    issuer = _text(none=True)


class Window(Base):
    window = _text("24h", "7d", "30d", "90d")
    from_ = _when()
    uptime = _number(none=True, about="matched / (matched + failed) outside maintenance, 0 to 1; not rounded.")
    coverage = _number(none=True, about="The part of the time for which there are results, 0 to 1.")
    p50_ms = _number(none=True)
    p95_ms = _number(none=True)
    p99_ms = _number(none=True)
    missed = _count()
    lost = _count()


class TargetDetail(Target, Fresh):
    windows = fields.List(fields.Nested(Window), required=True)
    certificate = fields.Nested(Certificate, required=True, allow_none=True)
    timings = fields.Nested(Timings, required=True, allow_none=True)
    metrics = fields.List(fields.Nested(Metric), required=True)
    config = fields.Dict(required=True, allow_none=True, metadata={"description": "As resolved, secrets masked."})
    expect = fields.Dict(required=True, allow_none=True)
    incident = fields.Nested(Incident, required=True, allow_none=True)


class Bucket(Base):
    timestamp = _when()
    matched = _count()
    failed = _count()
    degraded = _count()
    maintenance = _count()
    missed = _count()
    lost = _count()
    covered_ms = _count()
    mean_ms = _number(none=True)
    min_ms = _number(none=True)
    max_ms = _number(none=True)
    p50_ms = _number(none=True)
    p95_ms = _number(none=True)
    p99_ms = _number(none=True)


class Page(Fresh):
    next_cursor = _text(none=True, about="For `cursor` of the next page; null on the last one.")


class Results(Page):
    items = fields.List(fields.Nested(Result), required=True)


class Incidents(Page):
    items = fields.List(fields.Nested(Incident), required=True)


class Trend(Page):
    window = _text("24h", "7d", "30d", "90d")
    from_ = _when()
    step_ms = _count()
    uptime = _number(none=True)
    coverage = _number(none=True)
    items = fields.List(fields.Nested(Bucket), required=True)


class DeadLetter(Base):
    id = _text()
    timestamp = _when()
    url = _text(about="The origin only: paths of webhooks are secrets.")
    code = _text()
    error = _text()
    event_id = _text()
    seq = _count()
    type = _text()
    endpoint = _text()
    outcome = _text()


class DeadLetters(Base):
    items = fields.List(fields.Nested(DeadLetter), required=True)
    next_cursor = _text(none=True)


class SupervisorFacts(Base):
    version = _text()
    started_at = _when(none=True)
    reload_error = _text(none=True)
    degraded = _text(none=True, about="Why results can't be stored at the moment.")


class Summary(Fresh):
    overall = _text(*OVERALL)
    headline = _text()
    counts = fields.Dict(keys=fields.String(), values=fields.Integer(), required=True)
    targets = _count()
    version = _text(about="Rises with each change of a state.")
    supervisor = fields.Nested(SupervisorFacts, required=True)


class Health(Fresh):
    id = _text()
    healthy = _flag()
    state = _text(*STATES)
    overlay = _text(*OVERLAYS, none=True)
    status = _text(*STATUSES)
    late = _flag()
    last_result_at = _when(none=True)
    failure = fields.Nested(Failure, required=True, allow_none=True)
