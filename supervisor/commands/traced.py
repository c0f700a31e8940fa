"""The registry of checkers for `checkvisor check`: the ordinary ones, with a trace that is told step by step.

The worker of a pool sends results only. Its trace goes to the file that the command names in a variable of the
environment: so it is whole up to the last step even if the worker has to be killed.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, replace

from supervisor import checkers
from supervisor.checkers.base import Checker, Outcome
from supervisor.commands.single import VARIABLE
from supervisor.context import CheckContext, TraceStep
from supervisor.model import ResolvedTarget
from supervisor.text import clean, cut
from supervisor.worker import VALUE_LIMIT, masker

_file = os.environ.pop(VARIABLE, None)  # a command must not inherit it


class _Steps(list[TraceStep]):
    """Writes each step, masked, as it is added."""

    def __init__(self, target: ResolvedTarget) -> None:
        super().__init__()
        self._masker = masker(target.secrets)
        self._descriptor = -1
        if _file is not None:
            with suppress(OSError):  # a check without a trace is better than none
                self._descriptor = os.open(_file, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def append(self, step: TraceStep) -> None:
        super().append(step)
        if self._descriptor >= 0:
            expected = None if step.expected is None else self._shown(step.expected)
            safe = replace(step, step=self._shown(step.step), seen=self._shown(step.seen), expected=expected)
            os.write(self._descriptor, json.dumps(asdict(safe)).encode() + b"\n")

    def _shown(self, text: str) -> str:
        return cut(clean(self._masker.mask(text)), VALUE_LIMIT)


class _Traced:
    """A checker whose context writes its trace."""

    def __init__(self, checker: Checker) -> None:
        self.type = checker.type
        self._checker = checker

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        context.steps = _Steps(target)
        return self._checker.check(target, context)


CHECKERS: dict[str, Checker] = {name: _Traced(checker) for name, checker in checkers.CHECKERS.items()}
