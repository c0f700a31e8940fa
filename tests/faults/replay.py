"""What the database must say: every stored result, in order, through `transition` once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from supervisor import state as machine
from supervisor.model import Incident, TargetState
from supervisor.store.codec import failure_from
from supervisor.store.write import Writer
from tests.make import make_result
from tests.store.harness import query
from tests.store.test_kill import check_sums

Wanted = Mapping[str, Mapping[str, frozenset[str]]]  # stream -> endpoint -> types of events


@dataclass
class Replayed:
    """States, incidents, and by stream the types of its numbered events, the first one being number 1."""

    states: dict[str, TargetState] = field(default_factory=dict)
    incidents: dict[int, Incident] = field(default_factory=dict)
    events: dict[str, list[str]] = field(default_factory=dict)


def replay(data: Path, thresholds: Mapping[str, tuple[int, int]], wanted: Wanted) -> Replayed:
    """All results of a database that knew no pause, removal or suppression."""
    found = Replayed()
    rows = query(
        data,
        "SELECT t.key, r.timestamp, r.success, r.failure, r.warning FROM check_results AS r"
        " JOIN targets AS t ON t.id = r.target_id ORDER BY r.id",
    )
    next_id = 1
    for key, timestamp, success, failure, warning in rows:
        result = make_result(
            failure is None,
            target_id=key,
            timestamp_ms=timestamp,
            success=bool(success),
            failure=failure_from(failure),
            warning=failure_from(warning),
        )
        policy = machine.Policy(*thresholds[key], False, next_id)
        after = machine.transition(found.states.get(key, machine.initial()), result, policy)
        found.states[key] = after.state
        if after.incident is not None:
            found.incidents[after.incident.id] = after.incident
            next_id = max(next_id, after.incident.id + 1)
        interesting = frozenset().union(*wanted[key].values())
        found.events.setdefault(key, []).extend(draft.type for draft in after.events if draft.type in interesting)
    return found


def assert_replayed(data: Path, found: Replayed) -> None:
    """No result is there twice; states, incidents, counters and numbers are those of the replay."""
    assert query(data, "SELECT target_id, timestamp FROM check_results GROUP BY 1, 2 HAVING count(*) > 1") == []
    writer = Writer(data)
    loaded = writer.open()
    writer.flush_and_stop(5)
    assert loaded.states == found.states
    stored = query(data, "SELECT id, started_at, resolved_at, failures, notified, resolution FROM incidents")
    assert stored == [
        (one.id, one.started_ms, one.resolved_ms, one.failures, int(one.notified), one.resolution)
        for one in sorted(found.incidents.values(), key=lambda one: one.id)
    ]
    assert {key: seq for key, seq in loaded.last_seq.items() if seq} == {
        key: len(types) for key, types in found.events.items() if types
    }
    check_sums(data)
    assert query(data, "PRAGMA integrity_check") == [("ok",)]
    assert query(data, "PRAGMA foreign_key_check") == []


def assert_told(
    data: Path, found: Replayed, wanted: Wanted, endpoint: str, posts: list[tuple[str, str, bytes]], most_again: int
) -> tuple[int, int, int]:
    """What an endpoint took (`(event id, type, bytes)` in order) and its dead letters are exactly what it was to get,
    in order; what came again has the same bytes. Returns how many were delivered, dead, and came again."""
    bodies: dict[str, bytes] = {}
    types: dict[str, str] = {}
    last: dict[str, int] = {}
    again = 0
    for event_id, kind, raw in posts:
        stream, _, seq = event_id.rpartition(":")
        assert int(seq) >= last.get(stream, 0), f"{event_id} came after number {last[stream]}"
        last[stream] = int(seq)
        again += event_id in bodies
        assert bodies.setdefault(event_id, raw) == raw, f"{event_id} came again with other bytes"
        types[event_id] = kind
    dead = {
        f"{stream}:{seq}": kind
        for stream, seq, kind in query(
            data, "SELECT stream, seq, type FROM webhook_dead_letters WHERE endpoint = ?", endpoint
        )
    }
    due = {
        f"{stream}:{number}": kind
        for stream, kinds in found.events.items()
        for number, kind in enumerate(kinds, 1)
        if kind in wanted[stream].get(endpoint, frozenset())
    }
    assert types | dead == due
    assert again <= most_again
    return len(bodies), len(dead), again
