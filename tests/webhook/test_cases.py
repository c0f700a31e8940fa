"""The cases of public bug reports, each against a receiver on a real socket. Names begin with the case's number."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from supervisor.deadline import Deadline
from supervisor.model import Item, TargetState
from supervisor.net.resolve import Address, resolve
from supervisor.state import Policy, initial, transition
from supervisor.store.outbox import Cursor, DeliveryOutcome
from tests.make import make_result
from tests.webhook.rig import SECRET, FakeClock, Got, Reply, Rig, always, endpoint, receiver

DEAD = "http://127.0.0.1:9/"  # discard: nobody listens


def refused_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_1_a_pending_event_is_handed_out_once_although_new_ones_come_while_it_starts(
    tmp_path: Path, wait_until: Any
) -> None:
    """Leftovers of the last run go first and nothing is sent twice, whatever is queued meanwhile."""
    with receiver() as got:
        rig = Rig(tmp_path, endpoint("ops", got.url))
        rig.writer.start()
        for _ in range(6):
            rig.send("a")
        rig.stop()
        assert not got.got
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            for _ in range(4):
                rig.send("a", "target.up")
            wait_until(lambda: rig.pending() == 0)
        assert got.ids() == [f"a:{seq}" for seq in range(1, 11)]


def test_3_a_permanent_answer_is_tried_exactly_three_times(tmp_path: Path, wait_until: Any) -> None:
    """Three attempts, each stored before the next is planned, then a dead letter."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = always(403)
        rig.send("a")
        for attempt, wait_s in ((1, 0.0), (2, 30 * 1.2), (3, 300 * 1.2)):
            rig.advance(wait_s)
            wait_until(lambda n=attempt: len(got.got) == n)
            if attempt < 3:
                wait_until(lambda n=attempt: rig.cursor("a", "ops")["attempts"] == n)
        wait_until(lambda: rig.pending() == 0)
        rig.advance(86400)
        (letter,) = rig.dead_letters()
        assert letter["outcome"] == "failed"
        assert letter["error"].startswith("webhook event a:1 (target.down) was not delivered: HTTP 403")
        assert letter["url"] == got.url.rstrip("/")
        assert rig.cursor("a", "ops")["acked_seq"] == 1
        assert rig.outcomes("ops") == {"retry": 2, "failed": 1}
        assert len(got.got) == 3


def test_3_the_attempts_of_the_last_run_count(tmp_path: Path, wait_until: Any) -> None:
    """A restart grants no new budget (W12)."""
    with receiver() as got:
        got.default = always(403)
        clock = FakeClock()
        for run in (1, 2, 3):
            with Rig(tmp_path, endpoint("ops", got.url), clock=clock) as rig:
                if run == 1:
                    rig.send("a")
                clock.advance(400)
                wait_until(lambda n=run: len(got.got) == n)
        wait_until(lambda: len(rig.dead_letters()) == 1)


def test_4_an_attempt_that_was_due_in_the_past_is_made_at_once(tmp_path: Path, wait_until: Any) -> None:
    """A due time an hour ago is due now, whoever wrote it."""
    with receiver() as got:
        clock = FakeClock()
        rig = Rig(tmp_path, endpoint("ops", got.url), clock=clock)
        rig.writer.start()
        rig.send("a")
        past = Cursor("a", "ops", 0, 1, clock.now_ms() - 3_600_000, "HTTP 500")
        rig.writer.put_outcome(DeliveryOutcome(past), lambda: None)
        rig.stop()
        with Rig(tmp_path, endpoint("ops", got.url), clock=clock) as rig:
            wait_until(lambda: rig.pending() == 0)
        assert got.ids() == ["a:1"]


