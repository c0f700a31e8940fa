"""Maintenance windows, clock changes included."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from supervisor.maintenance import Maintenance, covers, next_change
from supervisor.model import MaintenanceWindow
from tests.make import make_target


def ms(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).astimezone(UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("now", "open_"),
    [
        ("2026-11-29T02:59:59", False),
        ("2026-11-29T03:00:00", True),
        ("2026-11-29T04:59:59", True),
        ("2026-11-29T05:00:00", False),
        ("2026-11-30T03:30:00", False),
    ],
)
def test_a_weekly_window_is_open_from_its_start_to_its_end(now, open_):
    """`0 3 * * 0` for 2 h is open on Sunday from 03:00 until just before 05:00 of its zone."""
    window = MaintenanceWindow(cron="0 3 * * 0", duration_s=7200.0, timezone="Europe/Berlin")
    assert next_change(window, ms(now, "Europe/Berlin"))[0] is open_


@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_a_window_is_as_long_as_it_says_when_the_clock_changes(day):
    """On the days of a clock change the window opens once and lasts 2 real hours."""
    window = MaintenanceWindow(cron="30 1 * * *", duration_s=7200.0, timezone="Europe/Berlin")
    start = ms(f"{day}T01:30:00", "Europe/Berlin")
    opens = [minute for minute in range(-600, 600) if next_change(window, start + minute * 60_000)[0]]
    assert opens == list(range(120))


def test_a_one_off_window_is_open_between_its_times():
    """start <= now < end."""
    window = MaintenanceWindow(start_ms=1000, end_ms=2000)
    assert [next_change(window, t) for t in (999, 1000, 1999, 2000)] == [
        (False, 1000), (True, 2000), (True, 2000), (False, None),
    ]  # fmt: skip


def test_targets_and_groups_choose_what_a_window_covers():
    """A window with names covers those, one without covers everything."""
    a, b = make_target(id="a", group="Shop"), make_target(id="b")
    assert [covers(MaintenanceWindow(targets=("b",)), t) for t in (a, b)] == [False, True]
    assert [covers(MaintenanceWindow(groups=("Shop",)), t) for t in (a, b)] == [True, False]
    assert [covers(MaintenanceWindow(), t) for t in (a, b)] == [True, True]


def test_the_answer_follows_time_both_ways():
    """Windows open and close as time passes, also when the wall clock is set back."""
    maintenance = Maintenance([MaintenanceWindow(cron="0 3 * * *", duration_s=3600.0)])
    target = make_target()
    times = ["2026-11-30T02:00:00", "2026-11-30T03:10:00", "2026-11-30T04:10:00", "2026-11-30T03:20:00"]
    assert [maintenance.applies(target, ms(t)) for t in times] == [False, True, False, True]
