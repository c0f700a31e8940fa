"""Hourly and daily sums of a target: counts, covered time, durations as a histogram, sums of timings.

`Rollups` holds the sums of each target's present hour and day and writes them in the transaction of the results that
changed them: what is on disk is whole after any kill, and memory is only a copy of it (thrown away after a rollback).

- `matched`, `failed`, `degraded` count results outside maintenance, `maintenance` those inside.
- `duration_*` and `histogram` are over every result, so their number is matched + failed + maintenance.
- `covered_ms`: a result covers the time to the next one, at most 2 intervals + timeout; it is added when the next one
  comes, so a reader adds the part since the latest result.
- `timings_sum` (hourly only): `{"dns": [sum_ms, count], ...}` with the names of `codec.timings_json`.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from supervisor.model import CheckResult, Timings
from supervisor.store.histogram import COUNT_BITS, bucket_of, decode

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
STEPS = (HOUR_MS, DAY_MS)

_SELECT = """
SELECT matched, failed, degraded, missed, lost, maintenance, covered_ms, duration_sum, duration_min, duration_max,
    histogram, timings_sum
FROM rollups WHERE target_id = ? AND step = ? AND bucket = ?
"""
_INSERT = """
INSERT INTO rollups (matched, failed, degraded, missed, lost, maintenance, covered_ms, duration_sum, duration_min,
    duration_max, histogram, timings_sum, target_id, step, bucket)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_UPDATE = """
UPDATE rollups SET matched = ?, failed = ?, degraded = ?, missed = ?, lost = ?, maintenance = ?, covered_ms = ?,
    duration_sum = ?, duration_min = ?, duration_max = ?, histogram = ?, timings_sum = ?
WHERE target_id = ? AND step = ? AND bucket = ?
"""


class Sums:
    """One row of `rollups`. `counts` is bucket of the histogram -> its packed record (bucket and count in one)."""

    __slots__ = (
        "bucket", "counts", "covered_ms", "degraded", "duration_max", "duration_min", "duration_sum", "failed", "lost",
        "maintenance", "matched", "missed", "stored", "template", "timings",
    )  # fmt: skip

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self.stored = False
        self.matched = self.failed = self.degraded = self.missed = self.lost = self.maintenance = 0
        self.covered_ms = 0
        self.duration_sum = 0.0
        self.duration_min: float | None = None
        self.duration_max: float | None = None
        self.counts: dict[int, int] = {}
        self.timings: dict[str, tuple[float, int]] = {}
        self.template = ""

    def add_duration(self, duration_ms: float, bucket: int) -> None:
        """One more result took so long; `bucket` is its place in the histogram."""
        self.duration_sum += duration_ms
        if self.duration_min is None or duration_ms < self.duration_min:
            self.duration_min = duration_ms
        if self.duration_max is None or duration_ms > self.duration_max:
            self.duration_max = duration_ms
        self.counts[bucket] = self.counts.get(bucket, bucket << COUNT_BITS) + 1

    def add_timings(self, timings: Timings) -> None:
        """Add the steps that happened."""
        for name, value in (
            ("dns", timings.dns),
            ("connect", timings.connect),
            ("tls", timings.tls),
            ("firstByte", timings.first_byte),
            ("transfer", timings.transfer),
        ):
            if value is not None:
                before = self.timings.get(name)
                if before is None:
                    self.timings[name] = (value, 1)
                    self.template = _template(self.timings)
                else:
                    self.timings[name] = (before[0] + value, before[1] + 1)

    def row(self, target_id: int, step: int) -> tuple[Any, ...]:
        """The values of `_INSERT` and `_UPDATE`."""
        timings = None
        if self.timings:
            timings = self.template % tuple(chain.from_iterable(self.timings.values()))
        return (
            self.matched, self.failed, self.degraded, self.missed, self.lost, self.maintenance, self.covered_ms,
            self.duration_sum, self.duration_min, self.duration_max,
            struct.pack(f"<{len(self.counts)}I", *self.counts.values()), timings,
            target_id, step, self.bucket,
        )  # fmt: skip


def _stored(bucket: int, row: tuple[Any, ...]) -> Sums:
    sums = Sums(bucket)
    sums.stored = True
    sums.matched, sums.failed, sums.degraded, sums.missed, sums.lost, sums.maintenance = row[:6]
    sums.covered_ms, sums.duration_sum, sums.duration_min, sums.duration_max = row[6:10]
    sums.counts = {number: number << COUNT_BITS | count for number, count in decode(row[10]).items()}
    sums.timings = {} if row[11] is None else {name: (pair[0], pair[1]) for name, pair in json.loads(row[11]).items()}
    sums.template = _template(sums.timings)
    return sums


