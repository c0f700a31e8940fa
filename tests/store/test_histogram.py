"""supervisor.store.histogram: quantiles within 5 % of exact, whatever was merged."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.store import histogram

DURATIONS = st.floats(min_value=0.01, max_value=1e8, allow_nan=False)


def exact(values: list[float], q: float) -> float:
    """Linear between ranks: the definition of numpy, Excel and Prometheus summaries."""
    ordered = sorted(values)
    rank = q * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


@given(st.lists(st.lists(DURATIONS, max_size=30), min_size=1, max_size=6), st.floats(0, 1))
def test_quantiles_of_merged_histograms_are_within_5_percent(parts: list[list[float]], q: float) -> None:
    """Merging in any grouping gives the quantile of all values within 5 % of the exact one."""
    values = [value for part in parts for value in part]
    merged = histogram.merge([histogram.add(part) for part in parts])
    found = histogram.quantile(merged, q)
    if not values:
        assert found is None
    else:
        assert found == pytest.approx(exact(values, q), rel=0.05)
    assert histogram.total(merged) == len(values)


@given(st.lists(st.lists(DURATIONS, max_size=20), min_size=1, max_size=5))
def test_merging_does_not_depend_on_order(parts: list[list[float]]) -> None:
    """A merge of merges is the merge of all, in any order."""
    blobs = [histogram.add(part) for part in parts]
    one = histogram.merge(blobs)
    other = histogram.EMPTY
    for blob in reversed(blobs):
        other = histogram.merge([other, blob])
    assert histogram.decode(one) == histogram.decode(other)


def test_realistic_latencies_take_few_bytes() -> None:
    """An hour of a 30 s check is well under 200 bytes."""
    source = random.Random(1)
    blob = histogram.add(source.lognormvariate(4, 0.3) for _ in range(120))
    assert len(blob) < 200


def test_counts_beyond_23_bits_survive() -> None:
    """Years of merged counts do not overflow a record."""
    counts = {10: 3 * (1 << 23) + 5, 20: 1}
    assert histogram.decode(histogram.encode(counts)) == counts


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-9, 0.001])
def test_what_is_below_a_microsecond_is_zero(value: float) -> None:
    """Durations too short to be real share bucket 0."""
    assert histogram.quantile(histogram.add([value]), 0.5) == 0.0


def test_endless_durations_are_in_the_last_bucket() -> None:
    """A duration beyond all sense does not break the blob."""
    assert histogram.quantile(histogram.add([1e300]), 0.5) == histogram.value_of(511)


def test_a_cut_blob_is_refused() -> None:
    """A blob that is no multiple of 4 bytes says so."""
    with pytest.raises(ValueError, match="multiple of 4"):
        histogram.decode(b"abc")
