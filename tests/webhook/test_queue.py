"""The queue's own rules: filter before number, cursors, limits, ages, numbers that outlive targets, commands."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from supervisor.webhook.commands import CommandError
from tests.make import make_target
from tests.webhook.rig import SECRET, FakeClock, Reply, Rig, always, endpoint, receiver


def test_w4_an_event_nobody_wants_takes_no_number(tmp_path: Path, wait_until: Any) -> None:
    """The filter runs before numbering, and nothing is written."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, events=("down",))) as rig:
        rig.send("a")
        assert rig.send("a", "target.up") == ()
        assert rig.send("a", "target.degraded") == ()
        rig.send("a")
        wait_until(lambda: rig.pending() == 0)
        assert got.ids() == ["a:1", "a:2"]
        assert rig.rows("SELECT * FROM webhook_streams") == [{"stream": "a", "last_seq": 2}]


def test_w4b_each_endpoint_gets_what_it_wanted_when_the_event_was_accepted(tmp_path: Path, wait_until: Any) -> None:
    """Gaps at one receiver are normal; an endpoint that is new to the stream starts where it is."""
    with receiver() as got:
        base = got.url
        one = endpoint("one", base + "one", events=("down", "up"))
        two = endpoint("two", base + "two", events=("up",))
        with Rig(tmp_path, one, two) as rig:
            rig.send("a")
            rig.send("a", "target.up")
            rig.send("a")
            wait_until(lambda: rig.pending() == 0)
            new = endpoint("new", base + "new")
            rig.endpoints = (one, two, new)
            rig.hooks.reload(rig.endpoints)
            rig.targets.clear()
            rig.send("a", "target.up")
            wait_until(lambda: rig.pending() == 0)
            assert rig.cursor("a", "new")["acked_seq"] == 4
        assert got.ids("/one") == ["a:1", "a:2", "a:3", "a:4"]
        assert got.ids("/two") == ["a:2", "a:4"]
        assert got.ids("/new") == ["a:4"]


def test_w10_w11_result_events_go_when_everybody_has_them_the_others_stay(tmp_path: Path, wait_until: Any) -> None:
    """`down` can be redelivered later; results are deleted at once."""
    with receiver() as got:
        one = endpoint("one", got.url, events=("down", "result"))
        two = endpoint("two", got.url + "two", events=("result",))
        with Rig(tmp_path, one, two) as rig:
            rig.send("a", "target.result")
            rig.send("a")
            rig.send("a", "target.result", matched=False)
            wait_until(lambda: rig.pending() == 0)
            wait_until(lambda: [row["seq"] for row in rig.rows("SELECT seq FROM webhook_events")] == [2])


def test_w16_over_the_limit_the_oldest_result_goes_and_down_stays(tmp_path: Path, wait_until: Any) -> None:
    """Dead letters `overflow` for results, oldest first; cursors do not move; down and up last."""
    with receiver() as got:
        got.default = always(500)
        one = endpoint("ops", got.url, events=("down", "up", "result"), max_pending=4)
        with Rig(tmp_path, one, clock=FakeClock()) as rig:
            rig.send("a")
            wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
            for kind in ("target.result", "target.result", "target.up", "target.result", "target.down", "target.up"):
                rig.send("a", kind)
            wait_until(lambda: [row["seq"] for row in rig.dead_letters()] == [2, 3, 5])
            assert {row["outcome"] for row in rig.dead_letters()} == {"overflow"}
            assert rig.cursor("a", "ops")["acked_seq"] == 0
            rig.send("a")
            wait_until(lambda: [row["seq"] for row in rig.dead_letters()] == [1, 2, 3, 5])
            got.default = always(200)
            rig.advance(30)
            wait_until(lambda: rig.pending() == 0)
            assert got.ids()[1:] == ["a:4", "a:6", "a:7", "a:8"]
            wait_until(lambda: {row["seq"] for row in rig.rows("SELECT seq FROM webhook_events")} == {1, 4, 6, 7, 8})


def test_w16_events_expire_also_behind_an_open_breaker_and_while_paused(tmp_path: Path, wait_until: Any) -> None:
    """Older than maxAge: dead letters `expired`, with the last error."""
    with receiver() as got:
        got.default = always(500)
        with Rig(tmp_path, endpoint("ops", got.url, retries_s=(0,) * 50), clock=FakeClock()) as rig:
            for _ in range(3):
                rig.send("a")
            wait_until(lambda: rig.hooks.stats().endpoints[0].state == "open")
            rig.advance(86401)
            wait_until(lambda: [row["outcome"] for row in rig.dead_letters()] == ["expired"] * 3)
            assert "HTTP 500" in rig.dead_letters()[0]["error"]