def _template(names: Iterable[str]) -> str:
    return "{" + ",".join(f'"{name}":[%.3f,%d]' for name in names) + "}"


class Rollups:
    """The present sums of every target. Use it inside a transaction; `write` at its end, `clear` after a rollback."""

    def __init__(self) -> None:
        self._present: dict[tuple[int, int], Sums] = {}
        self._changed: dict[tuple[int, int], Sums] = {}
        self._left: list[tuple[int, int, Sums]] = []  # changed in this transaction, then left for another bucket
        self._raw: sqlite3.Connection | None = None

    def begin(self, raw: sqlite3.Connection) -> None:
        """A transaction has begun on this connection."""
        self._raw = raw

    def clear(self) -> None:
        """Forget everything: disk is right."""
        self._present.clear()
        self._changed.clear()
        self._left.clear()

    def _sums(self, target_id: int, step: int, at_ms: int) -> Sums:
        """The sums that a time falls into, ready to be changed."""
        bucket = at_ms - at_ms % step
        key = (target_id, step)
        sums = self._present.get(key)
        if sums is None or sums.bucket != bucket:
            if sums is not None and key in self._changed:
                self._flush(target_id, step, self._changed.pop(key))
            assert self._raw is not None
            row = self._raw.execute(_SELECT, (target_id, step, bucket)).fetchone()
            sums = self._present[key] = Sums(bucket) if row is None else _stored(bucket, row)
        self._changed[key] = sums
        return sums

    def _flush(self, target_id: int, step: int, sums: Sums) -> None:
        assert self._raw is not None
        self._raw.execute(_UPDATE if sums.stored else _INSERT, sums.row(target_id, step))
        sums.stored = True

    def add_result(
        self, target_id: int, result: CheckResult, *, maintenance: bool, time: tuple[int, int] | None
    ) -> None:
        """Count one result, and the `time` (start, end) that the one before it covers."""
        inside, bucket = 0, bucket_of(result.duration_ms)
        if time is not None:
            if time[0] // HOUR_MS == result.timestamp_ms // HOUR_MS:
                inside = time[1] - time[0]
            else:
                self._add_covered(target_id, *time)
        for step in STEPS:
            sums = self._sums(target_id, step, result.timestamp_ms)
            sums.covered_ms += inside
            if maintenance:
                sums.maintenance += 1
            elif result.matched:
                sums.matched += 1
                if result.warning is not None:
                    sums.degraded += 1
            else:
                sums.failed += 1
            sums.add_duration(result.duration_ms, bucket)
            if step == HOUR_MS and result.timings is not None:
                sums.add_timings(result.timings)

    def _add_covered(self, target_id: int, start_ms: int, end_ms: int) -> None:
        for step in STEPS:
            for bucket, length in slices(start_ms, end_ms, step):
                self._sums(target_id, step, bucket).covered_ms += length

    def add_counts(self, target_id: int, at_ms: int, *, missed: int = 0, lost: int = 0) -> None:
        """Count slots without a run, or results that could not be kept."""
        for step in STEPS:
            sums = self._sums(target_id, step, at_ms)
            sums.missed += missed
            sums.lost += lost

    def write(self) -> None:
        """Write every row that changed in this transaction."""
        assert self._raw is not None
        new: list[tuple[Any, ...]] = []
        old: list[tuple[Any, ...]] = []
        for (target_id, step), sums in self._changed.items():
            (old if sums.stored else new).append(sums.row(target_id, step))
            sums.stored = True
        self._changed.clear()
        if new:
            self._raw.executemany(_INSERT, new)
        if old:
            self._raw.executemany(_UPDATE, old)


def covered(previous_ms: int | None, now_ms: int, interval_ms: int, timeout_ms: int) -> tuple[int, int] | None:
    """The time that the result at `previous_ms` covers until the one at `now_ms`; None if there is none.

    After a step back of the clock the time from the new result on is counted when it passes (again).
    """
    if previous_ms is None or now_ms <= previous_ms:
        return None
    return previous_ms, min(now_ms, previous_ms + 2 * interval_ms + timeout_ms)


def slices(start_ms: int, end_ms: int, step: int) -> Iterator[tuple[int, int]]:
    """(bucket, length) of each bucket that a time touches."""
    while start_ms < end_ms:
        bucket = start_ms - start_ms % step
        stop = min(end_ms, bucket + step)
        yield bucket, stop - start_ms
        start_ms = stop
