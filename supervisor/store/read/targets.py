"""Targets, their states and their rollups."""

from __future__ import annotations

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, case, func, literal, or_, select

from supervisor.store.read.rows import MASK_BITS, DayRow, Fingerprint, RollupRow, SumRow, TargetRow
from supervisor.store.tables import meta, rollups, target_states, targets

_LATEST = (
    targets.c.id,
    targets.c.key,
    targets.c.name,
    targets.c.type,
    targets.c.target,
    targets.c.group_name,
    targets.c.enabled,
    targets.c.interval_ms,
    targets.c.timeout_ms,
    targets.c.labels,
    targets.c.first_result_at,
    target_states.c.state,
    target_states.c.since,
    target_states.c.consecutive,
    target_states.c.version,
    target_states.c.last_timestamp,
    target_states.c.last_success,
    target_states.c.last_matched,
    target_states.c.last_duration_ms,
    target_states.c.last_status_detail,
    target_states.c.last_failure,
    target_states.c.last_warning,
    target_states.c.next_due_at,
    target_states.c.in_maintenance,
    target_states.c.matched_total,
    target_states.c.failed_total,
    target_states.c.missed_total,
    target_states.c.lost_total,
    target_states.c.incident_id,
)
_DETAIL = (
    target_states.c.certificate,
    target_states.c.timings,
    target_states.c.metrics,
)
_CONFIG = (
    targets.c.config,
    targets.c.expect,
    target_states.c.run_first_failure,
    target_states.c.run_started_at,
)
# left to itself, SQLite would read the buckets of all targets, which lie in this order
_ONE_TARGET = """
SELECT bucket, matched, failed, degraded, missed, lost, maintenance, covered_ms, duration_sum, duration_min,
    duration_max, histogram, timings_sum
FROM rollups INDEXED BY ix_rollups_target_id_step_bucket
WHERE target_id = ? AND step = ? AND bucket >= ? AND bucket < ? ORDER BY bucket
"""


def all_meta(connection: Connection) -> dict[str, str]:
    """Every key of `meta` whose value is text, as all that we write are."""
    rows = connection.execute(select(meta)).fetchall()
    return {row.key: row.value for row in rows if isinstance(row.value, str)}


def fingerprint(connection: Connection) -> Fingerprint:
    """One pass over the states."""
    state = target_states.c
    counted = state.matched_total + state.failed_total + state.missed_total + state.lost_total
    query = select(
        func.coalesce(func.max(state.version), 0),
        func.coalesce(func.max(state.last_timestamp), 0),
        func.coalesce(func.sum(counted), 0),
        func.count(),
    )
    return Fingerprint(*tuple(connection.execute(query).one()))


def highest_version(connection: Connection) -> int:
    """The version of the latest change of any state; 0 before the first."""
    return int(connection.execute(select(func.coalesce(func.max(target_states.c.version), 0))).scalar_one())


def all_targets(connection: Connection, *, detail: bool = False) -> list[TargetRow]:
    """Every target that is configured now, in file order; `detail` adds certificate, timings and metrics."""
    columns = _LATEST + _DETAIL if detail else _LATEST
    query = (
        select(*columns)
        .select_from(targets.outerjoin(target_states, target_states.c.target_id == targets.c.id))
        .where(targets.c.removed_at.is_(None))
        .order_by(targets.c.position, targets.c.id)
    )
    return [TargetRow(*tuple(row)) for row in connection.execute(query).fetchall()]


def one_target(connection: Connection, key: str) -> TargetRow | None:
    """One target with all that is known of it now; None if it is not configured (any more)."""
    query = (
        select(*_LATEST, *_DETAIL, *_CONFIG)
        .select_from(targets.outerjoin(target_states, target_states.c.target_id == targets.c.id))
        .where(targets.c.key == key, targets.c.removed_at.is_(None))
    )
    row = connection.execute(query).one_or_none()
    return TargetRow(*tuple(row)) if row is not None else None


def _in_window(step_ms: int, from_ms: int, to_ms: int) -> ColumnElement[bool]:
    """Buckets of all targets: they lie side by side."""
    column = rollups.c
    return and_(column.step == step_ms, column.bucket >= from_ms, column.bucket < to_ms)


def buckets(
    connection: Connection, step_ms: int, from_ms: int, to_ms: int, *, remarkable: bool = False
) -> list[DayRow]:
    """Buckets of all targets, `from_ms` inclusive, `to_ms` exclusive; `remarkable` leaves out the good ones."""
    column = rollups.c
    bad = (or_(column.failed > 0, column.degraded > 0, column.matched == 0),) if remarkable else ()
    query = select(
        column.target_id,
        column.bucket,
        column.matched,
        column.failed,
        column.degraded,
        column.maintenance,
        column.duration_sum,
    ).where(_in_window(step_ms, from_ms, to_ms), *bad)
    return [DayRow(*tuple(row)) for row in connection.execute(query).fetchall()]


def sums(connection: Connection, step_ms: int, from_ms: int, to_ms: int) -> list[SumRow]:
    """The sums of all targets over a window of at most 124 buckets, and in which of them there is data."""
    column = rollups.c
    index = (column.bucket - from_ms) // step_ms
    one = literal(1, BigInteger)
    query = (
        select(
            column.target_id,
            func.sum(column.matched),
            func.sum(column.failed),
            func.sum(case((index < MASK_BITS, one.bitwise_lshift(index)), else_=0)),
            func.sum(case((index >= MASK_BITS, one.bitwise_lshift(index - MASK_BITS)), else_=0)),
        )
        .where(_in_window(step_ms, from_ms, to_ms))
        .group_by(column.target_id)
    )
    return [SumRow(*tuple(row)) for row in connection.execute(query).fetchall()]


def duration_parts(
    connection: Connection, step_ms: int, from_ms: int, to_ms: int, part_ms: int
) -> list[tuple[int, int, float, int]]:
    """(target, part, sum of durations, results) of all targets; part 0 begins at `from_ms`."""
    column = rollups.c
    part = (column.bucket - from_ms) // part_ms
    ran = column.matched + column.failed + column.maintenance
    query = (
        select(column.target_id, part, func.sum(column.duration_sum), func.sum(ran))
        .where(_in_window(step_ms, from_ms, to_ms))
        .group_by(column.target_id, part)
    )
    return [(row[0], row[1], row[2], row[3]) for row in connection.execute(query).fetchall()]


def target_rollups(connection: Connection, target_id: int, step_ms: int, from_ms: int, to_ms: int) -> list[RollupRow]:
    """The buckets of one target, oldest first."""
    rows = connection.exec_driver_sql(_ONE_TARGET, (target_id, step_ms, from_ms, to_ms)).fetchall()
    return [RollupRow(*tuple(row)) for row in rows]
