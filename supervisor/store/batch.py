"""One transaction of the writer: gathered from items in their order, written with a few prepared statements.

Everything that belongs to a result (row, state, incident, counters, rollups, events) is in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from supervisor.model import CheckResult, Event, Incident, Item, TargetState
from supervisor.store import outbox
from supervisor.store.catalog import Known, Steady, visible_of
from supervisor.store.codec import certificate_json, failure_json, metrics_json, timings_json
from supervisor.store.memory import Residue
from supervisor.store.rollup import HOUR_MS, Rollups, covered

_RESULT = """
INSERT INTO check_results (target_id, timestamp, success, matched, duration_ms, status_detail, failure, warning,
    timings, metrics, maintenance)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_STATE_COLUMNS = """
    state = ?, since = ?, consecutive = ?, version = coalesce(?, version), settled = ?, run_started_at = ?,
    run_first_failure = ?, next_due_at = ?, in_maintenance = ?, incident_id = ?, reminders_sent = ?,
    last_reminder_at = ?
"""
_STATE = f"UPDATE target_states SET {_STATE_COLUMNS} WHERE target_id = ?"  # noqa: S608 - constants
# a run that gave nothing to judge says nothing new of the certificate and the metrics: the last ones stay
_LATEST = f"""
UPDATE target_states SET last_timestamp = ?, last_success = ?, last_matched = ?, last_duration_ms = ?,
    last_status_detail = ?, last_failure = ?, last_warning = ?, timings = ?,
    certificate = coalesce(?, CASE WHEN ? THEN certificate END), metrics = coalesce(?, CASE WHEN ? THEN metrics END),
    matched_total = matched_total + ?, failed_total = failed_total + ?, {_STATE_COLUMNS}
WHERE target_id = ?
"""  # noqa: S608 - constants
_FIRST = "UPDATE targets SET first_result_at = ? WHERE id = ? AND first_result_at IS NULL"
_COUNTED = "UPDATE target_states SET missed_total = missed_total + ?, lost_total = lost_total + ? WHERE target_id = ?"
_INCIDENT = """
INSERT INTO incidents (id, target_id, started_at, resolved_at, failures, first_failure, last_failure, notified,
    resolution)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET resolved_at = excluded.resolved_at, failures = excluded.failures,
    last_failure = excluded.last_failure, notified = excluded.notified, resolution = excluded.resolution
"""
# an incident that the process did not know of (the database could not be read when it started) ends with what it knows
_FORGOTTEN = """
UPDATE incidents SET resolved_at = max(started_at, ?), resolution = 'recovered'
WHERE id = ? AND resolved_at IS NULL
"""
_STEADY = """
UPDATE target_states SET last_timestamp = ?, last_success = 1, last_matched = 1, last_duration_ms = ?,
    last_status_detail = ?, timings = ?, metrics = ?, next_due_at = ?, matched_total = matched_total + 1
WHERE target_id = ?
"""

Rows = list[tuple[Any, ...]]


