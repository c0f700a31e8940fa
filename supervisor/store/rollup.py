"""Hourly and daily sums of a target: counts, covered time, durations as a histogram, sums of timings.

A result adds one row of increments for its hour and one for its day; SQL adds them to what is there, in the transaction
of the result, so memory holds nothing that a kill could lose.

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

from supervisor.model import CheckResult, Timings
from supervisor.store.histogram import COUNT_BITS, bucket_of, merge

HOUR_MS = 3_600_000
DAY_MS = 86_400_000
STEPS = (HOUR_MS, DAY_MS)
_MASK = (1 << COUNT_BITS) - 1

Row = tuple[
    int, int, int, int, int, int, int, int, int, int, float, float | None, float | None, bytes, str | None
]  # fmt: skip

UPSERT = """
INSERT INTO rollups (target_id, step, bucket, matched, failed, degraded, missed, lost, maintenance, covered_ms,
    duration_sum, duration_min, duration_max, histogram, timings_sum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (target_id, step, bucket) DO UPDATE SET
    matched = matched + excluded.matched, failed = failed + excluded.failed, degraded = degraded + excluded.degraded,
    missed = missed + excluded.missed, lost = lost + excluded.lost, maintenance = maintenance + excluded.maintenance,
    covered_ms = covered_ms + excluded.covered_ms, duration_sum = duration_sum + excluded.duration_sum,
    duration_min = min(coalesce(duration_min, excluded.duration_min), coalesce(excluded.duration_min, duration_min)),
    duration_max = max(coalesce(duration_max, excluded.duration_max), coalesce(excluded.duration_max, duration_max)),
    histogram = add_histogram(histogram, excluded.histogram),
    timings_sum = add_timings(timings_sum, excluded.timings_sum)
"""


def register(raw: sqlite3.Connection) -> None:
    """Give a connection the two functions that `UPSERT` calls."""
    raw.create_function("add_histogram", 2, add_histogram, deterministic=True)
    raw.create_function("add_timings", 2, add_timings, deterministic=True)


def add_histogram(old: bytes, new: bytes) -> bytes:
    """The sum of two histograms; one new value is added in place."""
    if not new:
        return old
    if not old:
        return new
    if len(new) == 4:
        (added,) = struct.unpack("<I", new)
        bucket, number = added >> COUNT_BITS, added & _MASK
        for position, record in enumerate(struct.unpack(f"<{len(old) // 4}I", old)):
            if record >> COUNT_BITS == bucket and (record & _MASK) + number <= _MASK:
                start = position * 4
                return old[:start] + struct.pack("<I", record + number) + old[start + 4 :]
        return old + new
    return merge((old, new))


def add_timings(old: str | None, new: str | None) -> str | None:
    """The sum of two `timings_sum` values."""
    if old is None or new is None:
        return new if old is None else old
    sums = json.loads(old)
    for name, (total, count) in json.loads(new).items():
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + total, before[1] + count)
    return _timings_text(sums.items())


def _timings_text(sums: Iterable[tuple[str, tuple[float, int]]]) -> str:
    return "{" + ",".join([f'"{name}":[{total:.3f},{count}]' for name, (total, count) in sums]) + "}"


def timings_of(timings: Timings | None) -> str | None:
    """The `timings_sum` of one result."""
    if timings is None:
        return None
    pairs = (
        ("dns", timings.dns),
        ("connect", timings.connect),
        ("tls", timings.tls),
        ("firstByte", timings.first_byte),
        ("transfer", timings.transfer),
    )
    return "{" + ",".join([f'"{name}":[{value:.3f},1]' for name, value in pairs if value is not None]) + "}"


def rows_of(target_id: int, result: CheckResult, *, maintenance: bool, covered: tuple[int, int] | None) -> list[Row]:
    """The increments of one result. `covered` is the time that the result before it covers, as (start, end)."""
    at = result.timestamp_ms
    rows: list[Row] = []
    inside = 0  # covered time in the buckets of this result, when it lies in the same hour
    if covered is not None:
        if covered[0] - covered[0] % HOUR_MS == at - at % HOUR_MS:
            inside = covered[1] - covered[0]
        else:
            rows = [_covered_row(target_id, step, *part) for step in STEPS for part in slices(*covered, step)]
    matched = 1 if result.matched and not maintenance else 0
    failed = 0 if result.matched or maintenance else 1
    degraded = 1 if result.warning is not None and not maintenance else 0
    duration = result.duration_ms
    blob = (bucket_of(duration) << COUNT_BITS | 1).to_bytes(4, "little")
    timings = timings_of(result.timings)
    for step, sums in ((HOUR_MS, timings), (DAY_MS, None)):
        rows.append(
            (target_id, step, at - at % step, matched, failed, degraded, 0, 0, int(maintenance), inside,
             duration, duration, duration, blob, sums)
        )  # fmt: skip
    return rows


def counted(target_id: int, at_ms: int, *, missed: int = 0, lost: int = 0) -> list[Row]:
    """The increments of slots without a run, or of results that could not be kept."""
    return [
        (target_id, step, at_ms - at_ms % step, 0, 0, 0, missed, lost, 0, 0, 0.0, None, None, b"", None)
        for step in STEPS
    ]


def _covered_row(target_id: int, step: int, bucket: int, length_ms: int) -> Row:
    return (target_id, step, bucket, 0, 0, 0, 0, 0, 0, length_ms, 0.0, None, None, b"", None)


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
