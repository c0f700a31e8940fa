"""Mergeable histograms of durations: sparse logarithmic buckets, packed into a blob of 4 bytes a bucket.

A value v > 1 µs falls into bucket ceil(ln(v / 0.001 ms) / ln(GAMMA)); the middle of a bucket is at most 3 % from any
value in it, so quantiles are within 3 % of the exact ones (linear between ranks, as `numpy.quantile` does). Values of
1 µs and less share bucket 0, shown as 0. A record is `bucket << 23 | count`, little-endian; order does not matter, a
bucket may occur more than once (counts beyond 23 bits), and blobs of different times are merged by adding counts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

ACCURACY = 0.03
_GAMMA = (1 + ACCURACY) / (1 - ACCURACY)
_LOG_GAMMA = math.log(_GAMMA)
_SMALLEST_MS = 0.001
COUNT_BITS = 23
_COUNT_MASK = (1 << COUNT_BITS) - 1
_LAST_BUCKET = 511
EMPTY = b""


def bucket_of(value_ms: float) -> int:
    """The bucket of one duration; what is too long for the last bucket (240 days) is in the last bucket."""
    if value_ms <= _SMALLEST_MS:
        return 0
    return min(_LAST_BUCKET, math.ceil(math.log(value_ms / _SMALLEST_MS) / _LOG_GAMMA))


def value_of(bucket: int) -> float:
    """The duration in ms that stands for all of a bucket."""
    return 0.0 if bucket == 0 else float(2 * _GAMMA**bucket / (_GAMMA + 1) * _SMALLEST_MS)


def decode(blob: bytes) -> dict[int, int]:
    """Bucket -> count. A blob that is no multiple of 4 bytes raises ValueError."""
    if len(blob) % 4:
        raise ValueError("a histogram is a multiple of 4 bytes long")
    counts: dict[int, int] = {}
    for (record,) in struct.iter_unpack("<I", blob):
        bucket = record >> COUNT_BITS
        counts[bucket] = counts.get(bucket, 0) + (record & _COUNT_MASK)
    return counts


def encode(counts: dict[int, int]) -> bytes:
    """The blob of bucket -> count."""
    records = []
    for bucket, count in counts.items():
        while count > _COUNT_MASK:
            records.append(bucket << COUNT_BITS | _COUNT_MASK)
            count -= _COUNT_MASK
        records.append(bucket << COUNT_BITS | count)
    return struct.pack(f"<{len(records)}I", *records)


def add(values_ms: Iterable[float]) -> bytes:
    """The histogram of these durations."""
    counts: dict[int, int] = {}
    for value in values_ms:
        bucket = bucket_of(value)
        counts[bucket] = counts.get(bucket, 0) + 1
    return encode(counts)


def merge(blobs: Iterable[bytes]) -> bytes:
    """One histogram of all durations in several."""
    counts: dict[int, int] = {}
    for blob in blobs:
        for bucket, count in decode(blob).items():
            counts[bucket] = counts.get(bucket, 0) + count
    return encode(counts)


def total(blob: bytes) -> int:
    """How many durations are in it."""
    return sum(decode(blob).values())


def quantile(blob: bytes, q: float) -> float | None:
    """The q-quantile (0 <= q <= 1) in ms, None of an empty histogram."""
    return quantiles(blob, (q,))[0]


def quantiles(blob: bytes, qs: Iterable[float]) -> list[float | None]:
    """Several quantiles of one histogram, decoded once."""
    counts = sorted(decode(blob).items())
    number = sum(count for _, count in counts)
    if number == 0:
        return [None for _ in qs]
    found: list[float | None] = []
    for q in qs:
        if not 0 <= q <= 1:
            raise ValueError("a quantile is between 0 and 1")
        rank = q * (number - 1)
        low, part = math.floor(rank), rank - math.floor(rank)
        below = _at(counts, low)
        found.append(below if part == 0 else below + (_at(counts, low + 1) - below) * part)
    return found


def _at(counts: list[tuple[int, int]], rank: int) -> float:
    """The value at a rank, counted from 0, of sorted buckets."""
    for bucket, count in counts:
        if rank < count:
            return value_of(bucket)
        rank -= count
    return value_of(counts[-1][0])
