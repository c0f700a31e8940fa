"""The stages of a command's verdict: exit code, time, outputs (design section 5). Pure."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from supervisor.expect.content import Content
from supervisor.expect.observation import CommandObservation
from supervisor.expect.rules import Place, judge_body_rule, rule_path, seen_by
from supervisor.expect.spec import CommandExpect, TextRule
from supervisor.expect.stage import Step, Trace, any_of, first_failure, judge_duration
from supervisor.model import CheckFailure

if TYPE_CHECKING:
    from supervisor.context import CheckContext

_LONGEST_WORDS = 200
_LAST_BYTES = 4096


class CommandStages:
    """One command that has ended, on its way through the stages; outputs are decoded once."""

    __slots__ = ("_outputs", "_trace", "context", "observation")

    def __init__(self, observation: CommandObservation, context: CheckContext) -> None:
        self.observation = observation
        self.context = context
        self._outputs = {
            "stdout": Content(observation.stdout, encoding="utf-8"),
            "stderr": Content(observation.stderr, encoding="utf-8"),
        }
        self._trace = Trace(context, list)

    def judge(self, expect: CommandExpect, root: str, exit_codes: tuple[int, ...] | None) -> Step:
        """The failure of the first stage that does not hold."""
        self._trace = Trace(self.context, lambda: _places(expect, root, exit_codes is not None))
        return first_failure(self._stages(expect, root, exit_codes), self._trace)

    def refuse(self, expect: CommandExpect, failure: CheckFailure) -> None:
        """The checker has judged the exit code itself, and found it wrong: tell the trace."""
        self.context.enter(failure.phase, failure.path)
        self._trace = Trace(self.context, lambda: _places(expect, "expect", False))
        self._trace.note(failure.path, failure, lambda: ("", ""))
        self._trace.note_skipped()

    def _stages(self, expect: CommandExpect, root: str, exit_codes: tuple[int, ...] | None) -> Iterator[Step]:
        if exit_codes is not None:
            yield self._exit_code(exit_codes, root)
        if expect.max_duration_ms is not None:
            took_ms = self.observation.duration_ms
            form = "the command took {}"
            yield judge_duration(self.context, self._trace, root, expect.max_duration_ms, took_ms, form)
        for name, rules in (("stdout", expect.stdout), ("stderr", expect.stderr)):
            for position, rule in enumerate(rules):
                yield self._output(rule, f"{root}.{name}[{position}]", name)

    def _exit_code(self, wanted: tuple[int, ...], root: str) -> Step:
        path = f"{root}.exitCode"
        self.context.enter("exitCode", path)
        code = self.observation.exit_code
        expected = any_of(str(item) for item in wanted)
        failure = None
        if code not in wanted:
            message, actual = self._exit_message(code, expected)
            failure = CheckFailure("mismatch", "exitCode", path, message, expected, actual)
        self._trace.note(path, failure, lambda: (str(code), expected))
        return failure

    def _exit_message(self, code: int, expected: str) -> tuple[str, str]:
        if code >= 0:
            return f"exit code {code}, expected {expected}{self._last_words()}", str(code)
        name = signal_name(-code)
        why = " (out of memory, or killed by hand?)" if -code == signal.SIGKILL else ""
        return f"killed by {name}{why}, expected exit code {expected}", f"killed by {name} ({code})"

    def _last_words(self) -> str:
        """What the command said last: most often the reason."""
        for name in ("stderr", "stdout"):
            end = self._outputs[name].content[-_LAST_BYTES:].decode("utf-8", "replace")
            line = next((line.strip() for line in reversed(end.split("\n")) if line.strip()), "")
            if line and len(line) <= _LONGEST_WORDS:
                return f"; {name}: {line}"
        return ""

    def _output(self, rule: TextRule, base: str, name: str) -> Step:
        content = self._outputs[name]
        place = Place(name, f"{base}.{rule_path(rule)}", name)
        self.context.enter(place.phase, place.path)
        failure = judge_body_rule(rule, content, place)
        self._trace.note(place.path, failure, lambda: seen_by(rule, content))
        return failure


def _places(expect: CommandExpect, root: str, with_exit_code: bool) -> list[str]:
    """The paths of all stages, in order."""
    return [
        *([f"{root}.exitCode"] if with_exit_code else []),
        *([f"{root}.maxDurationMs"] if expect.max_duration_ms is not None else []),
        *(f"{root}.stdout[{position}].{rule.key}" for position, rule in enumerate(expect.stdout)),
        *(f"{root}.stderr[{position}].{rule.key}" for position, rule in enumerate(expect.stderr)),
    ]


def signal_name(number: int) -> str:
    """`SIGKILL` of 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
