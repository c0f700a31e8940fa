"""One transaction of the writer: gathered from items in their order, written with a few prepared statements.

Everything that belongs to a result (row, state, incident, counters, rollups, events) is in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Connection

from supervisor.model import CheckResult, Event, Incident, Item, TargetState
from supervisor.store import outbox, rollup
from supervisor.store.catalog import Known, visible_of
from supervisor.store.codec import certificate_json, failure_json, metrics_json, timings_json
from supervisor.store.memory import Residue

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
Rows = list[tuple[Any, ...]]


class Batch:
    """Gathers with `add_*`, then `write` runs the statements. `known` holds the targets as they will be then."""

    def __init__(self, known: dict[str, Known], next_version: Callable[[], int]) -> None:
        self._before = known
        self._next_version = next_version
        self.known: dict[str, Known] = {}
        self._results: Rows = []
        self._latest: Rows = []
        self._states: dict[int, tuple[Any, ...]] = {}  # states without a result, after all others
        self._counted: Rows = []
        self._first: Rows = []
        self._rollups: Rows = []
        self._forgotten: Rows = []
        self._incidents: dict[int, tuple[int, Incident]] = {}
        self._events: list[Event] = []

    def _target(self, key: str) -> Known | None:
        found = self.known.get(key)
        if found is None:
            before = self._before.get(key)
            if before is None:
                return None
            found = self.known[key] = before.copy()
        return found

    def add_item(self, item: Item) -> bool:
        """One item. False when its target has no row (then only its events are written)."""
        self._events.extend(item.events)
        known = self._target(item.target_id)
        if known is None:
            return item.result is None
        visible = visible_of(item, known.visible)
        version = None
        if visible != known.visible:
            known.visible = visible
            version = self._next_version()
        state = self._state(known, item.state, version, item.next_due_ms, item.maintenance)
        if item.result is None:
            self._states[known.row_id] = state
        else:
            self._states.pop(known.row_id, None)  # an older one
            self._add_result(known, item.result, state, maintenance=item.maintenance)
        self._add_incident(known, item.state, item.incident)
        return True

    def add_residue(self, residue: Residue) -> None:
        """What is left of results that overflowed: state, incidents, how many were lost in which hour."""
        known = self._target(residue.target_id)
        if known is None:
            return
        state = residue.state
        visible = visible_of(Item(None, state, residue.target_id, maintenance=residue.maintenance), known.visible)
        version = self._next_version() if visible != known.visible else None
        known.visible = visible
        self._states[known.row_id] = self._state(known, state, version, None, residue.maintenance)
        for incident in residue.incidents.values():
            self._incidents[incident.id] = (known.row_id, incident)
        known.incident_id = None if state.incident is None else state.incident.id
        for hour, count in residue.lost.items():
            self._rollups.extend(rollup.counted(known.row_id, hour, lost=count))
        self._counted.append((0, residue.lost.total(), known.row_id))

    def add_missed(self, key: str, slot_ms: int, count: int) -> None:
        """Slots at which no run started."""
        known = self._target(key)
        if known is not None:
            self._rollups.extend(rollup.counted(known.row_id, slot_ms, missed=count))
            self._counted.append((count, 0, known.row_id))

    def _state(
        self, known: Known, state: TargetState, version: int | None, next_due_ms: int | None, maintenance: bool
    ) -> tuple[Any, ...]:
        return (
            state.state, state.since_ms, state.consecutive, version, state.settled, state.run_started_ms,
            failure_json(state.run_first_failure), next_due_ms, maintenance,
            None if state.incident is None else state.incident.id, state.reminders_sent, state.last_reminder_ms,
            known.row_id,
        )  # fmt: skip

    def _add_result(self, known: Known, result: CheckResult, state: tuple[Any, ...], *, maintenance: bool) -> None:
        at = result.timestamp_ms
        failure, warning = failure_json(result.failure), failure_json(result.warning)
        timings, metrics = timings_json(result.timings), metrics_json(result.metrics)
        noteworthy = failure is not None or warning is not None
        keep_metrics = metrics is not None and (noteworthy or known.metrics_hour != at // rollup.HOUR_MS)
        if keep_metrics:
            known.metrics_hour = at // rollup.HOUR_MS
        duration = round(result.duration_ms, 2)
        detail = result.status_detail or None
        self._results.append(
            (
                known.row_id, at, result.success, result.matched, duration, detail, failure, warning,
                timings if noteworthy else None, metrics if keep_metrics else None, maintenance or None,
            )
        )  # fmt: skip
        self._latest.append(
            (
                at, result.success, result.matched, duration, detail, failure, warning, timings,
                certificate_json(result.certificate), not result.success, metrics, not result.success,
                result.matched, not result.matched, *state,
            )
        )  # fmt: skip
        covered = rollup.covered(known.last_timestamp_ms, at, known.interval_ms, known.timeout_ms)
        self._rollups.extend(rollup.rows_of(known.row_id, result, maintenance=maintenance, covered=covered))
        known.last_timestamp_ms = at
        if not known.has_results:
            known.has_results = True
            self._first.append((at, known.row_id))

    def _add_incident(self, known: Known, state: TargetState, incident: Incident | None) -> None:
        if incident is not None:
            self._incidents[incident.id] = (known.row_id, incident)
        current = None if state.incident is None else state.incident.id
        before = known.incident_id
        if before is not None and before != current and (before not in self._incidents):
            self._forgotten.append((state.last_result_ms or state.since_ms or 0, before))
        known.incident_id = current

    def write(self, connection: Connection) -> None:
        """Run the statements, in an order that foreign keys allow. The caller commits."""
        for statement, rows in (
            (_RESULT, self._results),
            (_FIRST, self._first),
            (_LATEST, self._latest),
            (_STATE, list(self._states.values())),
            (_COUNTED, self._counted),
            (_INCIDENT, [_incident_row(*pair) for pair in self._incidents.values()]),
            (_FORGOTTEN, self._forgotten),
            (rollup.UPSERT, self._rollups),
        ):
            if rows:
                connection.exec_driver_sql(statement, rows)
        if self._events:
            outbox.write_events(connection, self._events)


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
