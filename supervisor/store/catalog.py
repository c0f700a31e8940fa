"""What the writer remembers of each target: its row, its latest result, what readers can see of it. And the snapshot of
the running set, written into `targets`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from supervisor.model import Certificate, CheckFailure, Item, ResolvedTarget
from supervisor.store.codec import dumps, failure_from

Visible = tuple[object, ...]
Steady = tuple[int | None, Certificate | None]


@dataclass(slots=True)
class Known:
    """One target, as the last commit left it (after a rollback all of them are read again).

    `steady`: it is simply up, and its row says so: a further passing result changes nothing but the latest values.
    """

    row_id: int
    interval_ms: int
    timeout_ms: int
    last_timestamp_ms: int | None = None
    has_results: bool = False
    visible: Visible | None = None
    metrics_hour: int | None = None
    incident_id: int | None = None
    steady: Steady | None = None


def visible_of(item: Item, before: Visible | None) -> Visible:
    """What a reader can see of a state. A failure counts by its place, not its text: texts with figures in them change
    with every result, and the page is made anew every 10 s anyway."""
    state, incident, result = item.state, item.state.incident, item.result
    failure, warning = (result.failure, result.warning) if result is not None else (None, None)
    seen: tuple[object, ...] = (_place(failure), _place(warning))
    if result is None and before is not None:
        seen = before[-2:]
    told = None if incident is None else (incident.id, incident.notified)
    return (state.state, state.since_ms, item.maintenance, told, *seen)


def _place(failure: CheckFailure | None) -> object:
    return None if failure is None else (failure.kind, failure.phase, failure.path)


def plain(text: str) -> str:
    """Text that SQLite takes: lone surrogates escaped, NUL shown. The last net: configuration is checked."""
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


# --- loading ---------------------------------------------------------------------------------------------------------

_KNOWN = """
SELECT t.key, t.id, t.interval_ms, t.timeout_ms, t.first_result_at, s.last_timestamp, s.state, s.since,
    s.in_maintenance, s.incident_id, i.notified, s.last_failure, s.last_warning
FROM targets AS t LEFT JOIN target_states AS s ON s.target_id = t.id LEFT JOIN incidents AS i ON i.id = s.incident_id
"""


def load(connection: Connection) -> dict[str, Known]:
    """Every target the database knows, removed ones too, by key."""
    found = {}
    for row in connection.exec_driver_sql(_KNOWN).fetchall():
        told = None if row.incident_id is None else (row.incident_id, bool(row.notified))
        places = (_place(failure_from(row.last_failure)), _place(failure_from(row.last_warning)))
        found[row.key] = Known(
            row.id,
            row.interval_ms,
            row.timeout_ms,
            row.last_timestamp,
            row.first_result_at is not None,
            (row.state, row.since, bool(row.in_maintenance), told, *places),
            None,
            row.incident_id,
        )
    return found


# --- the running set -------------------------------------------------------------------------------------------------

_COLUMNS = (
    "name", "type", "target", "config", "interval_ms", "timeout_ms", "expect", "group_name", "position", "enabled",
    "labels",
)  # fmt: skip
_SELECT = f"SELECT key, removed_at, {', '.join(_COLUMNS)} FROM targets"  # noqa: S608 - constants
_INSERT = (
    f"INSERT INTO targets (key, {', '.join(_COLUMNS)}) VALUES (?{', ?' * len(_COLUMNS)})"  # noqa: S608
    f" ON CONFLICT (key) DO UPDATE SET removed_at = NULL, {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS)}"
)
_ADD_STATES = """
INSERT INTO target_states (target_id, state, consecutive, version, in_maintenance, matched_total, failed_total,
    missed_total, lost_total, reminders_sent)
SELECT id, 'pending', 0, ?, 0, 0, 0, 0, 0, 0 FROM targets WHERE id NOT IN (SELECT target_id FROM target_states)
"""
_REMOVE = "UPDATE targets SET removed_at = ? WHERE key = ?"
_BUMP = "UPDATE target_states SET version = ? WHERE target_id = (SELECT id FROM targets WHERE key = ?)"


def write_targets(connection: Connection, targets: tuple[ResolvedTarget, ...], now_ms: int, version: int) -> bool:
    """Make `targets` equal to the running set; a target that is gone keeps its row with `removed_at`. Returns whether
    anything changed; what changed has `version`."""
    rows = {target.id: _row(target, position) for position, target in enumerate(targets)}
    before = {row[0]: (row[1], tuple(row[2:])) for row in connection.exec_driver_sql(_SELECT).fetchall()}
    changed = [(key, *row) for key, row in rows.items() if before.get(key) != (None, row)]
    gone = [key for key, (removed_at, _) in before.items() if removed_at is None and key not in rows]
    if changed:
        connection.exec_driver_sql(_INSERT, changed)
        connection.exec_driver_sql(_ADD_STATES, (version,))
    if gone:
        connection.exec_driver_sql(_REMOVE, [(now_ms, key) for key in gone])
    bumped = [(version, key) for key in (*(row[0] for row in changed), *gone)]
    if bumped:
        connection.exec_driver_sql(_BUMP, bumped)
    return bool(bumped)


def _row(target: ResolvedTarget, position: int) -> tuple[Any, ...]:
    config = plain(target.config_json)
    expect = json.loads(config).get("expect", {}) if config else {}
    return (
        plain(target.name),
        target.type,
        plain(target.summary),
        config,
        round(target.interval_s * 1000),
        round(target.timeout_s * 1000),
        plain(dumps(expect)),
        plain(target.group),
        position,
        int(target.enabled),
        plain(dumps(dict(target.labels))),
    )
