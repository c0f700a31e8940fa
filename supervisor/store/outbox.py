"""The webhook queue's SQL: events and outcomes are written inside the writer's transaction, and read back here.

`write_events` runs in the transaction of the result that caused the events, `write_outcome` in a transaction of the
writer after an attempt. Both may run twice for the same input (a commit whose answer was lost): the second changes
nothing. The reading functions take a connection of the supervisor's own, inside a read transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, func, select, text
from sqlalchemy.dialects.sqlite import insert

from supervisor.model import Event
from supervisor.store.tables import (
    meta,
    webhook_cursors,
    webhook_dead_letters,
    webhook_endpoints,
    webhook_events,
    webhook_streams,
)

OutcomeName = Literal[
    "delivered", "failed", "blocked", "expired", "overflow", "unreadable", "orphaned", "disabled"
]  # fmt: skip
EndpointState = Literal["closed", "open", "disabled"]
FAILED_CODE = "WEBHOOK_FAILED"
_FINGERPRINT = "webhook_fingerprint:"  # meta key: a short digest of an endpoint's settings, to notice that they changed


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event that one endpoint did not get, and why. `url` is the origin only: webhook paths are secrets."""

    id: str
    stream: str
    endpoint: str
    seq: int
    type: str
    timestamp_ms: int
    outcome: OutcomeName
    error: str
    url: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far one endpoint is in one stream: every event up to `acked_seq` has an outcome. The rest is the retry state
    of the event after it."""

    stream: str
    endpoint: str
    acked_seq: int
    attempts: int = 0
    next_attempt_ms: int | None = None
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class EndpointHealth:
    """The breaker of one endpoint. `fingerprint` tells whether its settings are still those that were refused (410)."""

    name: str
    state: EndpointState
    reason: str | None = None
    open_until_ms: int | None = None
    consecutive_failures: int = 0
    last_success_ms: int | None = None
    fingerprint: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What one attempt (or a clean-up) changes on disk, all or nothing.

    `passed` names events that got an outcome by it: those of type target.result are deleted once nobody waits for them.
    """

    cursor: Cursor | None = None
    dead_letters: tuple[DeadLetter, ...] = ()
    health: EndpointHealth | None = None
    passed: tuple[tuple[str, int], ...] = ()


# --- written inside the writer's transaction -------------------------------------------------------------------------

_put_stream = insert(webhook_streams)
_put_stream = _put_stream.on_conflict_do_update(
    index_elements=["stream"],
    set_={"last_seq": func.max(webhook_streams.c.last_seq, _put_stream.excluded.last_seq)},
)
_put_event = insert(webhook_events).on_conflict_do_nothing(index_elements=["stream", "seq"])
_put_new_cursor = insert(webhook_cursors).on_conflict_do_nothing(index_elements=["stream", "endpoint"])
_put_cursor = insert(webhook_cursors)
_put_cursor = _put_cursor.on_conflict_do_update(
    index_elements=["stream", "endpoint"],
    set_={name: _put_cursor.excluded[name] for name in ("acked_seq", "attempts", "next_attempt_at", "last_error")},
    where=webhook_cursors.c.acked_seq <= _put_cursor.excluded.acked_seq,  # a cursor never moves back
)
_put_dead_letter = insert(webhook_dead_letters).on_conflict_do_nothing(index_elements=["stream", "endpoint", "seq"])
_put_endpoint = insert(webhook_endpoints)
_put_endpoint = _put_endpoint.on_conflict_do_update(
    index_elements=["name"],
    set_={
        name: _put_endpoint.excluded[name]
        for name in ("state", "reason", "open_until", "consecutive_failures", "last_success_at")
    },
)
_put_meta = insert(meta)
_put_meta = _put_meta.on_conflict_do_update(index_elements=["key"], set_={"value": _put_meta.excluded.value})


def write_events(connection: Connection, events: Iterable[Event]) -> None:
    """Store accepted events, the numbers they took, and a cursor for each endpoint that is new to a stream."""
    events = tuple(events)
    if not events:
        return
    connection.execute(_put_stream, [{"stream": event.stream, "last_seq": event.seq} for event in events])
    connection.execute(
        _put_event,
        [
            {
                "stream": event.stream,
                "seq": event.seq,
                "type": event.type,
                "body": event.body_json.encode(),
                "endpoints": json.dumps(event.endpoints, ensure_ascii=False, separators=(",", ":")),
                "created_at": event.timestamp_ms,
            }
            for event in events
        ],
    )
    cursors = [
        {"stream": event.stream, "endpoint": endpoint, "acked_seq": event.seq - 1, "attempts": 0}
        for event in events
        for endpoint in event.endpoints
    ]
    if cursors:
        connection.execute(_put_new_cursor, cursors)


