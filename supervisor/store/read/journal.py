"""Events that are still kept, of all streams, each with what became of it at its endpoints: for `checkvisor events`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, Row, select, tuple_

from supervisor.store.tables import webhook_cursors, webhook_dead_letters, webhook_events


class OutcomeRow(NamedTuple):
    """What became of an event at one endpoint: `delivered`, `waiting`, or the outcome of its dead letter."""

    endpoint: str
    outcome: str
    error: str | None
    next_attempt_at: int | None


class JournalRow(NamedTuple):
    stream: str
    seq: int
    type: str
    created_at: int
    body: bytes
    outcomes: tuple[OutcomeRow, ...]


def journal(connection: Connection, *, limit: int, stream: str | None = None) -> list[JournalRow]:
    """The newest events, of all streams or one, newest first."""
    column = webhook_events.c
    query = select(webhook_events).order_by(column.created_at.desc(), column.stream, column.seq.desc())
    if stream is not None:
        query = select(webhook_events).where(column.stream == stream).order_by(column.seq.desc())
    return _with_outcomes(connection, connection.execute(query.limit(limit)).fetchall())


def one_event(connection: Connection, stream: str, seq: int) -> JournalRow | None:
    """One event by its number."""
    column = webhook_events.c
    query = select(webhook_events).where(column.stream == stream, column.seq == seq)
    return next(iter(_with_outcomes(connection, connection.execute(query).fetchall())), None)


def _with_outcomes(connection: Connection, events: Sequence[Row[tuple[object, ...]]]) -> list[JournalRow]:
    keys = [(event.stream, event.seq) for event in events]
    letter, cursor = webhook_dead_letters.c, webhook_cursors.c
    letters = {
        (row.stream, row.seq, row.endpoint): OutcomeRow(row.endpoint, row.outcome, row.error, None)
        for row in connection.execute(
            select(letter.stream, letter.seq, letter.endpoint, letter.outcome, letter.error).where(
                tuple_(letter.stream, letter.seq).in_(keys)
            )
        ).fetchall()
    }
    cursors = {
        (row.stream, row.endpoint): row
        for row in connection.execute(
            select(webhook_cursors).where(cursor.stream.in_({stream for stream, _ in keys}))
        ).fetchall()
    }
    found = []
    for event in events:
        outcomes = []
        for name in map(str, json.loads(event.endpoints)):
            known = letters.get((event.stream, event.seq, name)) or _by_cursor(
                event.seq, name, cursors.get((event.stream, name))
            )
            outcomes.append(known)
        found.append(
            JournalRow(event.stream, event.seq, event.type, event.created_at, bytes(event.body), tuple(outcomes))
        )
    return found


def _by_cursor(seq: int, name: str, cursor: Row[tuple[object, ...]] | None) -> OutcomeRow:
    if cursor is not None and cursor.acked_seq >= seq:
        return OutcomeRow(name, "delivered", None, None)
    if cursor is not None and cursor.acked_seq == seq - 1:  # the one that is tried now
        return OutcomeRow(name, "waiting", cursor.last_error, cursor.next_attempt_at)
    return OutcomeRow(name, "waiting", None, None)
