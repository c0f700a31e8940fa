"""The pure part: what is shown for what is stored."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from supervisor.store.read import RollupRow, TargetRow
from webui import bars, chart, trend, view, words
from webui.history import Counts

NOW = 1_790_000_000_000
SHOW = view.Show()


def row(**fields: Any) -> TargetRow:
    """A target that is up."""
    values: dict[str, Any] = dict.fromkeys(TargetRow._fields)
    values |= {
        "id": 1, "key": "t", "name": "t", "type": "http", "target": "https://h.example/x?y=1", "group": "",
        "enabled": True, "interval_ms": 60_000, "timeout_ms": 10_000, "labels": "{}", "state": "up", "version": 1,
        "last_timestamp": NOW - 1000, "last_success": True, "last_matched": True, "last_duration_ms": 5.0,
    }  # fmt: skip
    return TargetRow(**(values | fields))


def known(stale: bool = False, **page: Any) -> view.Supervisor:
    """A supervisor with a fresh or an old heartbeat."""
    beat = NOW - (31_000 if stale else 1_000)
    return view.supervisor({"heartbeat_at": str(beat), "page": json.dumps(page)}, NOW)


GOOD = ("up", "degraded")


@pytest.mark.parametrize("state", ["pending", "up", "degraded", "failing", "down", "recovering", None, "nonsense"])
def test_never_a_false_green(state: str | None) -> None:
    """`up` is shown only for a fresh matched result of an enabled target whose supervisor is heard."""
    choices = itertools.product(
        (True, False), (True, False), (True, False), (True, False), (NOW - 1000, NOW - 131_000, NOW + 131_000, None)
    )
    for stale, enabled, maintenance, matched, last in choices:
        one = view.target(
            row(state=state, enabled=enabled, in_maintenance=maintenance, last_matched=matched, last_timestamp=last),
            known(stale), NOW,
        )  # fmt: skip
        if one.status in GOOD:
            assert not stale
            assert enabled
            assert matched
            assert last == NOW - 1000
            assert state == one.status
        if one.healthy:
            assert not stale
            assert enabled
            assert last == NOW - 1000
        counts = view.count([one])
        if view.overall(counts, stale=stale) == "up":
            assert one.status == "up"
        if stale:
            assert view.headline(counts, stale=stale) == "State unknown"


@pytest.mark.parametrize(
    ("meta", "unattended", "stale"),
    [
        ({}, False, True),
        ({"heartbeat_at": str(NOW - 30_000)}, False, False),
        ({"heartbeat_at": str(NOW - 30_001)}, False, True),
        ({"heartbeat_at": str(NOW + 30_001)}, False, True),
        ({"heartbeat_at": "soon"}, False, True),
        ({"heartbeat_at": str(NOW)}, True, True),
    ],
    ids=["none", "edge", "old", "future", "junk", "nobody-has-it-open"],
)
def test_stale(meta: dict[str, str], unattended: bool, stale: bool) -> None:
    """The heartbeat counts when it is a number within 30 s in either direction, and somebody has the database open."""
    assert view.supervisor(meta, NOW, unattended=unattended).stale is stale


@pytest.mark.parametrize(
    ("statuses", "overall", "headline"),
    [
        ({}, "empty", "No targets yet"),
        ({"up": 3}, "up", "All 3 targets up"),
        ({"up": 1}, "up", "The one target is up"),
        ({"up": 2, "down": 1, "recovering": 1}, "down", "2 of 4 targets down"),
        ({"up": 2, "failing": 1}, "failing", "1 of 3 targets failing"),
        ({"up": 2, "late": 1, "failing": 1}, "late", "1 of 4 targets late"),
        ({"up": 2, "degraded": 1}, "degraded", "1 of 3 targets degraded"),
        ({"up": 2, "unknown": 1}, "unknown", "1 of 3 targets in unknown state"),
        ({"up": 2, "pending": 1}, "up", "2 of 3 targets up"),
        ({"pending": 1}, "pending", "No result yet"),
        ({"paused": 1}, "paused", "All targets are paused"),
        ({"maintenance": 1}, "maintenance", "In maintenance"),
    ],
)
def test_headline(statuses: dict[str, int], overall: str, headline: str) -> None:
    """The worst thing known is told first."""
    counts = {name: statuses.get(name, 0) for name in view.WORDS}
    assert view.overall(counts, stale=False) == overall
    assert view.headline(counts, stale=False) == headline


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, "–"), (1.0, "100 %"), (99_999 / 100_000, "99.999 %"), (1 - 1e-9, "99.999 %"), (0.0, "0.0 %"),
        (0.99949, "99.949 %"), (0.9999999, "99.999 %"), (1.5, "100 %"), (-1, "0.0 %"), (0.5, "50.0 %"),
    ],
)  # fmt: skip
def test_w13_percent_is_rounded_down(ratio: float | None, text: str) -> None:
    """W13: one failure in a hundred thousand is not 100 %."""
    assert words.percent(ratio) == text


def test_w11_uptime_is_within_bounds() -> None:
    """W11: whatever the counters say, uptime is between 0 and 1."""
    assert Counts(3, 0).uptime == 1.0
    assert Counts(3, -1).uptime == 1.0
    assert Counts(-1, 3).uptime == 0.0
    assert Counts(0, 0).uptime is None
    rows = [RollupRow(0, 2, 1, 0, 0, 0, 0, 10**15, 0.0, None, None, b"", None)]
    assert trend.uptime(rows) == pytest.approx(2 / 3)
    assert trend.coverage(rows, 0, 1000, 500) == 1.0
    assert trend.coverage(rows, 0, 1000, 2000) is None


def test_w14_days_are_utc() -> None:
    """W14: a window begins on a UTC bucket, whatever zone the machine or the reader is in."""
    for at in (1_761_440_400_000, 1_743_296_400_000):  # around both clock changes of Berlin in 2025
        assert trend.start_of(trend.BY_NAME["90d"], at) % 86_400_000 == 0
        assert trend.start_of(trend.BY_NAME["24h"], at) % 3_600_000 == 0


@pytest.mark.parametrize(
    ("show", "address", "shown"),
    [
        (view.Show(), ("https://h.example:8443/p?q=1", "http"), "https://h.example:8443/p?q=1"),
        (view.Show(target="host"), ("https://h.example:8443/p?q=1", "http"), "h.example"),
        (view.Show(target="host"), ("/usr/bin/check_disk -w 10", "command"), "check_disk"),
        (view.Show(target="none"), ("https://h.example/", "http"), ""),
        (view.Show(target="host"), ("http://[::1/", "http"), ""),
    ],
)
def test_show_target(show: view.Show, address: tuple[str, str], shown: str) -> None:
    """`page.show.target` cuts the address to its host or to nothing."""
    assert view.shown_address(*address, show) == shown


def test_show_failure() -> None:
    """`page.show.failure` hides values, then the message; what is not understood hides most."""
    text = json.dumps({
        "kind": "mismatch", "phase": "body", "path": "p", "message": "m", "expected": "e", "actual": "a",
    })  # fmt: skip
    full, message, none = (view.failure(text, view.Show(failure=name)) for name in ("full", "message", "none"))
    assert full == view.Failure("mismatch", "body", "p", "m", "e", "a")
    assert message == view.Failure("mismatch", "body", "", "m")
    assert none is not None
    assert "m" not in (none.message, none.expected)
    page = known(show={"target": "hsot", "failure": 1}, groups={"Shop": {"show": {"target": "full"}}}).page
    assert page.show == view.Show("none", "none")
    assert page.show_for("Shop") == view.Show("full", "none")
    assert view.shown_detail("HTTP OK: secret", view.Show(failure="none")) == ""
    assert view.shown_detail("HTTP 200", view.Show(failure="none")) == "HTTP 200"


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "data:text/html,x", "//evil", "http://", "https://a b", "\tjavascript:x"]
)
def test_links_are_http(url: str) -> None:
    """Only http and https addresses with a host become links."""
    assert view.web_address(url) is None
    assert known(links=[{"name": "x", "url": url}]).page.links == ()


def test_bars_tell_no_data_from_good() -> None:
    """A day without results is drawn flat, never as a good one; a bad day is taller; words say the same."""
    drawn = bars.drawn(bars.ranked(["empty", "empty", "good", "some", "much"]))
    assert drawn.empty == "M0 0h4v16h-4z"
    assert drawn.line == "M0 15h4"
    assert (drawn.some, drawn.much) == ("M7 3V16", "M9 0V16")
    assert drawn.words == "2 of 5 days with failures or warnings, 2 without data"


def test_spark_breaks_at_gaps() -> None:
    """The line of the last day has a hole where nothing ran."""
    assert bars.spark([None, 1.0]) == ""
    assert bars.spark([1.0, 2.0, None, 2.0]).count("M") == 2
    assert "nan" not in bars.spark([0.0, 0.0])


def test_chart_of_nothing_and_of_one() -> None:
    """No points, one point, and zero durations draw without an error."""
    assert chart.chart([], 0, 86_400_000, 3_600_000).empty
    one = chart.chart([chart.Point(3_600_000, 0.0, 0.0, 1, 1)], 0, 86_400_000, 3_600_000, [(0, None)])
    assert not one.empty
    assert one.failures.startswith("M")
    assert "1 of 1 results failed" in one.words


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0.5, "0.50 ms"), (7.25, "7.2 ms"), (107.3, "107 ms"), (1420, "1.42 s"), (65_000, "1 min 5 s"), (None, "–")],
)
def test_durations(ms: float | None, text: str) -> None:
    """Durations have three digits or so."""
    assert words.duration(ms) == text
    assert words.rfc3339(10**18) == "9999-12-31T23:59:59.999Z"
    assert words.rfc3339(0) == "1970-01-01T00:00:00.000Z"


def test_the_version_shown_is_the_supervisors_not_the_state_counter():
    """`meta.version` counts state changes; the version of the program stands in `meta.supervisor`."""
    known = view.supervisor({"version": "7", "supervisor": '{"version": "0.1.0"}'}, 0)
    assert known.version == "0.1.0"


def test_a_supervisor_that_was_stopped_is_stale_at_once():
    """`stopped_at` is there from the stop to the next start; a heartbeat of a moment ago does not count then."""
    beat = {"heartbeat_at": "100000"}
    assert not view.supervisor({**beat, "stopped_at": ""}, 100_500).stale
    assert view.supervisor({**beat, "stopped_at": "100400"}, 100_500).stale
