"""What travels between the parts: targets in, results out, states, incidents and events. Pure data, nothing else.

Times are integer UTC milliseconds (`*_ms`), durations say their unit in the name. camelCase is for YAML and JSON only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

FailureKind = Literal["error", "mismatch"]
StateName = Literal["pending", "up", "degraded", "failing", "down", "recovering"]
Settled = Literal["up", "degraded", "down"]
Resolution = Literal["recovered", "paused", "removed"]
EventType = Literal[
    "target.down", "target.up", "target.closed", "target.degraded", "target.recovered", "target.result",
    "target.reminder", "target.test", "supervisor.started", "supervisor.stopped", "supervisor.reloadFailed",
]  # fmt: skip
JsonValue = Any  # None, bool, int, float, str, list, dict: a JSON document as Python's json reads it


# --- results ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """Why a check did not match (or, as a warning, why it matched only just).

    `kind` is "error" when the run gave nothing to judge, else "mismatch"; `path` says where, as in
    `expect.body[1].json($.status)` or `http.connect`; `message` is one sentence a person can act on.
    """

    kind: FailureKind
    phase: str
    path: str
    message: str
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True)
class Timings:
    """Milliseconds of each step of an HTTP check's last hop; None where the step did not happen."""

    dns: float | None = None
    connect: float | None = None
    tls: float | None = None
    first_byte: float | None = None
    transfer: float | None = None


@dataclass(frozen=True, slots=True)
class Certificate:
    """The leaf certificate of the live connection."""

    not_before_ms: int
    not_after_ms: int
    subject: str
    issuer: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One value of Nagios performance data; ranges are kept as written (Monitoring Plugins guidelines, 2.6)."""

    label: str
    value: float | None
    unit: str = ""
    warning: str = ""
    critical: str = ""
    minimum: float | None = None
    maximum: float | None = None


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The verdict of one run. Up means `matched`; without `success` there was nothing to judge."""

    target_id: str
    timestamp_ms: int
    success: bool
    matched: bool
    duration_ms: float
    status_detail: str = ""
    failure: CheckFailure | None = None
    warning: CheckFailure | None = None
    timings: Timings | None = None
    metrics: tuple[Metric, ...] = ()
    certificate: Certificate | None = None

    def __post_init__(self) -> None:
        if self.matched and not self.success:
            raise ValueError("a run without success can't match")
        if self.matched == (self.failure is not None):
            raise ValueError("a result has a failure exactly when it does not match")
        if self.failure is not None and (self.failure.kind == "error") == self.success:
            raise ValueError("kind is error exactly when the run had no success")
        if self.warning is not None and not self.matched:
            raise ValueError("a warning stands beside a match only")
        if not self.duration_ms >= 0:
            raise ValueError("a duration is a number of milliseconds, 0 or more")


# --- targets ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Secret:
    """A substituted value, shown as `${name}` wherever it would appear. `repr` never holds the value."""

    name: str
    value: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ResolvedTarget:
    """One target with every default applied: all that a worker and the loop need to know of it.

    `settings`, `expect` and `warn` are the frozen dataclasses of the checker's type (checkers/TYPE/settings.py,
    expect/spec.py). `summary` (URL or command line) and `config_json` are masked already; nothing else here is.
    """

    id: str
    name: str
    type: str
    settings: Any
    expect: Any
    warn: Any | None
    interval_s: float
    timeout_s: float
    retry_interval_s: float
    failure_threshold: int
    success_threshold: int
    enabled: bool = True
    group: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    notify: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()
    summary: str = ""
    config_json: str = field(default="{}", repr=False)
    position: int = 0


# --- the rest of the configuration -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Retention:
    results_s: float = 7 * 86400.0
    hourly_s: float = 90 * 86400.0
    daily_s: float = 3 * 365 * 86400.0
    events_s: float = 30 * 86400.0


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    data_dir: str
    max_concurrent_checks: int = 20
    retention: Retention = Retention()
    metrics_listen: str = "127.0.0.1:9464"
    heartbeat_url: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """One receiver. `template_json` and `apprise_url` go with the formats of their names."""

    name: str
    url: str = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    events: tuple[str, ...] = ("down", "up")
    default: bool = False
    enabled: bool = True
    metadata_json: str = "{}"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_s: float = 10.0
    retries_s: tuple[float, ...] = (0, 5, 30, 120, 600, 1800, 3600, 7200)
    permanent_retries_s: tuple[float, ...] = (0, 30, 300)
    max_age_s: float = 86400.0
    max_pending: int = 1000
    allow_private: bool = True
    reminder_interval_s: float | None = None
    format: Literal["checkvisor", "template", "apprise"] = "checkvisor"
    template_json: str | None = None
    apprise_url: str | None = field(default=None, repr=False)
    mask: tuple[Secret, ...] = ()


@dataclass(frozen=True, slots=True)
class MaintenanceWindow:
    """Recurring (`cron` + `duration_s` in `timezone`) or one-off (`start_ms`..`end_ms`) time without alarms."""

    targets: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    cron: str | None = None
    duration_s: float | None = None
    timezone: str = "UTC"
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A whole validated configuration. `page_json` is what the web app shows (title, links, show), as JSON."""

    runtime: RuntimeSettings
    targets: tuple[ResolvedTarget, ...]
    webhooks: tuple[WebhookEndpoint, ...] = ()
    maintenance: tuple[MaintenanceWindow, ...] = ()
    page_json: str = "{}"
    warnings: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    fingerprint: str = ""
    secrets: tuple[Secret, ...] = ()


# --- states, incidents, events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Incident:
    """A time in which a target was down. `started_ms` is the first failure of its run, `resolved_ms` the first match
    of the run that closed it; `id` is given by the loop and never reused."""

    id: int
    target_id: str
    started_ms: int
    failures: int
    first_failure: CheckFailure
    last_failure: CheckFailure
    notified: bool
    resolved_ms: int | None = None
    resolution: Resolution | None = None


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state machine's memory for one target (design section 8); persisted with each result."""

    state: StateName = "pending"
    since_ms: int | None = None
    consecutive: int = 0  # failures in a row (failing, down) or matches in a row (recovering)
    settled: Settled | None = None
    run_started_ms: int | None = None  # first failure of the present failing run; first match while recovering
    run_first_failure: CheckFailure | None = None
    incident: Incident | None = None
    reminders_sent: int = 0
    last_reminder_ms: int | None = None
    last_result_ms: int | None = None


@dataclass(frozen=True, slots=True)
class EventDraft:
    """An event as `state.transition` finds it: before the filter, before it has a number."""

    type: EventType
    timestamp_ms: int
    result: CheckResult | None = None
    previous_state: StateName | None = None
    since_ms: int | None = None
    consecutive_failures: int = 0
    down_since_ms: int | None = None
    down_for_ms: int | None = None
    reminder: int = 0
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """An accepted event: numbered in its stream, with the endpoints that want it. `body_json` is the envelope without
    the endpoint's metadata (sorted keys, no spaces)."""

    stream: str
    seq: int
    type: EventType
    timestamp_ms: int
    body_json: str
    endpoints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Item:
    """What the loop hands to the writer for one result: one transaction, all or nothing."""

    result: CheckResult | None
    state: TargetState
    target_id: str
    incident: Incident | None = None
    events: tuple[Event, ...] = ()
    maintenance: bool = False
    next_due_ms: int | None = None
