"""The schedule, with time as an argument."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.schedule import Schedule, fraction
from tests.make import make_target

WALL = 1_700_000_000.0  # wall time minus the schedule's clock


def simulate(schedule: Schedule, until: float, duration_s: float, *, retry: bool = False, now: float = 0.0):
    """Run every due check for `duration_s`; returns {target: [start times]}."""
    starts: dict[str, list[float]] = {}
    running: list[tuple[float, str]] = []
    while now <= until:
        for due in schedule.due(now):
            schedule.started(due.target_id, now)
            starts.setdefault(due.target_id, []).append(now)
            running.append((now + duration_s, due.target_id))
        wake = [schedule.next_wake(), *(end for end, _ in running)]
        now = max(now, min(wake))
        for end, target_id in [r for r in running if r[0] <= now]:
            running.remove((end, target_id))
            schedule.finished(target_id, now, retry=retry)
    return starts


def test_first_checks_are_spread_over_at_most_five_seconds():
    """1,000 new targets start within 5 s, evenly; one alone starts at once."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id=f"t{n}", interval_s=3600.0) for n in range(1000)], 0.0)
    firsts = sorted(times[0] for times in simulate(schedule, 6.0, 0.0).values())
    assert len(firsts) == 1000
    assert firsts[-1] <= 5.0
    assert max(b - a for a, b in pairwise(firsts)) < 0.2
    alone = Schedule(WALL)
    alone.set([make_target(id="one", interval_s=86400.0)], 0.0)
    assert simulate(alone, 1.0, 0.0)["one"][0] <= 0.1


def test_s22_the_rate_is_fixed_from_start_to_start():
    """A check of 4 s at an interval of 10 s starts every 10 s, however long it takes."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id="a", interval_s=10.0)], 0.0)
    starts = simulate(schedule, 120.0, 4.0)["a"]
    assert [b - a for a, b in pairwise(starts[1:])] == pytest.approx([10.0] * (len(starts) - 2))
    assert schedule.take_missed() == []


def test_s06_a_slow_check_never_overlaps_and_its_slots_are_missed():
    """Interval 1 s, check 5 s: runs do not overlap; the slots in between are counted, not queued."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id="a", interval_s=1.0)], 0.0)
    starts = simulate(schedule, 60.0, 5.0)["a"]
    assert all(b - a >= 5.0 for a, b in pairwise(starts))
    missed = dict(schedule.take_missed())["a"]
    assert 60 - 2 <= missed + len(starts) <= 60 + 2


def test_s03_the_next_time_is_never_in_the_past():
    """After each finish the next wake-up is in the future: no busy loop."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id="a", interval_s=1.0)], 0.0)
    now = schedule.next_wake()
    for _ in range(20):
        for due in schedule.due(now):
            schedule.started(due.target_id, now)
        now += 3.0
        schedule.due(now)
        schedule.finished("a", now, retry=False)
        assert schedule.next_wake() > now
        now = schedule.next_wake()


def test_s02_after_a_suspend_there_is_one_run_and_the_gap_is_missed():
    """Ten intervals asleep: one run at once, nine slots missed, then the old rhythm."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id="a", interval_s=10.0)], 0.0)
    before = simulate(schedule, 50.0, 0.1)["a"]
    schedule.take_missed()
    slot = schedule.next_wake()
    woken = slot + 95.0
    runs = schedule.due(woken)
    assert [run.target_id for run in runs] == ["a"]
    assert dict(schedule.take_missed()) == {"a": 9}
    schedule.started("a", woken)
    schedule.finished("a", woken + 0.1, retry=False)
    assert schedule.next_wake() == pytest.approx(slot + 100.0)
    assert (schedule.next_wake() - before[-1]) % 10.0 == pytest.approx(0.0, abs=1e-6)


def test_a_restart_keeps_the_rhythm():
    """Two schedules made at different times agree about a target's slots on the wall clock."""
    target = make_target(id="nightly", interval_s=300.0)
    slots = []
    for start in (0.0, 1234.5):
        schedule = Schedule(WALL)
        schedule.set([target], start)
        simulate(schedule, start + 1, 0.0, now=start)
        slots.append(schedule.next_due("nightly"))
    assert (slots[1] - slots[0]) % 300.0 == pytest.approx(0.0, abs=1e-6)
    assert (slots[0] + WALL) % 300.0 == pytest.approx(fraction("nightly") * 300.0, abs=0.01)


def test_a_retry_comes_after_the_retry_interval_and_slots_stay():
    """While failing, the next run starts retryInterval after the last start, or at the next slot if that is earlier."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id="a", interval_s=60.0, retry_interval_s=7.0)], 0.0)
    starts = simulate(schedule, 300.0, 0.5, retry=True)["a"]
    slot = schedule.next_due("a")
    regular = [t for t in starts[1:] if math.isclose((slot - t) % 60.0, 0.0, abs_tol=1e-6)]
    assert len(regular) >= 4
    gaps = [b - a for a, b in pairwise(starts)]
    assert max(gaps) <= 7.0 + 1e-6
    assert schedule.take_missed() == []


def test_s05_a_long_interval_starts_at_once_too():
    """A target checked once a day has its first result within seconds."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id=f"d{n}", interval_s=86400.0) for n in range(100)], 0.0)
    assert len(simulate(schedule, 5.0, 0.0)) == 100


def test_a_changed_target_keeps_its_place_and_a_removed_one_ends():
    """Changing the interval moves to the new rhythm; removing ends it; what is disabled never runs."""
    schedule = Schedule(WALL)
    schedule.set([make_target(id="a", interval_s=10.0), make_target(id="b", interval_s=10.0)], 0.0)
    simulate(schedule, 25.0, 0.0)
    schedule.set([make_target(id="a", interval_s=20.0), make_target(id="c", enabled=False)], 25.0)
    starts = simulate(schedule, 125.0, 0.0, now=25.0)
    assert set(starts) == {"a"}
    assert len(starts["a"]) == 5
    assert [b - a for a, b in pairwise(starts["a"])] == pytest.approx([20.0] * 4)


def test_an_unchanged_target_is_not_touched_by_a_reload():
    """Setting the same target again a hundred times changes nothing of its rhythm."""
    schedule = Schedule(WALL)
    target = make_target(id="a", interval_s=10.0)
    schedule.set([target], 0.0)
    simulate(schedule, 25.0, 0.0)
    before = schedule.next_due("a")
    for n in range(100):
        schedule.set([target], 25.0 + n / 100)
    assert schedule.next_due("a") == before
    assert len(simulate(schedule, 45.0, 0.0, now=26.0)["a"]) == 2


@given(
    st.lists(st.floats(1.0, 100.0), min_size=1, max_size=5),
    st.floats(0.0, 30.0),
    st.floats(100.0, 400.0),
)
def test_every_slot_is_a_run_or_missed(intervals, duration_s, until):
    """Runs and missed slots add up to the slots that passed (give or take the first check and the end)."""
    schedule = Schedule(WALL)
    targets = [make_target(id=f"t{n}", interval_s=interval) for n, interval in enumerate(intervals)]
    schedule.set(targets, 0.0)
    starts = simulate(schedule, until, duration_s)
    missed = dict(schedule.take_missed())
    for target in targets:
        expected = until / target.interval_s
        assert abs(len(starts[target.id]) + missed.get(target.id, 0) - expected) <= 2
