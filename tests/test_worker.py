"""One check becomes a result: masked, cleaned, cut, at its deadline, whatever the checker does."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from supervisor.checkers.base import CheckContext, Outcome
from supervisor.deadline import Deadline, DeadlineExpired, HeldBack, alarm, postpone
from supervisor.model import Certificate, CheckFailure, CheckResult, Metric, ResolvedTarget, Secret
from supervisor.processes import Seen
from supervisor.worker import MESSAGE_LIMIT, VALUE_LIMIT, run_check
from tests.make import make_failure, make_target

SECRET = Secret("TOKEN", "s3cr3t-value")


class _Checker:
    type = "fake"

    def __init__(self, work: Callable[[CheckContext], Outcome]) -> None:
        self._work = work

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        return self._work(context)


def checked(work: Callable[[CheckContext], Outcome], timeout_s: float = 2.0, **options: Any) -> CheckResult:
    target = make_target(type="fake", settings=None, expect=None, timeout_s=timeout_s, secrets=(SECRET,))
    result, _ = run_check(target, checkers={"fake": _Checker(work)}, **options)
    return result


def test_every_text_is_masked_cleaned_and_cut() -> None:
    """No secret, no control character and no novel leaves the worker."""
    text = f"\x1b[31m{SECRET.value}\x00\ud800" + "x" * 5000
    failure = CheckFailure("mismatch", "body", f"expect.body[0].json({text})", text, text, text)
    metric = Metric(text, float("1"), text, text, text)
    certificate = Certificate(1, 2, text, text)
    result = checked(lambda _: Outcome(1.0, text, failure=failure, metrics=(metric,), certificate=certificate))
    assert result.failure is not None
    assert result.certificate is not None
    shown = [
        result.status_detail, result.failure.path, result.failure.message, result.failure.expected,
        result.failure.actual, result.metrics[0].label, result.metrics[0].unit, result.certificate.subject,
    ]  # fmt: skip
    for value in shown:
        assert value is not None
        assert "${TOKEN}" in value
        assert SECRET.value not in value
        assert value.isprintable()
        assert len(value) <= MESSAGE_LIMIT
    assert len(result.failure.actual or "") <= VALUE_LIMIT


def test_the_deadline_is_an_error_at_the_present_stage() -> None:
    """Wherever the checker stands."""

    def slow(context: CheckContext) -> Outcome:
        context.enter("request", "http.headers")
        time.sleep(30)
        return Outcome(0.0)

    begun = time.monotonic()
    result = checked(slow, 0.2)
    assert time.monotonic() - begun < 1.5
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase, result.failure.path) == ("error", "request", "http.headers")
    assert "0.2 s" in result.failure.message
    assert result.duration_ms >= 200
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_a_swallowed_deadline_comes_again() -> None:
    """A library that catches it once does not get away."""

    def swallowing(_: CheckContext) -> Outcome:
        try:
            time.sleep(30)
        except BaseException:
            time.sleep(30)
        return Outcome(0.0)

    assert checked(swallowing, 0.1).failure is not None


@pytest.mark.parametrize("error", [ValueError("bad"), MemoryError(), RecursionError(), KeyError("x")])
def test_a_crash_is_an_internal_error_and_logged(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    """With a traceback in the log, and the class in the message."""

    def crash(context: CheckContext) -> Outcome:
        context.enter("body", "expect.body[0]")
        raise error

    result = checked(crash)
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase, result.failure.path) == ("error", "internal", "worker")
    assert type(error).__name__ in result.failure.message
    assert "expect.body[0]" in result.failure.message
    assert caplog.records[0].exc_info is not None


def test_the_mark_follows_the_stages() -> None:
    """Each stage is told before it runs."""
    marks: list[tuple[str, str]] = []

    def staged(context: CheckContext) -> Outcome:
        context.enter("request", "http.dns")
        context.enter("status", "expect.status")
        return Outcome(0.0)

    assert checked(staged, mark=lambda *mark: marks.append(mark)).matched
    assert marks == [("request", "http.dns"), ("status", "expect.status")]


def test_the_trace_is_shown_safely() -> None:
    """The steps of `checkvisor check` are masked as well."""
    target = make_target(type="fake", settings=None, expect=None, secrets=(SECRET,))

    def noting(context: CheckContext) -> Outcome:
        context.note("send", f"token {SECRET.value}\n", "ok\x1b")
        return Outcome(0.0)

    _, trace = run_check(target, trace=True, checkers={"fake": _Checker(noting)})
    assert [(step.step, step.seen, step.expected) for step in trace] == [("send", "token ${TOKEN}\\n", "ok\\x1b")]


def test_no_warning_stands_beside_a_failure() -> None:
    """And nonsense durations become 0."""
    result = checked(lambda _: Outcome(float("nan"), failure=make_failure(), warning=make_failure()))
    assert result.warning is None
    assert result.duration_ms == 0


class _Ending:
    def __init__(self, done: bool) -> None:
        self.done = done
        self.finished = False

    def finish(self) -> tuple[Seen, ...]:
        self.finished = True
        return ()


def test_endings_are_left_to_the_caller_or_done_at_once() -> None:
    """With a list they are its; without, nothing is left when the result is there. Those that are done are dropped."""
    done, open_ = _Ending(True), _Ending(False)

    def ending(context: CheckContext) -> Outcome:
        context.defer(done)
        context.defer(open_)
        return Outcome(0.0)

    endings: list[Any] = []
    checked(ending, endings=endings)
    assert endings == [open_]
    assert not open_.finished
    checked(ending)
    assert open_.finished


def test_signals_can_be_held_back() -> None:
    """Neither the alarm nor an order to leave comes through meanwhile; the alarm comes again, the act is done after."""
    acts: list[str] = []

    def held() -> None:
        with alarm(Deadline(0.05)):
            with HeldBack():
                assert postpone(lambda: acts.append("left"))
                end = time.monotonic() + 0.3
                while time.monotonic() < end:
                    assert not acts
            assert acts == ["left"]
            time.sleep(5)

    with pytest.raises(DeadlineExpired):
        held()
    assert not postpone(lambda: None)
