"""The contract of a checker: one type of target, from settings to outcome. `CHECKERS` in `__init__` lists them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from supervisor.context import CheckContext, Ending, TraceStep
from supervisor.model import Certificate, CheckFailure, Metric, ResolvedTarget, Timings

__all__ = ["CheckContext", "Checker", "Ending", "Outcome", "TraceStep"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a checker gives back: the worker makes a masked, cleaned CheckResult of it.

    No failure means matched. `duration_ms` ends at the last byte read, or at exit plus drain (design section 4).
    """

    duration_ms: float
    status_detail: str = ""
    failure: CheckFailure | None = None
    warning: CheckFailure | None = None
    timings: Timings | None = None
    metrics: tuple[Metric, ...] = ()
    certificate: Certificate | None = None


class Checker(Protocol):
    """One type of target. `check` never raises for what the outside does: failures are part of the Outcome. It may let
    DeadlineExpired pass; the worker then makes an error of it at `context.phase` and `context.path`."""

    type: str

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        """Run one check to its outcome."""
        ...
