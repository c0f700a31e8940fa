"""What a supervisor needs of the database at its start: states, open incidents, numbers, the webhook queue."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import Connection

from supervisor.model import Incident, TargetState
from supervisor.store import outbox
from supervisor.store.codec import failure_from

_STATES = """
SELECT t.key, t.id, t.name, t.type, t.group_name, t.removed_at, s.state, s.since, s.consecutive, s.settled,
    s.run_started_at, s.run_first_failure,
    s.incident_id, s.reminders_sent, s.last_reminder_at, s.last_timestamp
FROM targets AS t JOIN target_states AS s ON s.target_id = t.id
ORDER BY t.position
"""
_OPEN = """
SELECT i.*, t.key FROM incidents AS i JOIN targets AS t ON t.id = i.target_id
WHERE i.id IN (SELECT incident_id FROM target_states)
"""


@dataclass(frozen=True, slots=True)
class Described:
    """How a target is called in events: of one that left the configuration the database alone knows it."""

    name: str
    type: str
    group: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """`states` and `described` hold every target the database knows, by key; those in `removed` are not in the running
    set.

    `problem` says why the store can't be written now (None if it can); with `readable` false nothing could be read:
    states are empty, `max_incident_id` is above any id that was ever given, and the numbers of streams are unknown.
    """

    source: str
    states: dict[str, TargetState] = field(default_factory=dict)
    described: dict[str, Described] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    max_incident_id: int = 0
    outbox: outbox.StoredOutbox = field(default_factory=lambda: outbox.StoredOutbox((), (), {}, ()))
    last_seq: dict[str, int] = field(default_factory=dict)
    readable: bool = True
    problem: str | None = None


def load(connection: Connection, source: str) -> Loaded:
    """Read it all in one transaction. `source` is used when the database has none."""
    incidents = {row.id: _incident(row) for row in connection.exec_driver_sql(_OPEN).fetchall()}
    states, described, removed = {}, {}, set()
    for row in connection.exec_driver_sql(_STATES).fetchall():
        states[row.key] = _state(row, incidents.get(row.incident_id))
        described[row.key] = Described(row.name, row.type, row.group_name)
        if row.removed_at is not None:
            removed.add(row.key)
    highest = connection.exec_driver_sql("SELECT coalesce(max(id), 0) FROM incidents").scalar_one()
    stored = outbox.read_outbox(connection)
    return Loaded(
        source=outbox.read_source(connection) or source,
        states=states,
        described=described,
        removed=frozenset(removed),
        max_incident_id=highest,
        outbox=stored,
        last_seq=stored.last_seq,
    )


def _incident(row: object) -> Incident:
    value = row._mapping  # type: ignore[attr-defined]
    first, last = failure_from(value["first_failure"]), failure_from(value["last_failure"])
    assert first is not None
    assert last is not None
    return Incident(
        value["id"],
        value["key"],
        value["started_at"],
        value["failures"],
        first,
        last,
        bool(value["notified"]),
        value["resolved_at"],
        value["resolution"],
    )


def _state(row: object, incident: Incident | None) -> TargetState:
    value = row._mapping  # type: ignore[attr-defined]
    return TargetState(
        state=value["state"],
        since_ms=value["since"],
        consecutive=value["consecutive"],
        settled=value["settled"],
        run_started_ms=value["run_started_at"],
        run_first_failure=failure_from(value["run_first_failure"]),
        incident=incident,
        reminders_sent=value["reminders_sent"],
        last_reminder_ms=value["last_reminder_at"],
        last_result_ms=value["last_timestamp"],
    )
