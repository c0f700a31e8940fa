"""The health of the webhook queue: endpoints, events still kept, dead letters."""

from __future__ import annotations

from sqlalchemy import Connection, case, func, select, tuple_

from supervisor.store.read.rows import DeadLetterRow, EndpointRow, EventRow
from supervisor.store.tables import (
    webhook_cursors,
    webhook_dead_letters,
    webhook_endpoints,
    webhook_events,
    webhook_streams,
)


def dead_letters(
    connection: Connection, *, limit: int, stream: str | None = None, before: tuple[int, str] | None = None
) -> list[DeadLetterRow]:
    """Events that were not delivered, newest first, of all streams or one (a target's key or `_supervisor`)."""
    column = webhook_dead_letters.c
    query = select(
        column.id,
        column.stream,
        column.endpoint,
        column.seq,
        column.type,
        column.timestamp,
        column.code,
        column.error,
        column.outcome,
        column.url,
    )
    if stream is not None:
        query = query.where(column.stream == stream)
    if before is not None:
        query = query.where(column.timestamp <= before[0])
        query = query.where(tuple_(column.timestamp, column.id) < tuple_(*before))
    query = query.order_by(column.timestamp.desc(), column.id.desc()).limit(limit)
    return [DeadLetterRow(*tuple(row)) for row in connection.execute(query).fetchall()]


def events(connection: Connection, stream: str, limit: int) -> list[EventRow]:
    """The newest events of one stream that are still kept."""
    column = webhook_events.c
    query = (
        select(column.seq, column.type, column.created_at, column.endpoints)
        .where(column.stream == stream)
        .order_by(column.seq.desc())
        .limit(limit)
    )
    return [EventRow(*tuple(row)) for row in connection.execute(query).fetchall()]


def acknowledged(connection: Connection, stream: str) -> dict[str, tuple[int, int | None, str | None]]:
    """Of one stream, by endpoint: the last number with an outcome, when the next attempt is due, the last error."""
    column = webhook_cursors.c
    query = select(column.endpoint, column.acked_seq, column.next_attempt_at, column.last_error)
    rows = connection.execute(query.where(column.stream == stream)).fetchall()
    return {row[0]: (row[1], row[2], row[3]) for row in rows}


def endpoints(connection: Connection, since_ms: int) -> list[EndpointRow]:
    """The health of every webhook endpoint, with its dead letters since `since_ms`."""
    cursor, letter, column = webhook_cursors.c, webhook_dead_letters.c, webhook_endpoints.c
    behind = case((cursor.acked_seq < webhook_streams.c.last_seq, 1), else_=0)
    waiting = (
        select(cursor.endpoint, func.sum(behind).label("streams"))
        .join_from(webhook_cursors, webhook_streams, webhook_streams.c.stream == cursor.stream)
        .group_by(cursor.endpoint)
        .subquery()
    )
    lost = (
        select(letter.endpoint, func.count().label("letters"))
        .where(letter.timestamp >= since_ms)
        .group_by(letter.endpoint)
        .subquery()
    )
    query = (
        select(
            column.name,
            column.state,
            column.reason,
            column.open_until,
            column.consecutive_failures,
            column.last_success_at,
            func.coalesce(waiting.c.streams, 0),
            func.coalesce(lost.c.letters, 0),
        )
        .outerjoin(waiting, waiting.c.endpoint == column.name)
        .outerjoin(lost, lost.c.endpoint == column.name)
        .order_by(column.name)
    )
    return [EndpointRow(*tuple(row)) for row in connection.execute(query).fetchall()]