def test_w17_a_target_that_comes_back_goes_on_counting(tmp_path: Path, wait_until: Any) -> None:
    """Removed and added again: no number is used twice."""
    with receiver() as got:
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            rig.send("a")
            wait_until(lambda: rig.pending() == 0)
            rig.targets.clear()
            rig.declare("b")
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            rig.declare("b")
            wait_until(lambda: rig.writer.stats().queued == 0)
            rig.send("a")
            wait_until(lambda: rig.pending() == 0)
        assert got.ids() == ["a:1", "a:2"]


def test_supervisor_events_have_a_stream_of_their_own(tmp_path: Path, wait_until: Any) -> None:
    """`_supervisor`, for endpoints that name them."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, events=("started", "reloadFailed"))) as rig:
        from supervisor.model import Item
        from supervisor.state import initial

        assert rig.hooks.supervisor_event("supervisor.stopped", {}) == ()
        events = rig.hooks.supervisor_event("supervisor.started", {"version": "1", "targets": 3})
        events += rig.hooks.supervisor_event("supervisor.reloadFailed", {"version": "1"}, "a.yaml:1:1: no")
        rig.writer.put(Item(None, initial(), "_supervisor", events=events))
        wait_until(lambda: rig.pending() == 0)
    assert [(item.body["eventId"], item.body["success"]) for item in got.got] == [
        ("_supervisor:1", True),
        ("_supervisor:2", False),
    ]
    assert got.got[0].body["data"] == [{"version": "1", "targets": 3}]
    assert got.got[1].body["error"] == "a.yaml:1:1: no"


def test_metadata_changed_while_a_retry_waits_is_in_the_next_attempt(tmp_path: Path, wait_until: Any) -> None:
    """W5: same event id, new metadata; identical otherwise."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, metadata_json='{"v":1}'), clock=FakeClock()) as rig:
        got.default = always(500)
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
        rig.hooks.reload((endpoint("ops", got.url, metadata_json='{"v":2}'),))
        got.default = always(200)
        rig.advance(7)
        wait_until(lambda: rig.pending() == 0)
    first, second = (item.body for item in got.got)
    assert (first.pop("metadata"), second.pop("metadata")) == ({"v": 1}, {"v": 2})
    assert first == second


def test_a_first_step_that_is_not_zero_is_waited_for(tmp_path: Path, wait_until: Any) -> None:
    """`retries: [20s, 0s]`: the wait before each attempt, the first one too, for every event of the row."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, retries_s=(20, 0)), clock=FakeClock()) as rig:
        rig.send("a")
        rig.advance(19)
        rig.send("a")
        rig.advance(1)
        wait_until(lambda: got.ids() == ["a:1"])
        rig.advance(18)
        wait_until(lambda: rig.cursor("a", "ops")["acked_seq"] == 1)
        assert got.ids() == ["a:1"]
        rig.advance(1)
        wait_until(lambda: got.ids() == ["a:1", "a:2"])


def test_four_at_a_time_for_one_endpoint(tmp_path: Path, wait_until: Any) -> None:
    """Eight threads, but never more than four at one receiver."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url)) as rig:
        got.default = lambda _seen: Reply(after_s=0.05)
        keys = [f"t{number}" for number in range(30)]
        rig.declare(*keys)
        for key in keys:
            rig.send(key)
        wait_until(lambda: rig.pending() == 0)
        assert got.most_open == 4


def test_a_stop_gives_posts_under_way_their_time(tmp_path: Path, wait_until: Any) -> None:
    """A POST that ends within the grace is an outcome; one that does not is sent again by the next life."""
    with receiver() as got:
        got.answers["/slow"] = lambda _seen: Reply(after_s=0.7)
        got.answers["/hung"] = lambda _seen: Reply(after_s=30 if len(got.at("/hung")) == 1 else 0)
        endpoints = endpoint("slow", got.url + "slow"), endpoint("hung", got.url + "hung")
        rig = Rig(tmp_path, *endpoints).start()
        rig.send("a")
        wait_until(lambda: len(got.got) == 2)
        started = time.monotonic()
        rig.stop(2.0)
        assert time.monotonic() - started < 5
        with Rig(tmp_path, *endpoints) as rig:
            wait_until(lambda: len(got.at("/hung")) == 2)
            wait_until(lambda: rig.pending() == 0)
            assert rig.cursor("a", "hung")["attempts"] == 0
        assert len(got.at("/slow")) == 1


def test_a_stop_sends_what_was_never_tried(tmp_path: Path) -> None:
    """An event accepted right before the stop arrives within the grace, as `supervisor.stopped` must."""
    with receiver() as got:
        rig = Rig(tmp_path, endpoint("ops", got.url)).start()
        rig.send("a")
        rig.stop(2.0)
        assert len(got.got) == 1


# --- commands --------------------------------------------------------------------------------------------------------


