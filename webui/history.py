"""Ninety days and twenty-four hours of every target, kept in memory: what is over is read once, the rest each time.

The buckets of past days don't change, except that a store fault can make results arrive late. So the last two buckets
are read for every page, all others once per bucket length, as sums and exceptions: a good day is one bit. They may be
read a little ahead of the bucket's end (warm.py), so that no page waits for them: 1.5 s at 5,000 targets. A database
with another `source` begins anew.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy import Connection

from supervisor.store import read
from supervisor.store.read import DAY_MS, HOUR_MS, DayRow
from webui.bars import RANKS, SPARK_POINTS, severity

DAYS = 90
HOURS = 24
_OPEN = 2  # buckets that may still change
_AHEAD_MS = 10 * 60_000  # before a bucket ends, the next window is read; what it closes is then a bucket old
_PART_MS = HOURS // SPARK_POINTS * HOUR_MS
_RANKS = bytes.maketrans(b"01", bytes((RANKS["empty"], RANKS["good"])))

T = TypeVar("T")


class _Past(Generic[T]):
    """What is over of a window of `length` buckets, by the bucket that the window ends in."""

    def __init__(self, step_ms: int, length: int, load: Callable[[Connection, int, int], T]) -> None:
        self._step_ms, self._length, self._load = step_ms, length, load
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, int], T] = {}

    def get(self, connection: Connection, source: str, now_ms: int) -> tuple[int, int, T]:
        """(first bucket, first bucket still open, what lies between) of the window that ends now."""
        last = now_ms - now_ms % self._step_ms
        first, live = self._bounds(last)
        with self._lock:
            kept = self._kept.get((source, last))
            if kept is None:
                kept = self._load(connection, first, live)
                self._kept = {(source, last): kept}
        return first, live, kept

    def read_ahead(self, connection: Connection, source: str, now_ms: int) -> None:
        """Read this window, and near its end the next, if they are not there. Pages go on meanwhile."""
        present = now_ms - now_ms % self._step_ms
        ahead = now_ms + _AHEAD_MS
        for last in (present, ahead - ahead % self._step_ms):
            if (source, last) in self._kept:
                continue
            found = self._load(connection, *self._bounds(last))
            with self._lock:
                kept = {key: value for key, value in self._kept.items() if key == (source, present)}
                self._kept = kept | {(source, last): found}

    def _bounds(self, last: int) -> tuple[int, int]:
        return last - (self._length - 1) * self._step_ms, last - (_OPEN - 1) * self._step_ms


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

    counts: Counts
    ranks: bytearray


@dataclass(frozen=True, slots=True)
class Days:
    """Ninety days of all targets."""

    past: dict[int, Past]
    present: dict[int, list[DayRow]]
    first: int

    def past_of(self, target_id: int) -> Past:
        """What is over; the same object until a day ends."""
        return self.past.get(target_id, _NO_PAST)

    def present_of(self, target_id: int) -> Sequence[DayRow]:
        """What was read just now."""
        return self.present.get(target_id, ())

    def counts(self, past: Past, present: Sequence[DayRow]) -> Counts:
        """The sums of one target."""
        matched, failed = past.counts
        return Counts(matched + sum(r.matched for r in present), failed + sum(r.failed for r in present))

    def ranks(self, past: Past, present: Sequence[DayRow]) -> bytes:
        """The rank of each day of one target, oldest first."""
        ranks = bytearray(past.ranks)
        for row in present:
            ranks[(row.bucket - self.first) // DAY_MS] = RANKS[severity(row)]
        return bytes(ranks)


_NO_PAST = Past(Counts(0, 0), bytearray(DAYS))


class DayHistory:
    """Keeps the days that are over."""

    def __init__(self) -> None:
        self._past = _Past(DAY_MS, DAYS, _past_days)
        self.read_ahead = self._past.read_ahead

    def load(self, connection: Connection, source: str, now_ms: int) -> Days:
        """The window that ends today."""
        first, live, past = self._past.get(connection, source, now_ms)
        present: dict[int, list[DayRow]] = {}
        for row in read.buckets(connection, DAY_MS, live, live + _OPEN * DAY_MS):
            present.setdefault(row.target_id, []).append(row)
        return Days(past, present, first)


def _past_days(connection: Connection, first: int, live: int) -> dict[int, Past]:
    found: dict[int, Past] = {}
    for row in read.sums(connection, DAY_MS, first, live):
        known = row.low | row.high << read.MASK_BITS
        # the bits as text are ten times as fast as ninety shifts
        ranks = bytearray(f"{known:0{DAYS}b}".encode()[::-1].translate(_RANKS))
        found[row.target_id] = Past(Counts(row.matched, row.failed), ranks)
    for day in read.buckets(connection, DAY_MS, first, live, remarkable=True):
        found[day.target_id].ranks[(day.bucket - first) // DAY_MS] = RANKS[severity(day)]
    return found


Means = list[float | None]
_NO_MEANS: tuple[float | None, ...] = (None,) * SPARK_POINTS


class HourHistory:
    """Keeps the mean durations of the last 24 hours, two hours each."""

    def __init__(self) -> None:
        self._past = _Past(HOUR_MS, HOURS, _past_means)
        self.read_ahead = self._past.read_ahead

    def load(self, connection: Connection, source: str, now_ms: int) -> dict[int, Means]:
        """Target -> SPARK_POINTS means, None where nothing ran."""
        _, live, past = self._past.get(connection, source, now_ms)
        means = dict(past)
        for target, _, total, ran in read.duration_parts(connection, HOUR_MS, live, live + _OPEN * HOUR_MS, _PART_MS):
            if ran:
                means[target] = [*past.get(target, _NO_MEANS)[:-1], total / ran]
        return means


def _past_means(connection: Connection, first: int, live: int) -> dict[int, Means]:
    found: dict[int, Means] = {}
    for target, part, total, ran in read.duration_parts(connection, HOUR_MS, first, live, _PART_MS):
        if ran:
            found.setdefault(target, list(_NO_MEANS))[part] = total / ran
    return found
