"""What the reading functions give back: one named tuple a row. JSON columns are left as text."""

from __future__ import annotations

from typing import NamedTuple

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
MASK_BITS = 62


class Fingerprint(NamedTuple):
    """What has to change for an answer about all targets to change; cheap to read."""

    version: int
    latest_ms: int
    results: int
    targets: int


class TargetRow(NamedTuple):
    """One target with its state and latest result. JSON columns are left as text."""

    id: int
    key: str
    name: str
    type: str
    target: str
    group: str
    enabled: bool
    interval_ms: int
    timeout_ms: int
    labels: str
    first_result_at: int | None
    state: str | None
    since: int | None
    consecutive: int | None
    version: int | None
    last_timestamp: int | None
    last_success: bool | None
    last_matched: bool | None
    last_duration_ms: float | None
    last_status_detail: str | None
    last_failure: str | None
    last_warning: str | None
    next_due_at: int | None
    in_maintenance: bool | None
    matched_total: int | None
    failed_total: int | None
    missed_total: int | None
    lost_total: int | None
    incident_id: int | None
    certificate: str | None = None
    timings: str | None = None
    metrics: str | None = None
    config: str | None = None
    expect: str | None = None
    run_first_failure: str | None = None
    run_started_at: int | None = None


class DayRow(NamedTuple):
    """The counts of one target in one bucket."""

    target_id: int
    bucket: int
    matched: int
    failed: int
    degraded: int
    maintenance: int
    duration_sum: float


class SumRow(NamedTuple):
    """One target over a window: bit n of `low` is bucket n, of `high` bucket n + MASK_BITS."""

    target_id: int
    matched: int
    failed: int
    low: int
    high: int


class RollupRow(NamedTuple):
    """All of one bucket of one target."""

    bucket: int
    matched: int
    failed: int
    degraded: int
    missed: int
    lost: int
    maintenance: int
    covered_ms: int
    duration_sum: float
    duration_min: float | None
    duration_max: float | None
    histogram: bytes
    timings_sum: str | None


class ResultRow(NamedTuple):
    id: int
    timestamp: int
    success: bool
    matched: bool
    duration_ms: float
    status_detail: str | None
    failure: str | None
    warning: str | None
    timings: str | None
    metrics: str | None
    maintenance: bool | None


class IncidentRow(NamedTuple):
    id: int
    started_at: int
    resolved_at: int | None
    failures: int
    first_failure: str
    last_failure: str
    notified: bool
    resolution: str | None
    key: str
    name: str
    group: str
    removed_at: int | None


class DeadLetterRow(NamedTuple):
    id: str
    stream: str
    endpoint: str
    seq: int
    type: str
    timestamp: int
    code: str
    error: str
    outcome: str
    url: str


class EventRow(NamedTuple):
    seq: int
    type: str
    created_at: int
    endpoints: str


class EndpointRow(NamedTuple):
    """The health of one webhook endpoint. `waiting` counts streams with an event not yet delivered or given up."""

    name: str
    state: str
    reason: str | None
    open_until: int | None
    consecutive_failures: int
    last_success_at: int | None
    waiting: int
    dead_letters: int
