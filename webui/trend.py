"""One target over time: uptime, coverage and percentiles of the windows people ask for, and the points of its chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from supervisor.store import read
from supervisor.store.read import DAY_MS, HOUR_MS, RollupRow
from webui.chart import Point
from webui.db import Snapshot
from webui.history import Counts

_RAW_LIMIT = 20_000  # results read for the 24 h chart; a target with more of them is drawn from its hours
_RAW_STEP_MS = 10 * 60_000


class Span(NamedTuple):
    """A window by its name: its length, and the rollups it is computed from."""

    name: str
    words: str
    length_ms: int
    step_ms: int


SPANS = (
    Span("24h", "24 hours", DAY_MS, HOUR_MS),
    Span("7d", "7 days", 7 * DAY_MS, HOUR_MS),
    Span("30d", "30 days", 30 * DAY_MS, DAY_MS),
    Span("90d", "90 days", 90 * DAY_MS, DAY_MS),
)
BY_NAME = {span.name: span for span in SPANS}


@dataclass(frozen=True, slots=True)
class Figures:
    """What a window says of a target. None: no result in it."""

    span: Span
    from_ms: int
    uptime: float | None
    coverage: float | None
    median_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    missed: int
    lost: int


def start_of(span: Span, now_ms: int) -> int:
    """Where a window begins: on a bucket, so that it holds whole buckets and the present one."""
    return now_ms - now_ms % span.step_ms - span.length_ms + span.step_ms


def figures(snapshot: Snapshot, target_id: int, first_result_ms: int | None) -> list[Figures]:
    """All windows of one target; the hours of a week and the days of three months are read once each."""
    now_ms = snapshot.now_ms
    rows = {
        HOUR_MS: rollups(snapshot, target_id, BY_NAME["7d"]),
        DAY_MS: rollups(snapshot, target_id, BY_NAME["90d"]),
    }
    return [_figures(span, rows[span.step_ms], start_of(span, now_ms), now_ms, first_result_ms) for span in SPANS]


def rollups(snapshot: Snapshot, target_id: int, span: Span, step_ms: int | None = None) -> list[RollupRow]:
    """The buckets of a window."""
    step = step_ms or span.step_ms
    start = start_of(span, snapshot.now_ms)
    return read.target_rollups(snapshot.connection, target_id, step, start, snapshot.now_ms + step)


def _figures(span: Span, rows: Sequence[RollupRow], from_ms: int, now_ms: int, first_result_ms: int | None) -> Figures:
    inside = [row for row in rows if row.bucket >= from_ms]
    median, p95, p99 = read.quantiles(read.merge(row.histogram for row in inside), (0.5, 0.95, 0.99))
    return Figures(
        span=span,
        from_ms=from_ms,
        uptime=uptime(inside),
        coverage=coverage(inside, from_ms, now_ms, first_result_ms),
        median_ms=median,
        p95_ms=p95,
        p99_ms=p99,
        missed=sum(row.missed for row in inside),
        lost=sum(row.lost for row in inside),
    )


def uptime(rows: Sequence[RollupRow]) -> float | None:
    """matched / (matched + failed); None without results."""
    return Counts(sum(row.matched for row in rows), sum(row.failed for row in rows)).uptime


def coverage(rows: Sequence[RollupRow], from_ms: int, now_ms: int, first_result_ms: int | None) -> float | None:
    """Covered time through the time since the window began, or since the first result if that is later."""
    if first_result_ms is None or first_result_ms >= now_ms:
        return None
    length = now_ms - max(from_ms, first_result_ms)
    return min(1.0, max(0.0, sum(row.covered_ms for row in rows) / length)) if length > 0 else None


@dataclass(frozen=True, slots=True)
class Line:
    """The points of a chart, each `step_ms` long."""

    from_ms: int
    to_ms: int
    step_ms: int
    points: tuple[Point, ...]


def line(snapshot: Snapshot, target_id: int, interval_ms: int, span: Span) -> Line:
    """The points to draw: ten minutes of raw results in 24 h, hours up to 30 days (days where hours are gone), days."""
    now_ms = snapshot.now_ms
    if span.length_ms <= DAY_MS and span.length_ms / interval_ms <= _RAW_LIMIT:
        from_ms = now_ms - now_ms % _RAW_STEP_MS - span.length_ms + _RAW_STEP_MS
        found = read.durations(snapshot.connection, target_id, from_ms, _RAW_LIMIT)
        return Line(from_ms, now_ms, _RAW_STEP_MS, tuple(_raw_points(found)))
    step = HOUR_MS if span.length_ms <= 30 * DAY_MS else DAY_MS
    rows = rollups(snapshot, target_id, span, step)
    if step == HOUR_MS and span.step_ms == DAY_MS and not rows:
        step = DAY_MS
        rows = rollups(snapshot, target_id, span, step)
    return Line(start_of(span, now_ms), now_ms, step, tuple(_point(row) for row in rows))


def _point(row: RollupRow) -> Point:
    median, p95 = read.quantiles(row.histogram, (0.5, 0.95))
    return Point(row.bucket, median, p95, row.matched + row.failed, row.failed)


def _raw_points(results: Sequence[tuple[int, bool, float]]) -> list[Point]:
    parts: dict[int, list[tuple[bool, float]]] = {}
    for at_ms, matched, duration_ms in reversed(results):
        parts.setdefault(at_ms - at_ms % _RAW_STEP_MS, []).append((matched, duration_ms))
    return [_raw_point(at_ms, part) for at_ms, part in sorted(parts.items())]


def _raw_point(at_ms: int, part: list[tuple[bool, float]]) -> Point:
    values = sorted(duration for _, duration in part)
    return Point(
        at_ms,
        values[len(values) // 2],
        values[min(len(values) - 1, int(len(values) * 0.95))],
        len(part),
        sum(not matched for matched, _ in part),
    )