def test_4_a_retry_is_picked_up_when_its_time_comes(tmp_path: Path, wait_until: Any) -> None:
    """Attempt 2 follows attempt 1 after its step and not before."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = lambda _got: Reply(500 if len(got.got) == 1 else 200)
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops") == {"retry": 1})
        rig.advance(3.9)
        time_of_check = time.monotonic() + 1.2
        wait_until(lambda: time.monotonic() > time_of_check)
        assert len(got.got) == 1
        rig.advance(1.2)
        wait_until(lambda: rig.pending() == 0)
        assert got.ids() == ["a:1", "a:1"]
        assert got.got[0].raw == got.got[1].raw


@pytest.mark.parametrize(
    "settings",
    [
        {"secrets": ("whsec_short",)},
        {"headers": (("X-Name", "中文"),)},
        {"headers": (("X A", "a\r\nX-Inj: 1"),)},
        {"url": "http://127.0.0.1:0/"},
        {"url": "http://[::1"},
        {"url": "ftp://127.0.0.1/"},
    ],
    ids=["secret", "chinese header", "header injection", "port 0", "broken host", "ftp"],
)
def test_6_whatever_goes_wrong_before_the_post_ends_in_an_outcome(
    tmp_path: Path, wait_until: Any, settings: dict[str, Any]
) -> None:
    """Settings the loader would have refused leave no event without an outcome."""
    with receiver() as got:
        one = endpoint("ops", **{"url": got.url, **settings})
        with Rig(tmp_path, one, clock=FakeClock()) as rig:
            rig.send("a")
            for tries in (1, 2):
                wait_until(lambda n=tries: rig.outcomes("ops").get("retry") == n)
                rig.advance(400)
            wait_until(lambda: len(rig.dead_letters()) == 1)
            assert rig.dead_letters()[0]["outcome"] == "failed"
        assert not got.got


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_6_an_error_of_the_program_costs_one_attempt_and_no_thread(tmp_path: Path, wait_until: Any) -> None:
    """An exception nobody expected spends an attempt, is stored, and the next events are delivered."""
    faults = iter([RuntimeError("a bug")])

    def look_up(host: str, port: int, version: str, deadline: Deadline) -> tuple[Address, ...]:
        for fault in faults:
            raise fault
        return resolve(host, port, version, deadline)

    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), look_up=look_up, clock=FakeClock()) as rig:
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
        rig.send("b")
        wait_until(lambda: got.ids() == ["b:1"])
        rig.advance(40)
        wait_until(lambda: rig.pending() == 0)
        assert got.ids() == ["b:1", "a:1"]


class Machine:
    """The loop in small: results through the state machine, events and items to hooks and writer."""

    def __init__(self, rig: Rig, key: str) -> None:
        self.rig = rig
        self.key = key
        self.state: TargetState = rig.loaded.states.get(key, initial())
        self.incidents = rig.loaded.max_incident_id

    def result(self, matched: bool) -> tuple[str, ...]:
        assert self.rig.hooks is not None
        target = self.rig.target(self.key)
        found = make_result(matched, target_id=self.key, timestamp_ms=self.rig.clock.now_ms())
        policy = Policy(1, 1, False, self.incidents + 1, None)
        step = transition(self.state, found, policy)
        self.state = step.state
        if step.incident is not None:
            self.incidents = max(self.incidents, step.incident.id)
        events = self.rig.hooks.accept(target, step.events)
        self.rig.writer.put(Item(found, step.state, self.key, step.incident, events))
        return tuple(event.type for event in events)


def test_7_a_restart_does_not_tell_of_a_failure_again(tmp_path: Path, wait_until: Any) -> None:
    """Down was sent; after a restart the target still fails: no second down."""
    with receiver() as got:
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            assert Machine(rig, "a").result(False) == ("target.down",)
            wait_until(lambda: rig.pending() == 0)
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            assert Machine(rig, "a").result(False) == ()
        assert got.ids() == ["a:1"]


def test_8_a_recovery_after_a_restart_is_told(tmp_path: Path, wait_until: Any) -> None:
    """Down was sent; the target recovers while we are away: up is sent at the next match."""
    with receiver() as got:
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            Machine(rig, "a").result(False)
            wait_until(lambda: rig.pending() == 0)
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            assert Machine(rig, "a").result(True) == ("target.up",)
            wait_until(lambda: rig.pending() == 0)
        assert [item.body["type"] for item in got.got] == ["target.down", "target.up"]


@pytest.mark.parametrize("poison", ["answers 400", "is corrupt"])
def test_9_a_poisoned_head_does_not_hold_up_the_rest(tmp_path: Path, wait_until: Any, poison: str) -> None:
    """The head becomes a dead letter after its budget; the 99 behind it arrive in order."""
    with receiver() as got:
        clock = FakeClock()
        rig = Rig(tmp_path, endpoint("ops", got.url), clock=clock)
        rig.writer.start()
        for _ in range(100):
            rig.send("a")
        rig.stop()
        if poison == "is corrupt":
            corrupt(rig, "a", 1)
        got.default = lambda seen: Reply(400 if seen.body["seq"] == 1 else 200)
        with Rig(tmp_path, endpoint("ops", got.url), clock=clock) as rig:
            if poison == "answers 400":
                for tries in (1, 2):
                    wait_until(lambda n=tries: rig.outcomes("ops").get("retry") == n)
                    rig.advance(400)
            wait_until(lambda: rig.pending() == 0, seconds=20)
            (letter,) = rig.dead_letters()
            assert letter["outcome"] == ("failed" if poison == "answers 400" else "unreadable")
        delivered = [seq for seq in (item.body["seq"] for item in got.got) if seq != 1]
        assert delivered == list(range(2, 101))


def corrupt(rig: Rig, stream: str, seq: int, body: bytes = b'{"type": "target.do') -> None:
    import sqlite3

    with sqlite3.connect(rig.writer.path) as connection:
        connection.execute("UPDATE webhook_events SET body = ? WHERE stream = ? AND seq = ?", (body, stream, seq))
    connection.close()


def test_10_a_slow_receiver_does_not_delay_another(tmp_path: Path, wait_until: Any) -> None:
    """A and C answer after 9 s, B at once: B has its 50 events in about a second."""
    with receiver() as slow, receiver() as fast:
        slow.default = lambda _got: Reply(after_s=9)
        names = endpoint("a", slow.url), endpoint("c", slow.url + "c"), endpoint("b", fast.url)
        with Rig(tmp_path, *names) as rig:
            keys = [f"t{number}" for number in range(50)]
            rig.declare(*keys)
            for key in keys:
                rig.send(key)
            started = time.monotonic()
            wait_until(lambda: len(fast.got) == 50, seconds=6)
            assert time.monotonic() - started < 6
            assert slow.most_open <= 8
            rig.stop(0)


def test_29_up_waits_behind_a_down_that_failed_once(tmp_path: Path, wait_until: Any) -> None:
    """Down fails at its first attempt while up is queued: the receiver sees down, then up."""

    def answer(_seen: Got) -> Reply:
        return Reply(500 if len(got.got) == 1 else 200)

    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = answer
        rig.send("a")
        rig.send("a", "target.up")
        wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
        rig.advance(7)
        wait_until(lambda: rig.pending() == 0)
    assert [item.body["type"] for item in got.got] == ["target.down", "target.down", "target.up"]


def test_30_events_of_a_removed_endpoint_are_orphaned_once(tmp_path: Path, wait_until: Any) -> None:
    """The endpoint is gone from the file: dead letters `orphaned` at the start, and nothing more at the next."""
    rig = Rig(tmp_path, endpoint("old", DEAD), endpoint("ops", DEAD))
    rig.writer.start()
    for _ in range(3):
        rig.send("a")
    rig.stop()
    with receiver() as got:
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            wait_until(lambda: len(rig.dead_letters()) == 3)
            assert {letter["outcome"] for letter in rig.dead_letters()} == {"orphaned"}
            assert rig.outcomes("old") == {"orphaned": 3}
            wait_until(lambda: rig.pending() == 0)
        with Rig(tmp_path, endpoint("ops", got.url)) as rig:
            assert rig.outcomes("old") == {}
            assert len(rig.dead_letters()) == 3
        assert got.ids() == ["a:1", "a:2", "a:3"]


def test_30_a_reload_orphans_too(tmp_path: Path, wait_until: Any) -> None:
    """An endpoint that a reload removes: its waiting events become dead letters, also the one under way."""
    with receiver() as got:
        got.default = lambda _seen: Reply(500, after_s=0.5)
        with Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
            for _ in range(3):
                rig.send("a")
            wait_until(lambda: len(got.got) == 1)
            rig.hooks.reload(())
            wait_until(lambda: len(rig.dead_letters()) == 3)
            assert {letter["outcome"] for letter in rig.dead_letters()} == {"orphaned"}
        assert len(got.got) == 1


def test_32_a_changed_url_and_secret_apply_to_the_next_attempt(tmp_path: Path, wait_until: Any) -> None:
    """While a retry waits, URL and secret change: the next attempt uses them, with the same bytes."""
    other = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU="
    with (
        receiver() as old,
        receiver() as new,
        Rig(tmp_path, endpoint("ops", old.url, secrets=(SECRET,)), clock=FakeClock()) as rig,
    ):
        old.default = always(500)
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
        wait_until(lambda: rig.cursor("a", "ops")["attempts"] == 1)
        rig.hooks.reload((endpoint("ops", new.url, secrets=(other,)),))
        rig.advance(7)
        wait_until(lambda: len(new.got) == 1)
    assert new.got[0].raw == old.got[0].raw
    assert new.got[0].headers["webhook-id"] == old.got[0].headers["webhook-id"]
    assert Webhook(other).verify(new.got[0].raw, new.got[0].headers)["seq"] == 1
