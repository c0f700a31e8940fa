"""The stages of a verdict, in their order; the first that fails ends it (design section 5). Pure.

`expect` is judged first, then `warn`, whose paths begin with `warn.` and whose mismatch is a warning. A body is read
when the first rule needs it, and not before.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from supervisor.expect import describe
from supervisor.expect.content import Content
from supervisor.expect.observation import CommandObservation, HttpObservation
from supervisor.expect.rules import Place, judge_body_rule, judge_header, rule_path, rule_subject
from supervisor.expect.spec import BodyRule, CommandExpect, HttpExpect, StatusRange, TextRule
from supervisor.model import Certificate, CheckFailure
from supervisor.text import HIDDEN, MISSING, count, is_sensitive

if TYPE_CHECKING:
    from supervisor.checkers.base import CheckContext

_OK_STATUS = (StatusRange(200, 200, "200"),)
_DAY_MS = 86_400_000
_LAST_LINE = 200
_MAX_MS = 253_402_300_799_999  # the end of the year 9999
Step = CheckFailure | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """No failure means matched; a warning stands beside a match only."""

    failure: CheckFailure | None = None
    warning: CheckFailure | None = None


# --- http ------------------------------------------------------------------------------------------------------------


class _Http:
    """One HTTP answer on its way through the stages; remembers the body between `expect` and `warn`."""

    __slots__ = ("content", "context", "observation")

    def __init__(self, observation: HttpObservation, context: CheckContext) -> None:
        self.observation = observation
        self.context = context
        self.content: Content | None = None

    def judge(self, expect: HttpExpect, root: str, status: tuple[StatusRange, ...] | None) -> Step:
        """The failure of the first stage that does not hold."""
        return next((failure for failure in self._stages(expect, root, status) if failure is not None), None)

    def _stages(self, expect: HttpExpect, root: str, status: tuple[StatusRange, ...] | None) -> Iterator[Step]:
        if status is not None:
            yield self._status(status, root)
        if expect.max_duration_ms is not None and self.content is None:
            yield self.duration(expect.max_duration_ms, root, self.observation.headers_ms, "until the headers")
        for rule in expect.headers:
            place = Place("headers", f"{root}.headers.{rule.name}", f"header {rule.name}")
            self.context.enter(place.phase, place.path)
            failure = judge_header(rule.operators, self.observation.headers, rule.name, place)
            _note(self.context, place.path, failure, partial(_seen_header, self.observation, rule.name))
            yield failure
        if expect.certificate_min_days_left is not None:
            yield self._certificate(expect.certificate_min_days_left, root)
        for position, body_rule in enumerate(expect.body):
            yield from self._read()
            yield self._body_rule(body_rule, position, root)
        if expect.max_duration_ms is not None and self.content is not None:
            yield self.duration(expect.max_duration_ms, root, self.observation.duration_ms, "until the end of the body")

    def _status(self, wanted: tuple[StatusRange, ...], root: str) -> Step:
        path = f"{root}.status"
        self.context.enter("status", path)
        status = self.observation.status
        failure = None
        if not any(item.low <= status <= item.high for item in wanted):
            expected = _any_of([item.text for item in wanted])
            message = f"status {status}, expected {expected}"
            failure = CheckFailure("mismatch", "status", path, message, expected, str(status))
        _note(self.context, path, failure, lambda: str(status))
        return failure

    def duration(self, limit_ms: int, root: str, took_ms: float, what: str) -> Step:
        """The failure of a check that took too long."""
        self.context.enter("duration", f"{root}.maxDurationMs")
        return _judge_duration(self.context, f"{root}.maxDurationMs", limit_ms, took_ms, f"took {{}} {what}")

    def _certificate(self, days: float, root: str) -> Step:
        place = Place("certificate", f"{root}.certificate.minDaysLeft", "the certificate")
        self.context.enter(place.phase, place.path)
        certificate = self.observation.certificate
        failure = _judge_certificate(certificate, days, time.time() * 1000, place)
        _note(
            self.context, place.path, failure, lambda: f"ends {_date(certificate.not_after_ms)}" if certificate else ""
        )
        return failure

    def _read(self) -> Iterator[Step]:
        if self.content is not None:
            return
        self.context.enter("body", "http.body")
        body = self.observation.body()
        if isinstance(body, CheckFailure):
            yield body
            return
        self.content = Content(body.content, body.content_type)

    def _body_rule(self, rule: BodyRule, position: int, root: str) -> Step:
        content = self.content
        assert content is not None
        place = Place("body", f"{root}.body[{position}].{rule_path(rule)}", rule_subject(rule, "the body"))
        self.context.enter(place.phase, place.path)
        failure = judge_body_rule(rule, content, place)
        _note(self.context, place.path, failure, lambda: f"{count(len(content.content))} bytes")
        return failure


def judge_http(
    expect: HttpExpect, warn: HttpExpect | None, observation: HttpObservation, context: CheckContext
) -> Verdict:
    """Judge an answer whose headers are in; the body is read through the observation if a rule needs it."""
    http = _Http(observation, context)
    failure = http.judge(expect, "expect", expect.status if expect.status is not None else _OK_STATUS)
    if failure is not None or warn is None:
        return Verdict(failure)
    was_read = http.content is not None
    warning = http.judge(warn, "warn", warn.status)
    if warning is not None and warning.kind == "error":
        return Verdict(warning)
    if expect.max_duration_ms is not None and not was_read and http.content is not None:  # read for `warn` only
        failure = http.duration(expect.max_duration_ms, "expect", observation.duration_ms, "until the end of the body")
    return Verdict(failure) if failure is not None else Verdict(None, warning)


def _seen_header(observation: HttpObservation, name: str) -> str:
    lines = [value for key, value in observation.headers if key.lower() == name.lower()]
    if not lines:
        return MISSING
    return HIDDEN if is_sensitive(name) else ", ".join(lines)


def _judge_certificate(certificate: Certificate | None, days: float, now_ms: float, place: Place) -> Step:
    expected = f">= {describe.number(days)} days left"
    if certificate is None:
        return place.failure("there is no certificate: the answer did not come over TLS", expected, MISSING)
    left = (certificate.not_after_ms - now_ms) / _DAY_MS
    ends = _date(certificate.not_after_ms)
    if certificate.not_before_ms > now_ms:
        begins = _date(certificate.not_before_ms)
        return place.failure(f"the certificate is not valid before {begins}", expected, f"valid from {begins}")
    if left >= days:
        return None
    shown = f"{left:.1f} days left (until {ends})"
    if left < 0:
        return place.failure(f"the certificate expired {-left:.1f} days ago, on {ends}", expected, shown)
    wanted = describe.number(days)
    return place.failure(
        f"the certificate expires in {left:.1f} days, on {ends}, expected {wanted} or more", expected, shown
    )


def _date(at_ms: float) -> str:
    return datetime.fromtimestamp(min(max(at_ms, 0), _MAX_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")


# --- command ---------------------------------------------------------------------------------------------------------


def judge_command(
    expect: CommandExpect,
    warn: CommandExpect | None,
    observation: CommandObservation,
    context: CheckContext,
    *,
    nagios: bool = False,
    exit_failure: CheckFailure | None = None,
    exit_warning: CheckFailure | None = None,
) -> Verdict:
    """Judge a command that has ended. With `nagios`, the checker has judged the exit code: its failure ends the
    verdict, its warning becomes the verdict's unless a later stage fails."""
    outputs = {
        "stdout": Content(observation.stdout, encoding="utf-8"),
        "stderr": Content(observation.stderr, encoding="utf-8"),
    }
    exit_codes: tuple[int, ...] | None = expect.exit_code if expect.exit_code is not None else (0,)
    if nagios:
        if exit_failure is not None:
            context.enter(exit_failure.phase, exit_failure.path)
            _note(context, exit_failure.path, exit_failure, lambda: str(observation.exit_code))
            return Verdict(exit_failure)
        exit_codes = None
    failure = _judge_command(expect, "expect", exit_codes, observation, outputs, context)
    if failure is not None or warn is None:
        return Verdict(failure, exit_warning if failure is None else None)
    warning = _judge_command(warn, "warn", warn.exit_code, observation, outputs, context)
    return Verdict(None, exit_warning or warning)