def test_redelivery_sends_the_same_bytes_and_says_so(tmp_path: Path, wait_until: Any) -> None:
    """Same event id and bytes, `webhook-redelivery: true`; also to an endpoint that did not want it."""
    with receiver() as got:
        ops = endpoint("ops", got.url, secrets=(SECRET,))
        other = endpoint("other", got.url + "other", events=("up",))
        with Rig(tmp_path, ops, other) as rig:
            rig.send("a")
            wait_until(lambda: rig.pending() == 0)
            wait_until(lambda: rig.writer.stats().queued == 0)
            (attempt,) = rig.hooks.redeliver("a:1")
            assert (attempt.endpoint, attempt.delivered, attempt.message) == ("ops", True, "HTTP 200")
            (attempt,) = rig.hooks.redeliver("a:1", "other")
            assert attempt.endpoint == "other"
            first, again = got.at("/")
            assert first.raw == again.raw
            assert first.headers["webhook-id"] == again.headers["webhook-id"]
            assert "webhook-redelivery" not in first.headers
            assert again.headers["webhook-redelivery"] == "true"
            assert Webhook(SECRET).verify(again.raw, again.headers)
            assert got.ids("/other") == ["a:1"]


@pytest.mark.parametrize(
    ("event_id", "only", "told"),
    [
        ("a", None, "is no event id"),
        ("a:0", None, "is no event id"),
        ("a:9", None, "there is no event a:9"),
        ("a:1", "nobody", "there is no webhook 'nobody'; configured are: ops"),
    ],
)
def test_redelivery_that_can_not_be_done_says_why(
    tmp_path: Path, wait_until: Any, event_id: str, only: str | None, told: str
) -> None:
    """One sentence."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url)) as rig:
        rig.send("a")
        wait_until(lambda: rig.pending() == 0)
        with pytest.raises(CommandError) as raised:
            rig.hooks.redeliver(event_id, only)
    assert told in str(raised.value)


def test_a_test_event_has_no_number(tmp_path: Path) -> None:
    """`eventId` is `{id}:test-{uuid}`, no `seq`; a failure is told and not retried."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, secrets=(SECRET,))) as rig:
        target = make_target(id="a", notify=("ops",))
        (attempt,) = rig.hooks.test(target)
        assert attempt.delivered
        got.default = always(500)
        (attempt,) = rig.hooks.test(target, "ops")
        assert (attempt.delivered, attempt.message) == (False, "HTTP 500")
        assert rig.hooks.stats().events["accepted"] == 0
        with pytest.raises(CommandError, match="notifies no webhook"):
            rig.hooks.test(make_target(id="a"))
    body = got.got[0].body
    assert body["eventId"].startswith("a:test-")
    assert "seq" not in body
    assert body["success"] is True
    assert Webhook(SECRET).verify(got.got[0].raw, got.got[0].headers)["type"] == "target.test"


def test_skip_gives_up_a_waiting_event(tmp_path: Path, wait_until: Any) -> None:
    """The head or one behind it: a dead letter, and the rest goes on."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = always(500)
        for _ in range(4):
            rig.send("a")
        wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
        wait_until(lambda: rig.cursor("a", "ops")["attempts"] == 1)
        got.default = always(200)
        assert rig.hooks.skip("a:3") == ("ops",)
        assert rig.hooks.skip("a:1", "ops") == ("ops",)
        rig.advance(10)
        wait_until(lambda: rig.pending() == 0)
        wait_until(lambda: [row["seq"] for row in rig.dead_letters()] == [1, 3])
        assert got.ids() == ["a:1", "a:2", "a:4"]
        with pytest.raises(CommandError, match="does not wait"):
            rig.hooks.skip("a:2")


def test_what_is_behind_a_skipped_event_does_not_wait_for_its_time(tmp_path: Path, wait_until: Any) -> None:
    """The head waits an hour for its next attempt; skipped, it takes nobody's time with it."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, retries_s=(0, 3600)), clock=FakeClock()) as rig:
        got.default = always(500)
        rig.send("a")
        rig.send("a")
        wait_until(lambda: rig.cursor("a", "ops") and rig.cursor("a", "ops")["attempts"] == 1)
        got.default = always(200)
        rig.hooks.skip("a:1")
        wait_until(lambda: rig.pending() == 0)
        assert got.ids() == ["a:1", "a:2"]


def test_stats_and_health_tell_what_waits(tmp_path: Path, wait_until: Any) -> None:
    """Pending, age, state; JSON for the page without URLs."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = always(429, ("Retry-After", "600"))
        rig.send("a")
        rig.send("a")
        wait_until(lambda: rig.hooks.stats().endpoints[0].state == "open")
        rig.advance(60)
        (found,) = rig.hooks.stats().endpoints
        assert (found.name, found.pending) == ("ops", 2)
        assert found.oldest_pending_s == pytest.approx(60)
        assert sum(found.durations.counts) == 1
