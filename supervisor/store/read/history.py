"""Raw results of one target, and incidents."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, or_, select, tuple_

from supervisor.store.read.rows import IncidentRow, ResultRow
from supervisor.store.tables import check_results, incidents, targets


def results(
    connection: Connection,
    target_id: int,
    *,
    limit: int,
    outcome: str | None = None,
    from_ms: int | None = None,
    to_ms: int | None = None,
    before: tuple[int, int] | None = None,
) -> list[ResultRow]:
    """Results of one target, newest first; `before` is the (timestamp, id) of the last one of the page before."""
    column = check_results.c
    query = select(
        column.id,
        column.timestamp,
        column.success,
        column.matched,
        column.duration_ms,
        column.status_detail,
        column.failure,
        column.warning,
        column.timings,
        column.metrics,
        column.maintenance,
    ).where(column.target_id == target_id, *_outcome(outcome))
    if from_ms is not None:
        query = query.where(column.timestamp >= from_ms)
    if to_ms is not None:
        query = query.where(column.timestamp < to_ms)
    if before is not None:
        query = query.where(column.timestamp <= before[0])  # lets SQLite seek; the pair then excludes what was shown
        query = query.where(tuple_(column.timestamp, column.id) < tuple_(*before))
    query = query.order_by(column.timestamp.desc(), column.id.desc()).limit(limit)
    return [ResultRow(*tuple(row)) for row in connection.execute(query).fetchall()]


def _outcome(outcome: str | None) -> tuple[ColumnElement[bool], ...]:
    column = check_results.c
    match outcome:
        case "matched":
            return (column.matched.is_(True),)
        case "degraded":
            return (column.warning.is_not(None),)
        case "failed":
            return (column.matched.is_(False),)
        case "mismatch":
            return (column.matched.is_(False), column.success.is_(True))
        case "error":
            return (column.success.is_(False),)
        case _:
            return ()


def durations(connection: Connection, target_id: int, from_ms: int, limit: int) -> list[tuple[int, bool, float]]:
    """(timestamp, matched, duration) of one target's newest results since `from_ms`, at most `limit`, newest first."""
    column = check_results.c
    query = (
        select(column.timestamp, column.matched, column.duration_ms)
        .where(column.target_id == target_id, column.timestamp >= from_ms)
        .order_by(column.timestamp.desc())
        .limit(limit)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query).fetchall()]


def list_incidents(
    connection: Connection,
    *,
    limit: int,
    target_id: int | None = None,
    from_ms: int | None = None,
    ongoing: bool | None = None,
    before: tuple[int, int] | None = None,
) -> list[IncidentRow]:
    """Incidents, newest first; `from_ms` keeps those that had not ended by then."""
    column = incidents.c
    query = select(
        column.id,
        column.started_at,
        column.resolved_at,
        column.failures,
        column.first_failure,
        column.last_failure,
        column.notified,
        column.resolution,
        targets.c.key,
        targets.c.name,
        targets.c.group_name,
        targets.c.removed_at,
    ).join_from(incidents, targets, targets.c.id == column.target_id)
    if target_id is not None:
        query = query.where(column.target_id == target_id)
    if from_ms is not None:
        query = query.where(or_(column.resolved_at.is_(None), column.resolved_at >= from_ms))
    if ongoing is not None:
        query = query.where(column.resolved_at.is_(None) if ongoing else column.resolved_at.is_not(None))
    if before is not None:
        query = query.where(column.started_at <= before[0])
        query = query.where(tuple_(column.started_at, column.id) < tuple_(*before))
    query = query.order_by(column.started_at.desc(), column.id.desc()).limit(limit)
    return [IncidentRow(*tuple(row)) for row in connection.execute(query).fetchall()]
