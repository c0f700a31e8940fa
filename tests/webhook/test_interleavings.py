"""Any interleaving of send, deliver, fail, crash, degrade, recover: order holds and nothing is lost without a trace."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from supervisor.model import EventType
from tests.webhook.handwriter import HandRig
from tests.webhook.rig import FakeClock, Got, Receiver, Reply, endpoint, receiver

STREAMS = st.sampled_from(["a", "b"])
KINDS: st.SearchStrategy[EventType] = st.sampled_from(["target.down", "target.up", "target.result"])
STATUSES = st.sampled_from([200, 200, 500, 404, 429])
PATHS = ("/one", "/two")


def until(condition: Any, what: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true"
        time.sleep(0.002)  # the poll of a condition with a deadline


class Interleavings(RuleBasedStateMachine):
    """Two streams, two endpoints, one receiver whose mood changes."""

    @initialize()
    def open(self) -> None:
        self.stack = ExitStack()
        self.directory = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.got: Receiver = self.stack.enter_context(receiver())
        self.statuses = dict.fromkeys(PATHS, 200)
        self.got.default = self.answer
        self.clock = FakeClock()
        self.committed: dict[str, tuple[str, ...]] = {}
        self.arrived: list[tuple[int, str, str, bytes]] = []  # life, path, event id, bytes
        self.life = 0
        self.fault = False  # since a fault began and until all of it is on disk, a crash forgets what was in memory
        self.restarts_lossy: set[int] = set()
        self.rig = self.born()

    def answer(self, seen: Got) -> Reply:
        path, _, life = seen.path.partition("?")
        status = self.statuses[path]
        if status == 200:
            with self.got.lock:
                self.arrived.append((int(life), path, seen.body["eventId"], seen.raw))
        return Reply(status, (("Retry-After", "20"),) if status == 429 else ())

    def born(self) -> HandRig:
        wants = ("down", "up", "result"), ("down", "up")
        endpoints = [
            endpoint(
                path,
                f"{self.got.url.rstrip('/')}{path}?{self.life}",
                events=events,
                retries_s=(0, 1, 5, 30),
                max_pending=6,
            )
            for path, events in zip(PATHS, wants, strict=True)
        ]
        return HandRig(self.directory, *endpoints, clock=self.clock).start()

    def note_committed(self) -> None:
        for event in list(self.rig.writer.committed_events):
            self.committed[f"{event.stream}:{event.seq}"] = event.endpoints

    @rule(stream=STREAMS, kind=KINDS, count=st.integers(1, 4))
    def send(self, stream: str, kind: EventType, count: int) -> None:
        for _ in range(count):
            self.clock.advance(0.002)  # no two events look alike: a number that is used twice is seen
            if not self.rig.hooks.full(stream):
                self.rig.send(stream, kind)

    @rule(path=st.sampled_from(PATHS), status=STATUSES)
    def mood(self, path: str, status: int) -> None:
        self.statuses[path] = status

    @rule(seconds=st.sampled_from([1, 6, 40, 700]))
    def time_passes(self, seconds: int) -> None:
        self.rig.advance(seconds)
        self.work()

    @rule()
    def work(self) -> None:
        """Let the threads do what they can for a moment; nothing depends on how far they get."""
        self.rig.hooks._settlement.look_at_writer()
        self.rig.wake()
        time.sleep(0.03)
        rig = self.rig
        if not (rig.writer.broken or rig.degraded() or rig.pending()) and rig.writer.idle():
            self.fault = False

    @rule(stream=STREAMS, kind=KINDS)
    def break_store(self, stream: str, kind: EventType) -> None:
        self.rig.writer.set_broken(True)
        self.fault = True
        self.send(stream, kind, 1)
        self.work()

    @rule()
    def mend_store(self) -> None:
        self.rig.writer.set_broken(False)
        self.rig.writer.hold(False)

    @rule()
    def slow_store(self) -> None:
        self.rig.writer.hold(True)

    @rule(at_once=st.booleans())
    def crash(self, at_once: bool) -> None:
        if not at_once:
            self.work()
        self.rig.crash()
        self.note_committed()
        self.life += 1
        if self.fault:
            self.restarts_lossy.add(self.life)
        self.fault = False
        self.rig = self.born()

    @rule()
    def restart(self) -> None:
        self.rig.writer.set_broken(False)
        self.rig.stop()
        self.fault = False
        self.note_committed()
        self.life += 1
        self.rig = self.born()

    def teardown(self) -> None:
        if not hasattr(self, "rig"):
            return
        try:
            self.settle()
            self.check()
        finally:
            self.rig.stop()
            self.stack.close()

    def settle(self) -> None:
        """Everything works again and time passes: all that waits gets its outcome."""
        self.rig.writer.set_broken(False)
        self.rig.writer.hold(False)
        self.statuses = dict.fromkeys(PATHS, 200)
        deadline = time.monotonic() + 30
        while self.rig.pending() or not self.rig.writer.idle() or self.rig.degraded():
            assert time.monotonic() < deadline, self.rig.hooks.stats()
            self.rig.advance(50)
            time.sleep(0.01)  # as above
        self.note_committed()

    def check(self) -> None:
        letters = {
            (f"{row['stream']}:{row['seq']}", row["endpoint"])
            for row in self.rig.rows("SELECT * FROM webhook_dead_letters")
        }
        bodies: dict[str, bytes] = {}
        heard: dict[str, set[str]] = defaultdict(set)
        last: dict[tuple[str, str], tuple[int, int]] = {}
        for life, path, event_id, raw in self.arrived:
            stream, seq = event_id.split(":")
            before_life, before = last.get((path, stream), (0, 0))
            if life == before_life:
                assert int(seq) > before, f"{event_id} at {path} after {before} in one life"
            elif not any(between in self.restarts_lossy for between in range(before_life + 1, life + 1)):
                assert int(seq) >= before, f"{event_id} at {path} after {before}"
            last[path, stream] = (life, int(seq))
            assert bodies.setdefault(event_id, raw) == raw, f"{event_id} has two meanings"
            heard[path].add(event_id)
        for event_id, names in self.committed.items():
            for name in names:
                assert event_id in heard[name] or (event_id, name) in letters, f"{event_id} is lost for {name}"


_settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
TestInterleavings = pytest.mark.timeout(300)(Interleavings.TestCase)
TestInterleavings.settings = _settings


class ManyInterleavings(Interleavings):
    """The same for longer."""


TestManyInterleavings = pytest.mark.slow(pytest.mark.timeout(1800)(ManyInterleavings.TestCase))
TestManyInterleavings.settings = settings(_settings, max_examples=150, stateful_step_count=40)
