"""supervisor.state against an independent model: a plain rereading of the whole history after every step."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from supervisor.model import Incident, TargetState
from supervisor.state import Policy, close, initial, transition
from tests.make import make_failure, make_result


class TransitionAgainstHistory(RuleBasedStateMachine):
    """Results, pauses and suppression in any order. The model keeps words, not counters: it looks back."""

    @initialize(failures=st.integers(1, 4), successes=st.integers(1, 4))
    def begin(self, failures: int, successes: int) -> None:
        """Choose the thresholds."""
        self.failures, self.successes = failures, successes
        self.state: TargetState = initial()
        self.next_id = 1
        self.now = 1000
        self.incidents: dict[int, Incident] = {}
        self.told: list[str] = []  # events of the machine
        self.word = ""  # results since the last pause
        self.expected: list[str] = []  # events of the model
        self.down = False
        self.notified = False
        self.known: str | None = None  # up, degraded or down, as a receiver would believe
        self.opened = 0

    @rule(letter=st.sampled_from("uugff"), suppressed=st.booleans())
    def result(self, letter: str, suppressed: bool) -> None:
        """One result goes through both."""
        self.now += 1000
        warning = make_failure(path="warn.maxDurationMs") if letter == "g" else None
        checked = make_result(letter != "f", timestamp_ms=self.now, warning=warning)
        after = transition(self.state, checked, Policy(self.failures, self.successes, suppressed, self.next_id))
        if after.incident is not None:
            self.incidents[after.incident.id] = after.incident
            self.next_id = max(self.next_id, after.incident.id + 1)
        self.state = after.state
        self.told += [event.type for event in after.events if event.type != "target.result"]
        self.word += letter
        self._believe(letter, suppressed)

    def _believe(self, letter: str, suppressed: bool) -> None:
        matches = len(self.word) - len(self.word.rstrip("ug"))
        fails = len(self.word) - len(self.word.rstrip("f"))
        if self.down:
            if letter == "f":
                if not self.notified and not suppressed:
                    self._say("target.down", "down")
                    self.notified = True
            elif matches >= self.successes:
                self.down = False
                name = "degraded" if letter == "g" else "up"
                if self.notified:
                    self._say("target.up", name)
                else:
                    self._settle(name, suppressed)
                self.notified = False
        elif letter == "f":
            if fails >= self.failures:
                self.down = True
                self.opened += 1
                if not suppressed:
                    self._say("target.down", "down")
                    self.notified = True
        else:
            self._settle("degraded" if letter == "g" else "up", suppressed)

    def _settle(self, name: str, suppressed: bool) -> None:
        if name == "degraded":
            if self.known != "degraded" and not suppressed:
                self._say("target.degraded", "degraded")
        elif self.known == "degraded":
            self._say("target.recovered", "up")
        else:
            self.known = "up"

    def _say(self, event: str, known: str) -> None:
        self.expected.append(event)
        self.known = known

    @rule()
    def pause(self) -> None:
        """The target is paused and comes back."""
        self.now += 1000
        after = close(self.state, "paused", self.now)
        if after.incident is not None:
            self.incidents[after.incident.id] = after.incident
        self.state = after.state
        self.told += [event.type for event in after.events]
        if self.down and self.notified:
            self.expected.append("target.closed")
        self.down = self.notified = False
        self.word = ""
        self.known = "degraded" if self.known == "degraded" else None

    @invariant()
    def both_say_the_same(self) -> None:
        """Events, incidents and the name of the state agree."""
        if not hasattr(self, "state"):
            return
        assert self.told == self.expected
        assert len(self.incidents) == self.opened
        still_open = [one for one in self.incidents.values() if one.resolved_ms is None]
        assert len(still_open) == int(self.down)
        assert self.state.incident == (still_open[0] if still_open else None)
        assert self.state.state == self._name()
        for one in self.incidents.values():
            assert one.resolved_ms is None or one.resolved_ms >= one.started_ms

    def _name(self) -> str:
        if not self.word:
            return "pending"
        last = self.word[-1]
        if self.down:
            return "down" if last == "f" else "recovering"
        return {"f": "failing", "u": "up", "g": "degraded"}[last]


TestTransitionAgainstHistory = TransitionAgainstHistory.TestCase
TestTransitionAgainstHistory.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def test_states_are_values() -> None:
    """A transition changes nothing that it was given."""
    before = initial()
    transition(before, make_result(False), Policy())
    assert before == replace(initial())
