"""The cases that are about receivers that are down, slow down, or want no more (webhook cases 12 to 15)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor.deadline import Deadline
from supervisor.net.resolve import Address, resolve
from supervisor.webhook.retries import Answer, next_delay_s, retry_after_s
from tests.servers import closed_port
from tests.webhook.rig import FakeClock, Reply, Rig, always, endpoint, receiver


def test_12_an_endpoint_that_does_not_resolve_gets_one_probe_an_interval(tmp_path: Path, wait_until: Any) -> None:
    """1,000 targets go down while the receiver's name does not resolve: five attempts, then probes; no budget burnt."""
    asked: list[str] = []

    def look_up(host: str, port: int, version: str, deadline: Deadline) -> tuple[Address, ...]:
        asked.append(host)
        return resolve(host, port, version, deadline)

    clock = FakeClock()
    with Rig(tmp_path, endpoint("ops", "http://nowhere.invalid/"), look_up=look_up, clock=clock) as rig:
        keys = [f"t{number}" for number in range(1000)]
        rig.declare(*keys)
        for key in keys:
            rig.send(key)
        wait_until(lambda: rig.hooks.stats().endpoints[0].state == "open", seconds=10)
        wait_until(lambda: rig.hooks.stats().endpoints[0].in_flight == 0)
        opened_with = len(asked)
        assert opened_with <= 9
        for probes in range(1, 7):
            rig.advance(5 * 2**probes)
            wait_until(lambda n=probes: len(asked) == opened_with + n)
            wait_until(lambda: rig.hooks.stats().endpoints[0].in_flight == 0)
        wait_until(lambda: max(row["attempts"] for row in rig.rows("SELECT attempts FROM webhook_cursors")) == 1)
        spent = rig.rows("SELECT count(*) AS n FROM webhook_cursors WHERE attempts > 0")[0]["n"]
        assert spent <= 5
        wait_until(lambda: rig.pending() == 1000)
        assert not rig.dead_letters()


@pytest.mark.parametrize("status", [429, 503])
def test_13_retry_after_is_kept_by_all_streams(tmp_path: Path, wait_until: Any, status: int) -> None:
    """Nothing is sent before the time that one stream was told, and the rest comes after it."""
    clock = FakeClock()
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=clock) as rig:
        got.default = always(status, ("Retry-After", "600"))
        keys = [f"t{number}" for number in range(30)]
        rig.declare(*keys)
        for key in keys:
            rig.send(key)
        wait_until(lambda: rig.hooks.stats().endpoints[0].state == "open")
        wait_until(lambda: rig.hooks.stats().endpoints[0].in_flight == 0)
        first = len(got.got)
        assert first <= 4
        got.default = always(200)
        rig.advance(599)
        settle = time.monotonic() + 1.2
        wait_until(lambda: time.monotonic() > settle)
        assert len(got.got) == first
        rig.advance(122)
        wait_until(lambda: rig.pending() == 0)
        assert sorted({item.body["id"] for item in got.got[first:]}) == sorted(keys)


def date_in(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("value", "least_s", "most_s"),
    [
        ("600", 600, 720),
        (900, 850, 1080),
        ("999999999", 3600, 3600),
        (999999, 3600, 3600),
        ("-1", 4, 6),
        ("abc", 4, 6),
        ("0", 4, 6),
        ("", 4, 6),
        ("1e9", 4, 6),
        ("١٢", 4, 6),
        (-5000, 4, 6),
        ("9" * 400, 3600, 3600),
    ],
)
def test_13_odd_values_of_retry_after_are_clamped_or_ignored(value: str | int, least_s: float, most_s: float) -> None:
    """Seconds and dates count up to an hour; nonsense is as if it were not there. A number is a date so far off."""
    value = date_in(value) if isinstance(value, int) else value
    for chance in (0.0, 0.5, 0.999):
        answer = Answer("retryable", "HTTP 429", 429, retry_after_s(value, time.time()))
        delay = next_delay_s(endpoint("ops", "http://127.0.0.1:9/"), 1, answer, chance)
        assert delay is not None
        assert least_s <= delay <= most_s


def test_14_what_fell_into_an_outage_arrives_after_it_in_order(tmp_path: Path, wait_until: Any) -> None:
    """The receiver is away for a minute; afterwards it has everything, each stream in order."""
    port = closed_port()
    clock = FakeClock()
    with Rig(tmp_path, endpoint("ops", f"http://127.0.0.1:{port}/"), clock=clock) as rig:
        rig.declare("a", "b", "c")
        for _ in range(4):
            for key in ("a", "b", "c"):
                rig.send(key)
        for _ in range(12):
            rig.advance(5)
        wait_until(lambda: rig.outcomes("ops").get("retry", 0) >= 3)
        with receiver() as got:
            rig.hooks.reload((endpoint("ops", got.url),))
            for _ in range(40):
                rig.advance(60)
                try:
                    wait_until(lambda: rig.pending() == 0, seconds=0.3)
                except pytest.fail.Exception:
                    continue
                break
            assert rig.pending() == 0
            for key in ("a", "b", "c"):
                assert [item.body["seq"] for item in got.got if item.body["id"] == key] == [1, 2, 3, 4]
        assert not rig.dead_letters()


