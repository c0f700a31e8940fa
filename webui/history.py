"""Ninety days and twenty-four hours of every target, kept in memory: what is over is read once, the rest each time.

The buckets of past days don't change, except that a store fault can make results arrive late. So the last two buckets
are read for every page, all others once per bucket length, as sums and exceptions: a good day is one bit. A database
with another `source` begins anew.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import NamedTuple

from sqlalchemy import Connection

from supervisor.store import read
from supervisor.store.read import DAY_MS, HOUR_MS, DayRow
from webui.bars import RANKS, SPARK_POINTS, severity

DAYS = 90
HOURS = 24
_OPEN = 2  # buckets that may still change
_PART_MS = HOURS // SPARK_POINTS * HOUR_MS
_GOOD, _EMPTY = RANKS["good"], RANKS["empty"]


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
class Past:
    """The days of one target that are over, as ranks of bars.RANKS; the last ones are still open and empty here."""

    counts: Counts = Counts(0, 0)  # noqa: RUF009 - immutable
    ranks: bytearray = field(default_factory=lambda: bytearray(DAYS))


@dataclass(frozen=True, slots=True)
class Days:
    """Ninety days of all targets."""

    past: dict[int, Past]
    present: dict[int, list[DayRow]]
    first: int

    def recent(self, target_id: int) -> tuple[tuple[int, int], ...]:
        """(day, rank) of what was read just now."""
        rows = self.present.get(target_id, ())
        return tuple(((row.bucket - self.first) // DAY_MS, RANKS[severity(row)]) for row in rows)

    def past_of(self, target_id: int) -> Past:
        """What is over; the same object until a day ends."""
        return self.past.get(target_id, _NO_PAST)

    def counts(self, target_id: int) -> Counts:
        """The sums of one target."""
        past, rows = self.past.get(target_id, _NO_PAST).counts, self.present.get(target_id, ())
        return Counts(past.matched + sum(r.matched for r in rows), past.failed + sum(r.failed for r in rows))


_NO_PAST = Past()


class DayHistory:
    """Keeps the days that are over."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, int] | None = None
        self._past: dict[int, Past] = {}

    def load(self, connection: Connection, source: str, now_ms: int) -> Days:
        """The window that ends today."""
        today = now_ms - now_ms % DAY_MS
        first, live = today - (DAYS - 1) * DAY_MS, today - (_OPEN - 1) * DAY_MS
        with self._lock:
            if self._key != (source, today):
                self._past = _past_days(connection, first, live)
                self._key = (source, today)
            past = self._past
        present: dict[int, list[DayRow]] = {}
        for row in read.buckets(connection, DAY_MS, live, today + DAY_MS):
            present.setdefault(row.target_id, []).append(row)
        return Days(past, present, first)


def _past_days(connection: Connection, first: int, live: int) -> dict[int, Past]:
    found: dict[int, Past] = {}
    for row in read.sums(connection, DAY_MS, first, live):
        known = row.low | row.high << read.MASK_BITS
        ranks = bytearray(_GOOD if known >> index & 1 else _EMPTY for index in range(DAYS))
        found[row.target_id] = Past(Counts(row.matched, row.failed), ranks)
    for day in read.buckets(connection, DAY_MS, first, live, remarkable=True):
        found[day.target_id].ranks[(day.bucket - first) // DAY_MS] = RANKS[severity(day)]
    return found


Means = list[float | None]
_NO_MEANS: tuple[float | None, ...] = (None,) * SPARK_POINTS


class HourHistory:
    """Keeps the mean durations of the last 24 hours, two hours each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._key: tuple[str, int] | None = None
        self._past: dict[int, Means] = {}

    def load(self, connection: Connection, source: str, now_ms: int) -> dict[int, Means]:
        """Target -> SPARK_POINTS means, None where nothing ran."""
        hour = now_ms - now_ms % HOUR_MS
        first, live = hour - (HOURS - 1) * HOUR_MS, hour - (_OPEN - 1) * HOUR_MS
        with self._lock:
            if self._key != (source, hour):
                self._past = {}
                for target, part, total, ran in read.duration_parts(connection, HOUR_MS, first, live, _PART_MS):
                    if ran:
                        self._past.setdefault(target, list(_NO_MEANS))[part] = total / ran
                self._key = (source, hour)
            past = self._past
        means = dict(past)
        for target, _, total, ran in read.duration_parts(connection, HOUR_MS, live, hour + HOUR_MS, _PART_MS):
            if ran:
                means[target] = [*past.get(target, _NO_MEANS)[:-1], total / ran]
        return means
