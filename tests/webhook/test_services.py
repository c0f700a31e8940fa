"""Apprise in a child process: in order, ended at the deadline, guarded by the address policy. And the ping."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from supervisor.model import Secret
from supervisor.webhook.heartbeat import Heartbeat
from tests.servers import HOLD, closed_port, script_server
from tests.webhook.rig import FakeClock, Reply, Rig, always, endpoint, receiver


def apprise(got_url: str, **fields: Any) -> Any:
    fields.setdefault("timeout_s", 30.0)
    url = got_url.replace("http://", "json://")
    return endpoint("team", "", format="apprise", apprise_url=url, **fields)


def test_notifications_arrive_in_order_with_title_text_and_severity(tmp_path: Path, wait_until: Any) -> None:
    """`json://`, Apprise's own HTTP service, stands for all of them; the child is used again."""
    with receiver() as got, Rig(tmp_path, apprise(got.url)) as rig:
        rig.target("shop", name="Shop 健康", notify=("team",))
        rig.send("shop")
        rig.send("shop", "target.up")
        wait_until(lambda: rig.pending() == 0, seconds=60)
        assert len(rig.hooks._sender._services._idle) == 1
        down, up = (item.body for item in got.got)
        assert (down["title"], down["type"]) == ("Shop 健康 is down", "failure")
        assert down["message"].startswith("status 503, expected 200\n")
        assert (up["title"], up["type"]) == ("Shop 健康 is up again", "success")


def test_a_failed_notification_is_retried_and_then_a_dead_letter_without_the_url(
    tmp_path: Path, wait_until: Any
) -> None:
    """The scheme is all that is shown of an Apprise URL; known secrets are masked in what Apprise says."""
    port = closed_port()
    one = endpoint(
        "team", "", format="apprise", apprise_url=f"json://127.0.0.1:{port}/hidden-token-1234", timeout_s=30.0,
        retries_s=(0, 1), mask=(Secret("TOKEN", "hidden-token-1234"),),
    )  # fmt: skip
    with Rig(tmp_path, one, clock=FakeClock()) as rig:
        rig.send("a")
        wait_until(lambda: rig.outcomes("team").get("retry") == 1, seconds=60)
        rig.advance(2)
        wait_until(lambda: len(rig.dead_letters()) == 1, seconds=60)
        (letter,) = rig.dead_letters()
    assert letter["outcome"] == "failed"
    assert letter["url"] == "json://"
    assert "Apprise could not send it" in letter["error"]
    assert "hidden-token" not in letter["error"]


def test_a_url_apprise_does_not_know_is_permanent(tmp_path: Path, wait_until: Any) -> None:
    """In words, and without the URL."""
    one = endpoint("team", "", format="apprise", apprise_url="nosuch://x/y", permanent_retries_s=(0,), timeout_s=30.0)
    with Rig(tmp_path, one) as rig:
        rig.send("a")
        wait_until(lambda: len(rig.dead_letters()) == 1, seconds=60)
        assert "Apprise does not understand the URL" in rig.dead_letters()[0]["error"]


def test_the_address_policy_holds_for_apprise_too(tmp_path: Path, wait_until: Any) -> None:
    """`allowPrivate: false` and a loopback service: blocked, never retried."""
    with receiver() as got, Rig(tmp_path, apprise(got.url, allow_private=False)) as rig:
        rig.send("a")
        wait_until(lambda: rig.outcomes("team") == {"blocked": 1}, seconds=60)
        assert not got.got


def test_a_hanging_service_ends_at_the_deadline(tmp_path: Path, wait_until: Any) -> None:
    """The child is killed; the next notification gets a new one."""
    with script_server([HOLD]) as server, Rig(tmp_path, apprise(server.url, timeout_s=3.0)) as rig:
        rig.send("a")
        started = time.monotonic()
        wait_until(lambda: rig.outcomes("team").get("retry") == 1, seconds=20)
        assert time.monotonic() - started < 8
        assert rig.hooks._sender._services._idle == []


def test_the_ping_comes_while_the_loop_turns_and_stays_out_when_it_does_not(wait_until: Any) -> None:
    """GET at the first beat and then regularly; none without a fresh beat; a failure is counted."""
    with receiver() as got:
        ping = Heartbeat(got.url + "ping", every_s=0.2, alive_s=0.5)
        ping.start()
        try:
            ping.beat()
            wait_until(lambda: len(got.at("/ping")) >= 2)
            assert ping.failures == 0
            wait_until(lambda: not ping._alive(time.monotonic()))
            count = len(got.at("/ping"))
            until = time.monotonic() + 0.7
            wait_until(lambda: time.monotonic() > until)
            assert len(got.at("/ping")) <= count + 1
            got.default = always(500)
            ping.beat()
            wait_until(lambda: ping.failures >= 1)
        finally:
            ping.stop()


def test_a_ping_that_hangs_does_not_hold_up_the_end() -> None:
    """Stop ends it."""
    with receiver() as got:
        got.default = lambda _seen: Reply(after_s=20)
        ping = Heartbeat(got.url)
        ping.start()
        ping.beat()
        deadline = time.monotonic() + 5
        while not got.got and time.monotonic() < deadline:
            time.sleep(0.01)  # the poll of a condition with a deadline
        started = time.monotonic()
        ping.stop()
        assert time.monotonic() - started < 2
        if ping._thread.is_alive():
            pytest.fail("the thread of the ping is still there")