def write_outcome(connection: Connection, outcome: DeliveryOutcome) -> None:
    """Store what an attempt changed: dead letters first, then the cursor, then the endpoint's health."""
    if outcome.dead_letters:
        connection.execute(_put_dead_letter, [_dead_letter_row(letter) for letter in outcome.dead_letters])
    if (cursor := outcome.cursor) is not None:
        connection.execute(
            _put_cursor,
            {
                "stream": cursor.stream,
                "endpoint": cursor.endpoint,
                "acked_seq": cursor.acked_seq,
                "attempts": cursor.attempts,
                "next_attempt_at": cursor.next_attempt_ms,
                "last_error": cursor.last_error,
            },
        )
        # in a fault of the store an outcome can come before its event: the number is taken all the same
        connection.execute(_put_stream, {"stream": cursor.stream, "last_seq": cursor.acked_seq})
    if outcome.health is not None:
        _write_health(connection, outcome.health)
    for stream, seq in outcome.passed:
        _delete_if_passed(connection, stream, seq)


def _dead_letter_row(letter: DeadLetter) -> dict[str, object]:
    return {
        "id": letter.id,
        "stream": letter.stream,
        "endpoint": letter.endpoint,
        "seq": letter.seq,
        "type": letter.type,
        "timestamp": letter.timestamp_ms,
        "code": FAILED_CODE,
        "error": letter.error,
        "outcome": letter.outcome,
        "url": letter.url,
    }


def _write_health(connection: Connection, health: EndpointHealth) -> None:
    connection.execute(
        _put_endpoint,
        {
            "name": health.name,
            "state": health.state,
            "reason": health.reason,
            "open_until": health.open_until_ms,
            "consecutive_failures": health.consecutive_failures,
            "last_success_at": health.last_success_ms,
        },
    )
    if health.fingerprint is not None:
        connection.execute(_put_meta, {"key": _FINGERPRINT + health.name, "value": health.fingerprint})


_WAITED_FOR = """
    SELECT 1 FROM json_each(e.endpoints) AS wanted
    JOIN webhook_cursors AS c ON c.stream = e.stream AND c.endpoint = wanted.value
    WHERE c.acked_seq < e.seq AND NOT EXISTS (
        SELECT 1 FROM webhook_dead_letters AS d
        WHERE d.stream = e.stream AND d.endpoint = wanted.value AND d.seq = e.seq)
"""
_delete_result_event = text(
    """DELETE FROM webhook_events AS e
    WHERE e.stream = :stream AND e.seq = :seq AND e.type = 'target.result' AND NOT EXISTS (WAITED_FOR)
    """.replace("WAITED_FOR", _WAITED_FOR)
)
_delete_old_events = text(
    """DELETE FROM webhook_events WHERE (stream, seq) IN (
        SELECT e.stream, e.seq FROM webhook_events AS e
        WHERE e.created_at < :before AND NOT EXISTS (WAITED_FOR) LIMIT :limit)
    """.replace("WAITED_FOR", _WAITED_FOR)
)
_delete_old_letters = text(
    "DELETE FROM webhook_dead_letters WHERE id IN (SELECT d.id FROM webhook_dead_letters AS d"
    " WHERE d.timestamp < :before AND NOT EXISTS (SELECT 1 FROM webhook_cursors AS c"
    " WHERE c.stream = d.stream AND c.endpoint = d.endpoint AND c.acked_seq < d.seq) LIMIT :limit)"
)


def _delete_if_passed(connection: Connection, stream: str, seq: int) -> None:
    connection.execute(_delete_result_event, {"stream": stream, "seq": seq})


def delete_old(connection: Connection, before_ms: int, limit: int) -> int:
    """Retention (`retention.events`): delete at most `limit` events and dead letters older than `before_ms` that no
    cursor still has before it. Returns how many rows went."""
    values = {"before": before_ms, "limit": limit}
    events = connection.execute(_delete_old_events, values).rowcount
    return events + connection.execute(_delete_old_letters, values).rowcount