def _judge_command(
    expect: CommandExpect,
    root: str,
    exit_codes: tuple[int, ...] | None,
    observation: CommandObservation,
    outputs: dict[str, Content],
    context: CheckContext,
) -> Step:
    stages = _command_stages(expect, root, exit_codes, observation, outputs, context)
    return next((failure for failure in stages if failure is not None), None)


def _command_stages(
    expect: CommandExpect,
    root: str,
    exit_codes: tuple[int, ...] | None,
    observation: CommandObservation,
    outputs: dict[str, Content],
    context: CheckContext,
) -> Iterator[Step]:
    if exit_codes is not None:
        path = f"{root}.exitCode"
        context.enter("exitCode", path)
        failure = _judge_exit_code(exit_codes, observation.exit_code, path, outputs)
        _note(context, path, failure, lambda: str(observation.exit_code))
        yield failure
    if expect.max_duration_ms is not None:
        path = f"{root}.maxDurationMs"
        context.enter("duration", path)
        yield _judge_duration(context, path, expect.max_duration_ms, observation.duration_ms, "the command took {}")
    for name, rules in (("stdout", expect.stdout), ("stderr", expect.stderr)):
        for position, rule in enumerate(rules):
            yield _judge_output(rule, f"{root}.{name}[{position}]", name, outputs[name], context)


