"""Checkers for bench/pool.py: the real one for commands, and one that does nothing, to see the pool alone."""

from __future__ import annotations

from supervisor.checkers.base import CheckContext, Outcome
from supervisor.checkers.command import CommandChecker
from supervisor.model import ResolvedTarget


class NoopChecker:
    """Answers at once."""

    type = "noop"

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        context.enter("request", "http.connect")
        return Outcome(context.deadline.elapsed_ms(), "HTTP 200")


CHECKERS = {"command": CommandChecker(), "noop": NoopChecker()}
