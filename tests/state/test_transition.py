"""supervisor.state: the table of design 8, row by row, and every rule below it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from supervisor.model import CheckResult, TargetState
from supervisor.state import Policy, Transition, close, initial, transition
from tests.make import make_failure, make_result

STEP = 1000


class Machine:
    """Feeds results one second apart and remembers what came of them."""

    def __init__(self, **policy: object) -> None:
        self.policy = Policy(**policy)  # type: ignore[arg-type]
        self.state = initial()
        self.now = 0
        self.last = Transition(self.state)

    def feed(self, word: str, **policy: object) -> list[str]:
        """`u` matches, `g` matches with a warning, `f` fails. Returns the events, but target.result."""
        for letter in word:
            self.now += STEP
            using = replace(self.policy, **policy)  # type: ignore[arg-type]
            self.last = transition(self.state, result(letter, self.now), using)
            self.state = self.last.state
            opened = self.last.incident
            if opened is not None and opened.id == self.policy.next_incident_id:
                self.policy = replace(self.policy, next_incident_id=opened.id + 1)
        return [event.type for event in self.last.events if event.type != "target.result"]


def result(letter: str, at: int) -> CheckResult:
    if letter == "f":
        return make_result(False, timestamp_ms=at, failure=make_failure(message=f"failed at {at}"))
    warning = make_failure(path="warn.maxDurationMs", phase="duration") if letter == "g" else None
    return make_result(timestamp_ms=at, warning=warning)


@pytest.mark.parametrize(
    ("before", "word", "state", "events"),
    [
        ("", "u", "up", []),
        ("", "g", "degraded", ["target.degraded"]),
        ("", "f", "failing", []),
        ("u", "u", "up", []),
        ("u", "g", "degraded", ["target.degraded"]),
        ("g", "g", "degraded", []),
        ("g", "u", "up", ["target.recovered"]),
        ("u", "f", "failing", []),
        ("uf", "f", "failing", []),
        ("uf", "u", "up", []),
        ("uf", "g", "degraded", ["target.degraded"]),
        ("gf", "g", "degraded", []),
        ("gf", "u", "up", ["target.recovered"]),
        ("uff", "f", "down", ["target.down"]),
        ("ff", "f", "down", ["target.down"]),
        ("fff", "f", "down", []),
        ("fff", "u", "recovering", []),
        ("fff", "g", "recovering", []),
        ("fffu", "u", "up", ["target.up"]),
        ("fffu", "g", "degraded", ["target.up"]),
        ("fffg", "u", "up", ["target.up"]),
        ("fffug", "u", "up", ["target.recovered"]),
        ("fffu", "f", "down", []),
        ("fffuf", "u", "recovering", []),
        ("fffufu", "u", "up", ["target.up"]),
    ],
)
def test_the_table(before: str, word: str, state: str, events: list[str]) -> None:
    """Each row of the table, with failureThreshold 3 and successThreshold 2."""
    machine = Machine()
    machine.feed(before)
    assert machine.feed(word) == events
    assert machine.state.state == state


@pytest.mark.parametrize("before", ["", "u", "g"])
def test_failure_threshold_one_is_down_at_once(before: str) -> None:
    """With failureThreshold 1 no `failing` comes between."""
    machine = Machine(failure_threshold=1)
    machine.feed(before)
    assert machine.feed("f") == ["target.down"]
    assert machine.state.state == "down"


def test_success_threshold_one_is_up_at_once() -> None:
    """With successThreshold 1 no `recovering` comes between."""
    machine = Machine(success_threshold=1)
    machine.feed("fff")
    assert machine.feed("u") == ["target.up"]
    assert machine.state.state == "up"


def test_an_incident_lasts_from_first_failure_to_first_match() -> None:
    """started_at is the first failure of its run, resolved_at the first match of the closing run."""
    machine = Machine()
    machine.feed("ufff")
    assert machine.last.incident is not None
    assert (machine.last.incident.started_ms, machine.state.since_ms) == (2000, 2000)
    machine.feed("fuf")  # recovering breaks off: the same incident goes on
    machine.feed("uu")
    closed = machine.last.incident
    assert closed is not None
    assert (closed.id, closed.started_ms, closed.resolved_ms, closed.resolution) == (1, 2000, 8000, "recovered")
    assert closed.failures == 5
    assert closed.first_failure.message == "failed at 2000"
    assert closed.last_failure.message == "failed at 7000"
    up = machine.last.events[1]
    assert (up.down_since_ms, up.down_for_ms, up.previous_state) == (2000, 6000, "recovering")
    assert machine.state.incident is None


def test_the_count_starts_anew_after_a_break_of_recovery() -> None:
    """recovering -> down restarts the count of failures, and then that of matches."""
    machine = Machine(success_threshold=3)
    machine.feed("ffffff")
    assert machine.state.consecutive == 6
    machine.feed("uuf")
    assert (machine.state.state, machine.state.consecutive) == ("down", 1)
    machine.feed("uu")
    assert (machine.state.state, machine.state.consecutive) == ("recovering", 2)


def test_the_event_carries_the_first_failure_and_the_count() -> None:
    """target.down says since when, how often, and from which state."""
    machine = Machine()
    machine.feed("ufff")
    down = machine.last.events[1]
    assert (down.since_ms, down.consecutive_failures, down.previous_state) == (2000, 3, "failing")
    assert down.result is not None
    assert down.result.timestamp_ms == 4000


# --- suppression -----------------------------------------------------------------------------------------------------


def test_a_suppressed_down_is_told_at_the_first_result_without_suppression() -> None:
    """notified stays 0 during suppression; then target.down comes with the original `since`."""
    machine = Machine()
    assert machine.feed("ufff", suppressed=True) == []
    assert machine.state.incident is not None
    assert not machine.state.incident.notified
    assert machine.feed("f", suppressed=True) == []
    assert machine.feed("f") == ["target.down"]
    assert machine.last.events[1].since_ms == 2000
    assert machine.feed("f") == []
    assert machine.feed("uu") == ["target.up"]


def test_a_suppressed_down_that_ends_is_never_told() -> None:
    """Neither down nor up, though the incident is kept."""
    machine = Machine()
    machine.feed("ufff", suppressed=True)
    assert machine.feed("uu") == []
    assert machine.last.incident is not None
    assert machine.last.incident.resolution == "recovered"


def test_recovering_tells_nothing_but_falling_back_does() -> None:
    """A match does not leave it down; the failure after it does."""
    machine = Machine()
    machine.feed("fff", suppressed=True)
    assert machine.feed("u") == []
    assert machine.feed("f") == ["target.down"]


def test_up_is_sent_in_maintenance_when_down_was_told() -> None:
    """Whoever was told of the end of the world is told that it goes on."""
    machine = Machine()
    machine.feed("fff")
    assert machine.feed("uu", suppressed=True) == ["target.up"]


def test_after_an_untold_down_degraded_compares_with_what_was_told() -> None:
    """up, down (untold), degraded: the receiver knows `up` and is told `degraded`."""
    machine = Machine()
    machine.feed("u")
    machine.feed("fff", suppressed=True)
    assert machine.feed("gg") == ["target.degraded"]
    assert machine.feed("u") == ["target.recovered"]


def test_degraded_waits_for_the_end_of_suppression() -> None:
    """In maintenance nobody is told of a warning; if it is still there afterwards, then."""
    machine = Machine()
    assert machine.feed("ug", suppressed=True) == []
    assert machine.state.state == "degraded"
    assert machine.feed("g") == ["target.degraded"]


# --- reminders -------------------------------------------------------------------------------------------------------


def test_reminders_come_every_interval_while_down_and_told() -> None:
    """Counted from the last word; none before the interval, none while recovering, none when nobody was told."""
    machine = Machine(reminder_interval_ms=3 * STEP)
    machine.feed("fff")
    assert [machine.feed("f") for _ in range(6)] == [[], [], ["target.reminder"], [], [], ["target.reminder"]]
    assert machine.last.events[1].reminder == 2
    assert machine.state.reminders_sent == 2
    assert machine.feed("u") == []
    machine = Machine(reminder_interval_ms=3 * STEP)
    assert [machine.feed("f", suppressed=True) for _ in range(10)] == [[]] * 10


def test_s01_reminders_go_on_after_the_clock_was_set_back() -> None:
    """By an hour or by years: they don't wait until it is as late again."""
    machine = Machine(reminder_interval_ms=3 * STEP)
    machine.now = 3600 * STEP
    machine.feed("fff")
    machine.now = 0
    assert [machine.feed("f") for _ in range(7)] == [[], [], [], ["target.reminder"], [], [], ["target.reminder"]]
    assert machine.last.events[1].down_for_ms == 0


