"""Checks that run a local command: start, read, wait, judge. What it leaves running is ended after the verdict."""

from __future__ import annotations

import signal
from dataclasses import dataclass

from supervisor.capture import Capture
from supervisor.checkers.base import CheckContext, Outcome
from supervisor.checkers.command.ending import CommandEnding
from supervisor.checkers.command.launch import launch
from supervisor.checkers.command.nagios import judge_exit, read_output
from supervisor.checkers.command.settings import CommandSettings
from supervisor.deadline import DeadlineExpired, HeldBack, disarm
from supervisor.expect import judge_command
from supervisor.model import CheckFailure, Metric, ResolvedTarget
from supervisor.processes import become_subreaper
from supervisor.text import Masker

_STREAMS = ("stdout", "stderr")
_TAIL = 400  # characters of each stream, in the message of a timeout
_TAIL_BYTES = 64 * 1024  # what they are taken from: secrets are masked before the cut, or the rest of one would stay


@dataclass(frozen=True, slots=True)
class _Observation:
    """What `judge_command` looks at."""

    exit_code: int
    duration_ms: float
    stdout: bytes
    stderr: bytes


class CommandChecker:
    """Runs a command to its exit code, under the deadline and the cap of its output."""

    type = "command"

    def __init__(self) -> None:
        self._subreaper = False

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        """Run it once."""
        if not self._subreaper:  # so that what a command leaves behind becomes ours to end
            become_subreaper()
            self._subreaper = True
        settings: CommandSettings = target.settings
        context.enter("exec", "command.exec")
        capture: Capture | None = None
        try:
            with HeldBack():
                launched = launch(settings, context.report_process)
                if isinstance(launched, CheckFailure):
                    context.note("start", launched.message, outcome="failed")
                    return Outcome(context.deadline.elapsed_ms(), failure=launched)
                context.enter("exec", "command.timeout")
                ending = CommandEnding(launched.pid)
                context.defer(ending)
                capture = Capture((launched.stdout, launched.stderr), launched.process, settings.max_output_bytes)
            context.note("start", f"process {launched.pid}", outcome="info")
            return self._observe(target, context, capture, ending)
        finally:
            if capture is not None:
                capture.close()

    def _observe(
        self, target: ResolvedTarget, context: CheckContext, capture: Capture, ending: CommandEnding
    ) -> Outcome:
        try:
            end = capture.read(context.deadline.at)
        except DeadlineExpired:
            disarm()
            end = "deadline"
        duration_ms = context.deadline.elapsed_ms()
        if end == "done":
            return self._judge(target, context, capture, ending.wait(), duration_ms)
        not_ended = "" if ending.terminate() else f"; process {ending.pid} could not be killed: it runs as another user"
        failure = _over_cap(capture, target) if end == "cap" else _late(capture, target)
        failure = CheckFailure(failure.kind, failure.phase, failure.path, failure.message + not_ended)
        context.note("run", failure.message, outcome="failed")
        return Outcome(duration_ms, failure=failure)

    def _judge(
        self, target: ResolvedTarget, context: CheckContext, capture: Capture, code: int, duration_ms: float
    ) -> Outcome:
        settings: CommandSettings = target.settings
        observation = _Observation(code, duration_ms, capture.content(0), capture.content(1))
        detail = exit_detail(code)
        if context.steps is not None:
            sizes = f"{len(observation.stdout):,} bytes on stdout, {len(observation.stderr):,} on stderr"
            context.note("run", f"{detail}, {sizes}")
        metrics: tuple[Metric, ...] = ()
        exit_failure: CheckFailure | None = None
        exit_warning: CheckFailure | None = None
        if settings.nagios is not None:
            plugin = read_output(observation.stdout)
            metrics = plugin.metrics
            detail = plugin.line or detail
            exit_failure, exit_warning = judge_exit(code, plugin.line, settings.nagios)
        verdict = judge_command(
            target.expect,
            target.warn,
            observation,
            context,
            exit_failure=exit_failure,
            exit_warning=exit_warning,
            nagios=settings.nagios is not None,
        )
        return Outcome(duration_ms, detail, verdict.failure, verdict.warning, metrics=metrics)


def exit_detail(code: int) -> str:
    """How a command ended, as `statusDetail` shows it."""
    if code >= 0:
        return f"exitCode={code}"
    try:
        return f"signal={signal.Signals(-code).name}"
    except ValueError:  # a real-time signal
        return f"signal={-code}"


def _over_cap(capture: Capture, target: ResolvedTarget) -> CheckFailure:
    limit: int = target.settings.max_output_bytes
    stream = _STREAMS[capture.over or 0]
    message = f"more than {limit:,} bytes of output, the last on {stream}; the command was ended"
    return CheckFailure("error", stream, "command.maxOutputBytes", message)


def _late(capture: Capture, target: ResolvedTarget) -> CheckFailure:
    """The output so far says where it hangs."""
    masker = Masker(target.secrets)
    said = [
        f'{name}: "{text[-_TAIL:]}"'
        for index, name in enumerate(_STREAMS)
        if (text := masker.mask(capture.tail(index, _TAIL_BYTES).decode("utf-8", "replace")).strip())
    ]
    output = f"; last on {', '.join(said)}" if said else "; it had written nothing"
    return CheckFailure(
        "error", "exec", "command.timeout", f"the command did not end within {target.timeout_s:g} s{output}"
    )