# --- read by the supervisor ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PendingEvent:
    """An event that waits for one endpoint, without its body."""

    stream: str
    seq: int
    type: str
    timestamp_ms: int
    endpoint: str


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it lies on disk; `body` is checked only when it is sent."""

    stream: str
    seq: int
    type: str
    timestamp_ms: int
    body: bytes
    endpoints: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredOutbox:
    """The whole queue as found at start: cursors, breakers, the highest number of each stream, what waits."""

    cursors: tuple[Cursor, ...]
    health: tuple[EndpointHealth, ...]
    last_seq: dict[str, int]
    pending: tuple[PendingEvent, ...]


_pending = text(
    "SELECT e.stream, e.seq, e.type, e.created_at, wanted.value AS endpoint"
    " FROM webhook_cursors AS c JOIN webhook_events AS e ON e.stream = c.stream AND e.seq > c.acked_seq,"
    " json_each(e.endpoints) AS wanted"
    " WHERE wanted.value = c.endpoint AND NOT EXISTS (SELECT 1 FROM webhook_dead_letters AS d"
    " WHERE d.stream = e.stream AND d.endpoint = c.endpoint AND d.seq = e.seq)"
    " ORDER BY e.stream, e.seq"
)
_next_event = text(
    "SELECT e.stream, e.seq, e.type, e.created_at, e.body, e.endpoints"
    " FROM webhook_events AS e, json_each(e.endpoints) AS wanted"
    " WHERE e.stream = :stream AND e.seq > :after AND wanted.value = :endpoint AND NOT EXISTS ("
    " SELECT 1 FROM webhook_dead_letters AS d"
    " WHERE d.stream = e.stream AND d.endpoint = :endpoint AND d.seq = e.seq)"
    " ORDER BY e.seq LIMIT 1"
)


def read_outbox(connection: Connection) -> StoredOutbox:
    """Everything the delivery side needs at start."""
    last_seq = {row.stream: row.last_seq for row in connection.execute(select(webhook_streams))}
    cursors = tuple(
        Cursor(row.stream, row.endpoint, row.acked_seq, row.attempts, row.next_attempt_at, row.last_error)
        for row in connection.execute(select(webhook_cursors))
    )
    for cursor in cursors:
        last_seq[cursor.stream] = max(last_seq.get(cursor.stream, 0), cursor.acked_seq)
    marks = {
        row.key.removeprefix(_FINGERPRINT): row.value
        for row in connection.execute(select(meta).where(meta.c.key.startswith(_FINGERPRINT, autoescape=True)))
    }
    health = tuple(
        EndpointHealth(
            row.name,
            row.state,
            row.reason,
            row.open_until,
            row.consecutive_failures,
            row.last_success_at,
            marks.get(row.name),
        )
        for row in connection.execute(select(webhook_endpoints))
    )
    pending = tuple(
        PendingEvent(row.stream, row.seq, row.type, row.created_at, row.endpoint)
        for row in connection.execute(_pending)
    )
    return StoredOutbox(cursors, health, last_seq, pending)


def read_next_event(connection: Connection, stream: str, endpoint: str, after_seq: int) -> StoredEvent | None:
    """The first event after `after_seq` that the endpoint wanted and that is no dead letter of it."""
    values = {"stream": stream, "endpoint": endpoint, "after": after_seq}
    row = connection.execute(_next_event, values).one_or_none()
    return None if row is None else _stored(row)


def read_event(connection: Connection, stream: str, seq: int) -> StoredEvent | None:
    """One event by its number, delivered or not."""
    query = select(webhook_events).where(webhook_events.c.stream == stream, webhook_events.c.seq == seq)
    row = connection.execute(query).one_or_none()
    return None if row is None else _stored(row)


def read_source(connection: Connection) -> str | None:
    """The uuid of this database (W6)."""
    value = connection.execute(select(meta.c.value).where(meta.c.key == "source")).scalar_one_or_none()
    return None if value is None else str(value)


def _stored(row: object) -> StoredEvent:
    stream, seq, kind, created, body, endpoints = (
        getattr(row, name) for name in ("stream", "seq", "type", "created_at", "body", "endpoints")
    )
    return StoredEvent(stream, seq, kind, created, bytes(body), tuple(json.loads(endpoints)))
