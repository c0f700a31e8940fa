"""The guard against large regressions: ratios of CPU time to a floor of the same moment, never wall time."""

from __future__ import annotations

import ssl
from dataclasses import replace
from pathlib import Path

import pytest
import requests

from bench import guard
from bench.floors import raw_client
from bench.origin import WORD, own


def spin(rounds: int) -> None:
    """Work of a known size."""
    for _ in range(rounds):
        hash("x")


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(guard.GUARDED))
def test_the_cost_over_its_floor_has_not_doubled(name: str, tmp_path: Path) -> None:
    """Each guarded piece of work stays below the bound of its ratio."""
    with guard.GUARDED[name](tmp_path) as pair:
        complaint = pair.complaint()
    assert complaint is None, f"{name} {complaint}"


@pytest.mark.slow
def test_a_session_for_each_check_would_be_noticed(tmp_path: Path) -> None:
    """The bound of HTTP checks is below what `requests` costs when it is used without thought."""
    with own(tmp_path) as origin:
        work = guard.repeated(lambda: requests.get(origin.small_url, timeout=5), 100)
        floor = guard.repeated(raw_client(origin.http, "small", WORD), 100)
        complaint = guard.Pair(work, floor, guard.HTTP_MOST).complaint(2)
    assert "times its floor, at most 5 is expected" in (complaint or "")


@pytest.mark.slow
def test_a_tls_context_for_each_check_would_be_noticed(tmp_path: Path) -> None:
    """The bound of HTTPS checks is below what they cost with a context for each."""
    with guard.https(tmp_path) as pair:
        context = guard.repeated(ssl.create_default_context, 3)
        complaint = replace(pair, work=lambda: pair.work() + context()).complaint(2)
    assert "times its floor, at most 2.5 is expected" in (complaint or "")


def test_a_ratio_is_of_cpu_and_a_complaint_is_a_sentence() -> None:
    """Work three times its floor has a ratio of about 3: below a bound of 4.5 it is well, above one of 2 it is told."""
    work, floor = guard.repeated(lambda: spin(30_000), 3), guard.repeated(lambda: spin(10_000), 3)
    assert 2.0 < guard.Pair(work, floor, 4.5).ratio() < 4.5
    assert guard.Pair(work, floor, 4.5).complaint() is None
    assert "times its floor, at most 2 is expected" in (guard.Pair(work, floor, 2.0).complaint() or "")