def test_a_reminder_is_held_back_by_suppression() -> None:
    """Maintenance is quiet; the reminder comes with the first result after it."""
    machine = Machine(reminder_interval_ms=2 * STEP)
    machine.feed("fff")
    assert [machine.feed("f", suppressed=True) for _ in range(4)] == [[]] * 4
    assert machine.feed("f") == ["target.reminder"]


# --- paused, removed, changed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["paused", "removed"])
def test_closing_ends_the_incident_and_says_so(reason: str) -> None:
    """A told incident ends with target.closed; the target starts at pending."""
    machine = Machine()
    machine.feed("ufff")
    closed = close(machine.state, reason, 9000)  # type: ignore[arg-type]
    assert closed.incident is not None
    assert (closed.incident.resolved_ms, closed.incident.resolution) == (9000, reason)
    assert [(event.type, event.reason) for event in closed.events] == [("target.closed", reason)]
    assert (closed.state.state, closed.state.incident, closed.state.settled) == ("pending", None, None)
    machine.state = closed.state
    assert machine.feed("u") == []


def test_closing_an_untold_incident_is_quiet() -> None:
    """Nobody heard of it."""
    machine = Machine()
    machine.feed("fff", suppressed=True)
    closed = close(machine.state, "paused", 9000)
    assert closed.events == ()
    assert closed.incident is not None
    assert closed.incident.resolution == "paused"


