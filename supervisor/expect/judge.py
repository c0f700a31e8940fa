"""Observation to verdict: `expect` first, then `warn` (design section 5). Pure.

The paths of `warn` begin with `warn.` and its mismatch is a warning; an error there is an error of the check.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from supervisor.expect.command_stages import CommandStages
from supervisor.expect.http_stages import HttpStages
from supervisor.expect.observation import CommandObservation, HttpObservation
from supervisor.expect.spec import CommandExpect, HttpExpect, StatusRange
from supervisor.model import CheckFailure

if TYPE_CHECKING:
    from supervisor.context import CheckContext

_OK_STATUS = (StatusRange(200, 200, "200"),)
_OK_EXIT_CODE = (0,)


@dataclass(frozen=True, slots=True)
class Verdict:
    """No failure means matched; a warning stands beside a match only."""

    failure: CheckFailure | None = None
    warning: CheckFailure | None = None


def judge_http(
    expect: HttpExpect, warn: HttpExpect | None, observation: HttpObservation, context: CheckContext
) -> Verdict:
    """Judge an answer whose headers are in; the body is read through the observation when a rule needs it."""
    stages = HttpStages(observation, context)
    failure = stages.judge(expect, "expect", expect.status if expect.status is not None else _OK_STATUS)
    if failure is not None or warn is None:
        return Verdict(failure)
    was_read = stages.content is not None
    warning = stages.judge(warn, "warn", warn.status)
    if warning is not None and warning.kind == "error":
        return Verdict(warning)
    if expect.max_duration_ms is not None and not was_read and stages.content is not None:  # read for `warn` only
        failure = stages.whole_duration(expect.max_duration_ms, "expect")
    return Verdict(failure, warning if failure is None else None)


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
    """Judge a command that has ended. With `nagios` the checker has judged the exit code: its failure ends the
    verdict, its warning becomes the verdict's unless a later stage fails."""
    stages = CommandStages(observation, context)
    exit_codes: tuple[int, ...] | None = expect.exit_code if expect.exit_code is not None else _OK_EXIT_CODE
    if nagios:
        if exit_failure is not None:
            stages.refuse(expect, exit_failure)
            return Verdict(exit_failure)
        exit_codes = None
    failure = stages.judge(expect, "expect", exit_codes)
    if failure is not None:
        return Verdict(failure)
    warning = stages.judge(warn, "warn", warn.exit_code) if warn is not None else None
    return Verdict(None, exit_warning or warning)
