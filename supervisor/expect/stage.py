"""What the stages of all types of checks share: the trace, the time limit, lists of what is expected. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from supervisor.expect.describe import number
from supervisor.model import CheckFailure

if TYPE_CHECKING:
    from supervisor.context import CheckContext

Step = CheckFailure | None
Shown = Callable[[], tuple[str, str]]  # what was seen, what was expected


class Trace:
    """Tells `checkvisor check` each stage with its outcome; costs next to nothing when nobody asked."""

    __slots__ = ("_context", "_left")

    def __init__(self, context: CheckContext, places: Callable[[], list[str]]) -> None:
        self._context = context
        self._left = places() if context.steps is not None else []

    def note(self, path: str, failure: Step, shown: Shown) -> None:
        """One stage has been judged."""
        if self._context.steps is None:
            return
        if path in self._left:
            self._left.remove(path)
        if failure is None:
            self._context.note(path, *shown())
        else:
            self._context.note(path, failure.actual or failure.message, failure.expected, "failed")

    def note_skipped(self) -> None:
        """A stage has failed: those behind it are not judged."""
        for path in self._left:
            self._context.note(path, outcome="skipped")


def first_failure(stages: Iterable[Step], trace: Trace) -> Step:
    """Run the stages until one fails."""
    for failure in stages:
        if failure is not None:
            trace.note_skipped()
            return failure
    return None


def judge_duration(context: CheckContext, trace: Trace, root: str, limit_ms: int, took_ms: float, form: str) -> Step:
    """The failure of what took too long; `form` is the sentence with {} for the time."""
    path = f"{root}.maxDurationMs"
    context.enter("duration", path)
    failure = None
    if not took_ms <= limit_ms:
        digits = 0 if took_ms - limit_ms >= 1 else 3
        message = f"{form.format(f'{took_ms:,.{digits}f} ms')}, expected at most {limit_ms:,} ms"
        failure = CheckFailure("mismatch", "duration", path, message, f"<= {limit_ms} ms", f"{took_ms:.{digits}f} ms")
    trace.note(path, failure, lambda: (f"{took_ms:.1f} ms", f"<= {limit_ms} ms"))
    return failure


def any_of(items: Iterable[str]) -> str:
    """`200, 204 or 3xx`."""
    *others, last = items
    return f"{', '.join(others)} or {last}" if others else last


def days(value: float) -> str:
    """What is expected of a certificate."""
    return f">= {number(value)} days left"
