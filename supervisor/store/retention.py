"""Deletes what is older than it may be, in chunks so small that no write waits for them, and gives pages back.

A step is one short transaction between two batches. Its size follows the time it takes (at most 1,000 rows).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import Connection

from supervisor.model import Retention
from supervisor.store import outbox
from supervisor.store.rollup import DAY_MS, HOUR_MS

PASS_INTERVAL_S = 60.0
_LARGEST, _SMALLEST = 1000, 50
_SLOW_S, _FAST_S = 0.04, 0.02
_FREE_PAGES_KEPT = 250
_VACUUM_PAGES = 200

_CHUNK = "SELECT id, timestamp FROM check_results WHERE id > ? ORDER BY id LIMIT ?"
_ANY_OLD = """
SELECT EXISTS (SELECT 1 FROM targets AS t
    WHERE EXISTS (SELECT 1 FROM check_results AS r WHERE r.target_id = t.id AND r.timestamp < ?))
"""
_DELETE_RESULTS = "DELETE FROM check_results WHERE id > ? AND id <= ? AND timestamp < ?"
_DELETE_ROLLUPS = """
DELETE FROM rollups WHERE (target_id, step, bucket) IN
    (SELECT target_id, step, bucket FROM rollups WHERE step = ? AND bucket < ? ORDER BY bucket LIMIT ?)
"""
_DELETE_INCIDENTS = """
DELETE FROM incidents WHERE id IN (SELECT id FROM incidents WHERE started_at < ? AND resolved_at < ?
    AND id NOT IN (SELECT incident_id FROM target_states WHERE incident_id IS NOT NULL) LIMIT ?)
"""
_GONE = """
SELECT id FROM targets AS t WHERE removed_at < ?
    AND NOT EXISTS (SELECT 1 FROM check_results WHERE target_id = t.id)
    AND NOT EXISTS (SELECT 1 FROM rollups WHERE target_id = t.id)
    AND NOT EXISTS (SELECT 1 FROM incidents WHERE target_id = t.id)
LIMIT ?
"""

Step = Callable[[Connection, int], int]


class Cleaner:
    """Runs passes over the database; `step` does one chunk and says whether more is to be done now."""

    def __init__(self, retention: Retention) -> None:
        self.retention = retention
        self._limit = _LARGEST
        self._steps: Iterator[Step] | None = None
        self._step: Step | None = None
        self._next_pass = 0.0
        self._after_id = 0
        self.forgotten = False  # a target was dropped: whoever remembers targets reads them again

    def due(self, now: float) -> bool:
        """Whether there is something to do at monotonic time `now`."""
        return self._steps is not None or now >= self._next_pass

    def step(self, connection: Connection, now_ms: int) -> None:
        """Delete one chunk. The connection has no transaction open."""
        if self._steps is None:
            self._steps = iter(self._pass(now_ms))
            self._step = next(self._steps)
            self._after_id = 0
        assert self._step is not None
        started = time.monotonic()
        with connection.begin():
            deleted = self._step(connection, self._limit)
        self._adapt(time.monotonic() - started)
        if deleted:
            return
        self._step = next(self._steps, None)
        if self._step is None:
            self._steps = None
            self._next_pass = time.monotonic() + PASS_INTERVAL_S

    def _adapt(self, took_s: float) -> None:
        if took_s > _SLOW_S:
            self._limit = max(_SMALLEST, self._limit // 2)
        elif took_s < _FAST_S:
            self._limit = min(_LARGEST, self._limit * 2)

    def _pass(self, now_ms: int) -> list[Step]:
        keep = self.retention
        results, events = now_ms - round(keep.results_s * 1000), now_ms - round(keep.events_s * 1000)
        hourly, daily = now_ms - round(keep.hourly_s * 1000), now_ms - round(keep.daily_s * 1000)
        longest = min(results, hourly, daily)
        return [
            lambda connection, limit: self._results(connection, results, limit),
            lambda connection, limit: _count(connection, _DELETE_ROLLUPS, (HOUR_MS, hourly - HOUR_MS, limit)),
            lambda connection, limit: _count(connection, _DELETE_ROLLUPS, (DAY_MS, daily - DAY_MS, limit)),
            lambda connection, limit: _count(connection, _DELETE_INCIDENTS, (longest, longest, limit)),
            lambda connection, limit: outbox.delete_old(connection, events, limit),
            lambda connection, limit: self._targets(connection, now_ms, limit),
            lambda connection, limit: _vacuum(connection),
        ]

    def _results(self, connection: Connection, before_ms: int, limit: int) -> int:
        """A chunk by row number: old rows lie side by side. The clock may have jumped, so a chunk without old rows only
        ends the pass if the index knows of no older ones either. Returns 0 at the end."""
        rows = connection.exec_driver_sql(_CHUNK, (self._after_id, limit)).fetchall()
        if not rows:
            return 0
        if not any(row[1] < before_ms for row in rows):
            if not connection.exec_driver_sql(_ANY_OLD, (before_ms,)).scalar_one():
                return 0
            self._after_id = rows[-1][0]
            return 1
        last = rows[-1][0]
        connection.exec_driver_sql(_DELETE_RESULTS, (self._after_id, last, before_ms))
        self._after_id = last
        return len(rows)

    def _targets(self, connection: Connection, now_ms: int, limit: int) -> int:
        """Removed targets without any history left. The numbers of their events stay (webhook_streams)."""
        rows = [tuple(row) for row in connection.exec_driver_sql(_GONE, (now_ms - DAY_MS, limit)).fetchall()]
        if rows:
            connection.exec_driver_sql("DELETE FROM target_states WHERE target_id = ?", rows)
            connection.exec_driver_sql("DELETE FROM targets WHERE id = ?", rows)
            self.forgotten = True
        return len(rows)


def _count(connection: Connection, statement: str, values: tuple[int, ...]) -> int:
    return connection.exec_driver_sql(statement, values).rowcount


def _vacuum(connection: Connection) -> int:
    """Give free pages back to the file system, all but a reserve for what is written next."""
    free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
    if free <= _FREE_PAGES_KEPT:
        return 0
    pages = min(_VACUUM_PAGES, free - _FREE_PAGES_KEPT)
    raw: Any = connection.connection.driver_connection  # SQLAlchemy takes the pragma for a statement without steps
    raw.execute(f"PRAGMA incremental_vacuum({pages})").fetchall()
    return int(pages)
