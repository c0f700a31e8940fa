"""Ninety days and twenty-four hours of every target, kept in memory: what is over is read once, the rest each time.

The buckets of past days don't change, except that a store fault can make results arrive late. So the last two buckets
are read for every page, all others once per bucket length; a database with another `source` begins anew.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection

from supervisor.store import read
from supervisor.store.read import DAY_MS, HOUR_MS, DayRow

DAYS = 90
HOURS = 24
_OPEN = 2  # buckets that may still change


class Counts(NamedTuple):
    """Sums over a window, results in maintenance left out of both."""

    matched: int
    failed: int

    @property
    def uptime(self) -> float | None:
        """matched / (matched + failed), None without results; always within 0 and 1 (W11)."""
        total = self.matched + self.failed
        return min(1.0, max(0.0, self.matched / total)) if total > 0 else None


@dataclass(slots=True)
class Series:
    """The buckets of one target: index (0 is the oldest of the window) -> counts."""

    rows: dict[int, DayRow] = field(default_factory=dict)
    matched: int = 0
    failed: int = 0

    def add(self, index: int, row: DayRow) -> None:
        """Take one bucket in."""
        self.rows[index] = row
        self.matched += row.matched
        self.failed += row.failed


_NOTHING = Series()


@dataclass(frozen=True, slots=True)
class Window:
    """One window of all targets: what is over, and what was read just now on top."""

    first: int  # start of the oldest bucket
    step_ms: int
    length: int
    past: dict[int, Series]
    present: dict[int, Series]

    def rows(self, target_id: int) -> dict[int, DayRow]:
        """All buckets of one target by index."""
        past, present = self.past.get(target_id, _NOTHING), self.present.get(target_id, _NOTHING)
        return past.rows | present.rows if present.rows else past.rows

    def counts(self, target_id: int) -> Counts:
        """The sums of one target."""
        past, present = self.past.get(target_id, _NOTHING), self.present.get(target_id, _NOTHING)
        return Counts(past.matched + present.matched, past.failed + present.failed)

    def past_of(self, target_id: int) -> Series:
        """What is over; the same object until a bucket ends."""
        return self.past.get(target_id, _NOTHING)


class History:
    """Keeps the past buckets of one step; one for days, one for hours."""

    def __init__(self, step_ms: int, length: int) -> None:
        self._step_ms = step_ms
        self._length = length
        self._lock = threading.Lock()
        self._key: tuple[str, int] | None = None
        self._past: dict[int, Series] = {}

    def window(self, connection: Connection, source: str, now_ms: int) -> Window:
        """The window that ends with the bucket of now."""
        current = now_ms - now_ms % self._step_ms
        first = current - (self._length - 1) * self._step_ms
        live = current - (_OPEN - 1) * self._step_ms
        key = (source, current)
        with self._lock:
            if self._key != key:
                self._past = self._collect(read.buckets(connection, self._step_ms, first, live), first)
                self._key = key
            past = self._past
        present = self._collect(read.buckets(connection, self._step_ms, live, current + self._step_ms), first)
        return Window(first, self._step_ms, self._length, past, present)

    def _collect(self, rows: list[DayRow], first: int) -> dict[int, Series]:
        found: dict[int, Series] = {}
        step = self._step_ms
        for row in rows:
            series = found.get(row.target_id)
            if series is None:
                series = found[row.target_id] = Series()
            series.add((row.bucket - first) // step, row)
        return found


def days() -> History:
    """Ninety days, today included."""
    return History(DAY_MS, DAYS)


def hours() -> History:
    """Twenty-four hours, this one included."""
    return History(HOUR_MS, HOURS)