@pytest.mark.parametrize("word", ["", "u", "uf", "g"])
def test_closing_without_an_incident_only_starts_again(word: str) -> None:
    """No event, no incident."""
    machine = Machine()
    machine.feed(word)
    assert close(machine.state, "paused", 1).events == ()
    assert close(machine.state, "paused", 1).state.state == "pending"


def test_a_target_told_degraded_recovers_after_a_pause() -> None:
    """The receiver waits for `recovered`: a pause in between does not swallow it, and degraded is not told twice."""
    machine = Machine()
    machine.feed("g")
    machine.state = close(machine.state, "paused", 5000).state
    assert machine.feed("g") == []
    assert machine.feed("u") == ["target.recovered"]


def test_new_thresholds_apply_from_the_next_result() -> None:
    """A reload that lowers failureThreshold below the count goes down with the next failure."""
    machine = Machine(failure_threshold=5)
    machine.feed("fff")
    assert machine.feed("f", failure_threshold=2) == ["target.down"]
    assert machine.state.incident is not None
    assert machine.state.incident.started_ms == 1000


def test_a_clock_set_back_breaks_nothing() -> None:
    """Durations are never negative (S01, W11)."""
    machine = Machine()
    machine.now = 100_000
    machine.feed("fff")
    machine.now = 10_000
    assert machine.feed("uu") == ["target.up"]
    assert machine.last.events[1].down_for_ms == 0


def test_the_result_event_comes_first_and_always() -> None:
    """target.result is drafted for every result; the filter drops it where nobody wants it."""
    machine = Machine()
    for letter in "ufffuug":
        machine.feed(letter)
        assert machine.last.events[0].type == "target.result"
        assert machine.last.events[0].result is not None


def test_last_result_is_remembered() -> None:
    """What dependents are compared with."""
    assert transition(TargetState(), result("u", 77), Policy()).state.last_result_ms == 77
