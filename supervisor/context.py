"""What a worker lends to a checker and to `judge` for one run: the deadline, the current place, the trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from supervisor.deadline import Deadline
from supervisor.processes import Seen


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One line of `checkvisor check`: what was done when, what was seen and what was expected."""

    at_ms: float
    step: str
    seen: str = ""
    expected: str | None = None
    outcome: str = "ok"  # ok | failed | skipped | info


class Ending(Protocol):
    """What a check has to end after its verdict, such as a command that ignores SIGTERM. It keeps the slot busy."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to end; quick."""
        ...

    def finish(self) -> tuple[Seen, ...]:
        """End it, in a few seconds at most; what could not be ended (stuck in the kernel, not ours to kill) is told."""
        ...


class CheckContext:
    """What the worker lends to a checker for one run: deadline, current place, trace, process report.

    `keep` says whether this process will probably check the target again soon: what a checker makes ready for it is
    worth its memory then."""

    __slots__ = ("_mark", "deadline", "endings", "keep", "path", "phase", "report_process", "steps")

    def __init__(
        self,
        deadline: Deadline,
        *,
        mark: Callable[[str, str], None] | None = None,
        report_process: Callable[[int], None] | None = None,
        trace: bool = False,
        keep: bool = True,
    ) -> None:
        self.deadline = deadline
        self.phase = "internal"
        self.path = "worker"
        self.steps: list[TraceStep] | None = [] if trace else None
        self.endings: list[Ending] = []
        self.keep = keep
        self._mark = mark
        self.report_process = report_process or (lambda _pgid: None)

    def enter(self, phase: str, path: str) -> None:
        """Say which stage runs now. A check that ends at its deadline, by exception or by kill, fails at this place."""
        self.phase = phase
        self.path = path
        if self._mark is not None:
            self._mark(phase, path)

    def defer(self, ending: Ending) -> None:
        """Have this ended after the verdict, however the check ends."""
        self.endings.append(ending)

    def note(self, step: str, seen: str = "", expected: str | None = None, outcome: str = "ok") -> None:
        """Add a step to the trace, when there is one."""
        if self.steps is not None:
            self.steps.append(TraceStep(self.deadline.elapsed_ms(), step, seen, expected, outcome))