class Batch:
    """Gathers with `add_*`, then `write` runs the statements. `known` and `rollups` are changed on the way."""

    def __init__(self, known: dict[str, Known], rollups: Rollups, next_version: Callable[[], int]) -> None:
        self._known = known
        self._rollups = rollups
        self._next_version = next_version
        self._results: Rows = []
        self._latest: Rows = []
        self._steady: Rows = []
        self._steady_ids: set[int] = set()
        self._earlier: list[tuple[str, Rows]] = []
        self._states: dict[int, tuple[Any, ...]] = {}  # states without a result, after all others
        self._counted: Rows = []
        self._first: Rows = []
        self._forgotten: Rows = []
        self._incidents: dict[int, tuple[int, Incident]] = {}
        self._events: list[Event] = []

    def add_item(self, item: Item) -> None:
        """One item. Of one whose target has no row only the events are written."""
        self._events.extend(item.events)
        known = self._known.get(item.target_id)
        if known is None:
            return
        result, state = item.result, item.state
        if result is not None:
            self._add_result(known, result, maintenance=item.maintenance)
            if known.steady is not None and known.steady == _steady(state, result, maintenance=item.maintenance):
                self._add_steady(known, result, item.next_due_ms)
                return
        known.steady = None
        row = self._state(known, item)
        if result is None:
            self._states[known.row_id] = row
        else:
            self._states.pop(known.row_id, None)  # an older one
            self._add_latest(known, result, row)
            known.steady = _steady(state, result, maintenance=item.maintenance)
        self._add_incident(known, state, item.incident)

    def add_residue(self, residue: Residue) -> None:
        """What is left of results that overflowed: state, incidents, how many were lost in which hour."""
        known = self._known.get(residue.target_id)
        if known is None:
            return
        known.steady = None
        item = Item(None, residue.state, residue.target_id, maintenance=residue.maintenance)
        self._states[known.row_id] = self._state(known, item)
        for incident in residue.incidents.values():
            self._incidents[incident.id] = (known.row_id, incident)
        known.incident_id = None if residue.state.incident is None else residue.state.incident.id
        for hour, count in residue.lost.items():
            self._rollups.add_counts(known.row_id, hour, lost=count)
        self._counted.append((0, residue.lost.total(), known.row_id))

    def add_missed(self, key: str, slot_ms: int, count: int) -> None:
        """Slots at which no run started."""
        known = self._known.get(key)
        if known is not None:
            self._rollups.add_counts(known.row_id, slot_ms, missed=count)
            self._counted.append((count, 0, known.row_id))

    def _state(self, known: Known, item: Item) -> tuple[Any, ...]:
        state = item.state
        visible = visible_of(item, known.visible)
        version = None
        if visible != known.visible:
            known.visible = visible
            version = self._next_version()
        return (
            state.state, state.since_ms, state.consecutive, version, state.settled, state.run_started_ms,
            failure_json(state.run_first_failure), item.next_due_ms, item.maintenance,
            None if state.incident is None else state.incident.id, state.reminders_sent, state.last_reminder_ms,
            known.row_id,
        )  # fmt: skip

    def _add_result(self, known: Known, result: CheckResult, *, maintenance: bool) -> None:
        at = result.timestamp_ms
        noteworthy = result.failure is not None or result.warning is not None
        timings = metrics = None
        duration = _short(result.duration_ms)
        if noteworthy:
            timings, duration = timings_json(result.timings), round(result.duration_ms, 2)
        if result.metrics and (noteworthy or known.metrics_hour != at // HOUR_MS):
            metrics = metrics_json(result.metrics)
            known.metrics_hour = at // HOUR_MS
        self._results.append(
            (
                known.row_id, at, result.success, result.matched, duration,
                result.status_detail or None, failure_json(result.failure), failure_json(result.warning),
                timings, metrics, maintenance or None,
            )
        )  # fmt: skip
        time = covered(known.last_timestamp_ms, at, known.interval_ms, known.timeout_ms)
        self._rollups.add_result(known.row_id, result, maintenance=maintenance, time=time)
        known.last_timestamp_ms = at
        if not known.has_results:
            known.has_results = True
            self._first.append((at, known.row_id))

    def _add_steady(self, known: Known, result: CheckResult, next_due_ms: int | None) -> None:
        self._steady_ids.add(known.row_id)
        self._steady.append(
            (
                result.timestamp_ms, round(result.duration_ms, 2), result.status_detail or None,
                timings_json(result.timings), metrics_json(result.metrics), next_due_ms, known.row_id,
            )
        )  # fmt: skip

    def _add_latest(self, known: Known, result: CheckResult, state: tuple[Any, ...]) -> None:
        if known.row_id in self._steady_ids:  # its steady rows of this batch are older: they go first
            self._earlier += [(_LATEST, self._latest), (_STEADY, self._steady)]
            self._latest, self._steady = [], []
            self._steady_ids.clear()
        self._latest.append(
            (
                result.timestamp_ms, result.success, result.matched, round(result.duration_ms, 2),
                result.status_detail or None, failure_json(result.failure), failure_json(result.warning),
                timings_json(result.timings), certificate_json(result.certificate), not result.success,
                metrics_json(result.metrics), not result.success, result.matched, not result.matched, *state,
            )
        )  # fmt: skip

    def _add_incident(self, known: Known, state: TargetState, incident: Incident | None) -> None:
        if incident is not None:
            self._incidents[incident.id] = (known.row_id, incident)
        current = None if state.incident is None else state.incident.id
        before = known.incident_id
        if before is not None and before != current and before not in self._incidents:
            self._forgotten.append((state.last_result_ms or state.since_ms or 0, before))
        known.incident_id = current

    def write(self, connection: Connection) -> None:
        """Run the statements, in an order that foreign keys allow. The caller commits."""
        for statement, rows in (
            (_RESULT, self._results),
            (_FIRST, self._first),
            *self._earlier,
            (_LATEST, self._latest),
            (_STEADY, self._steady),
            (_STATE, list(self._states.values())),
            (_COUNTED, self._counted),
            (_INCIDENT, [_incident_row(*pair) for pair in self._incidents.values()]),
            (_FORGOTTEN, self._forgotten),
        ):
            if rows:
                connection.exec_driver_sql(statement, rows)
        self._rollups.write()
        if self._events:
            outbox.write_events(connection, self._events)


def _steady(state: TargetState, result: CheckResult, *, maintenance: bool) -> Steady | None:
    """What has to stay the same for a passing result to change nothing but the latest values."""
    if state.state != "up" or state.incident is not None or maintenance or state.settled != "up":
        return None
    return state.since_ms, result.certificate


def _short(duration_ms: float) -> float:
    """A passing result's duration as it is kept: from 10 ms on in whole ms, which take 1 or 2 bytes instead of 8."""
    return round(duration_ms) if duration_ms >= 10 else round(duration_ms, 2)


def _incident_row(row_id: int, incident: Incident) -> tuple[Any, ...]:
    return (
        incident.id,
        row_id,
        incident.started_ms,
        incident.resolved_ms,
        incident.failures,
        failure_json(incident.first_failure),
        failure_json(incident.last_failure),
        incident.notified,
        incident.resolution,
    )