def _judge_output(rule: TextRule, base: str, name: str, content: Content, context: CheckContext) -> Step:
    place = Place(name, f"{base}.{rule_path(rule)}", name)
    context.enter(place.phase, place.path)
    failure = judge_body_rule(rule, content, place)
    _note(context, place.path, failure, lambda: f"{count(len(content.content))} bytes")
    return failure


def _judge_exit_code(wanted: tuple[int, ...], code: int, path: str, outputs: dict[str, Content]) -> Step:
    if code in wanted:
        return None
    expected = _any_of([str(item) for item in wanted])
    if code < 0:
        name = signal_name(-code)
        why = " (out of memory, or killed by hand?)" if -code == signal.SIGKILL else ""
        message = f"killed by {name}{why}, expected exit code {expected}"
        return CheckFailure("mismatch", "exitCode", path, message, expected, f"killed by {name} ({code})")
    message = f"exit code {code}, expected {expected}{_last_words(outputs)}"
    return CheckFailure("mismatch", "exitCode", path, message, expected, str(code))


def _last_words(outputs: dict[str, Content]) -> str:
    """What the command said last: most often the reason."""
    for name in ("stderr", "stdout"):
        lines = outputs[name].content[-4096:].decode("utf-8", "replace").split("\n")
        line = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if line and len(line) <= _LAST_LINE:
            return f"; {name}: {line}"
    return ""


def signal_name(number: int) -> str:
    """`SIGKILL` of 9."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- common ----------------------------------------------------------------------------------------------------------


def _judge_duration(context: CheckContext, path: str, limit_ms: int, took_ms: float, form: str) -> Step:
    failure = None
    took = f"{took_ms:,.0f} ms" if took_ms - limit_ms >= 1 else f"{took_ms:,.3f} ms"
    if not took_ms <= limit_ms:
        message = f"{form.format(took)}, expected at most {limit_ms:,} ms"
        failure = CheckFailure("mismatch", "duration", path, message, f"<= {limit_ms} ms", took)
    _note(context, path, failure, lambda: f"{took_ms:,.1f} ms")
    return failure


def _any_of(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} or {items[-1]}"


def _note(context: CheckContext, path: str, failure: Step, seen: Callable[[], str]) -> None:
    """Tell the trace, if there is one, without building texts for nobody."""
    if context.steps is None:
        return
    if failure is None:
        context.note(path, seen())
    else:
        context.note(path, failure.actual or failure.message, failure.expected, "failed")