def test_15_gone_disables_the_endpoint_visibly_until_its_settings_change(tmp_path: Path, wait_until: Any) -> None:
    """410: pending and new events become dead letters `disabled`, nothing counts as delivered, also after a restart."""
    with receiver() as got:
        got.default = always(410)
        rig = Rig(tmp_path, endpoint("ops", got.url))
        rig.writer.start()
        for _ in range(6):
            rig.send("a")
        rig.stop()
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            wait_until(lambda: rig.outcomes("ops") == {"disabled": 6})
            wait_until(lambda: len(rig.dead_letters()) == 6)
            assert rig.hooks.stats().endpoints[0].state == "disabled"
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            assert rig.hooks.stats().endpoints[0].state == "disabled"
            rig.send("b")
            wait_until(lambda: len(rig.dead_letters()) == 7)
            assert len(got.got) == 1
            got.default = always(200)
            rig.hooks.reload((endpoint("ops", got.url, headers=(("X-New", "1"),)),))
            rig.send("b")
            wait_until(lambda: got.ids()[1:] == ["b:2"])
            wait_until(lambda: rig.outcomes("ops").get("delivered") == 1)


def test_15_a_paused_endpoint_keeps_its_events(tmp_path: Path, wait_until: Any) -> None:
    """`enabled: false`: what waits is kept and sent when the endpoint is enabled again; nothing new is accepted."""
    with receiver() as got:
        rig = Rig(tmp_path, endpoint("ops", got.url))
        rig.writer.start()
        for _ in range(6):
            rig.send("a")
        rig.stop()
        with Rig(tmp_path, endpoint("ops", got.url, enabled=False)) as rig:
            assert rig.send("a") == ()
            assert rig.hooks.stats().endpoints[0].state == "paused"
            assert rig.pending() == 6
            rig.hooks.reload((endpoint("ops", got.url),))
            wait_until(lambda: rig.pending() == 0)
        assert got.ids() == [f"a:{seq}" for seq in range(1, 7)]


@pytest.mark.slow
def test_a_storm_of_a_thousand_targets_with_a_receiver_that_is_slow_then_dead_then_back(
    tmp_path: Path, wait_until: Any
) -> None:
    """Everything arrives in the end, each stream in order; a second receiver has it all long before."""
    keys = [f"t{number}" for number in range(1000)]
    clock = FakeClock()
    with receiver() as one, receiver() as two:
        one.default = lambda _seen: Reply(after_s=0.5)
        with Rig(tmp_path, endpoint("one", one.url), endpoint("two", two.url), clock=clock) as rig:
            rig.declare(*keys)
            for kind in ("target.down", "target.up"):
                for key in keys:
                    rig.send(key, kind)
            wait_until(lambda: len(two.got) == 2000, seconds=60)
            assert len(one.got) < 400
            one.default = always(503)
            wait_until(lambda: rig.hooks.stats().endpoints[0].state == "open", seconds=20)
            seen = len(one.got)
            rig.advance(3600)
            wait_until(lambda: len(one.got) > seen)
            one.default = always(200)
            deadline = time.monotonic() + 60
            while rig.pending() and time.monotonic() < deadline:
                rig.advance(60)
                time.sleep(0.02)  # the poll of a condition with a deadline
            assert rig.pending() == 0
            assert not rig.dead_letters()
    for got in (one, two):
        heard: dict[str, list[int]] = {}
        for item in got.got:
            seqs = heard.setdefault(item.body["id"], [])
            if not seqs or seqs[-1] != item.body["seq"]:
                seqs.append(item.body["seq"])
        assert heard == {key: [1, 2] for key in keys}


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo"])
@pytest.mark.parametrize("value", ["Tue Dec  1 05:10:00 2026", "Tue, 01 Dec 2026 05:10:00 -0000"])
def test_a_retry_after_date_without_a_zone_is_utc(monkeypatch: pytest.MonkeyPatch, zone: str, value: str) -> None:
    """RFC 9110, 5.6.7: every HTTP date is UTC, the form of asctime too, whatever the zone of this machine."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", zone)
        time.tzset()
        seconds = retry_after_s(value, 1_796_101_200.0)
    time.tzset()
    assert seconds == 600.0
