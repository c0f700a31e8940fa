"""One check, from a resolved target to a result that is safe to show and store. Bodies and outputs stay here.

`run_check` is what a worker process of the pool calls, and `checkvisor check`. Text leaves it masked, cleaned, cut.
"""

from __future__ import annotations

import importlib
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache

from supervisor.checkers.base import CheckContext, Checker, Ending, Outcome, TraceStep
from supervisor.deadline import Deadline, DeadlineExpired, alarm
from supervisor.logs import event
from supervisor.model import Certificate, CheckFailure, CheckResult, Metric, ResolvedTarget, Secret
from supervisor.text import Masker, clean, cut

log = logging.getLogger(__name__)

REGISTRY = "supervisor.checkers"  # the module whose CHECKERS lists the types
MESSAGE_LIMIT = 1000
VALUE_LIMIT = 256
NAME_LIMIT = 64


def run_check(
    target: ResolvedTarget,
    *,
    mark: Callable[[str, str], None] | None = None,
    report_process: Callable[[int], None] | None = None,
    trace: bool = False,
    endings: list[Ending] | None = None,
    checkers: Mapping[str, Checker] | None = None,
    keep: bool = True,
) -> tuple[CheckResult, tuple[TraceStep, ...]]:
    """Run one check now. Never raises: what goes wrong is the result.

    What the check still has to end goes to `endings`, so that the verdict need not wait for it; without such a list it
    is ended here. `keep` as in CheckContext. Main thread only (the deadline is a signal).
    """
    timestamp_ms = time.time_ns() // 1_000_000
    deadline = Deadline(target.timeout_s)
    context = CheckContext(deadline, mark=mark, report_process=report_process, trace=trace, keep=keep)
    outcome = _observed(target, context, checkers)
    left = [ending for ending in context.endings if not ending.done]
    if endings is None:
        for ending in left:
            ending.finish()
    else:
        endings += left
    shown = _Shown(target.secrets)
    result = CheckResult(
        target_id=target.id,
        timestamp_ms=timestamp_ms,
        success=outcome.failure is None or outcome.failure.kind == "mismatch",
        matched=outcome.failure is None,
        duration_ms=_duration(outcome.duration_ms),
        status_detail=shown.text(outcome.status_detail, VALUE_LIMIT),
        failure=shown.failure(outcome.failure),
        warning=shown.failure(outcome.warning) if outcome.failure is None else None,
        timings=outcome.timings,
        metrics=tuple(shown.metric(metric) for metric in outcome.metrics),
        certificate=shown.certificate(outcome.certificate),
    )
    return result, tuple(shown.step(step) for step in context.steps or ())


def internal_failure(message: str, path: str = "worker") -> CheckFailure:
    """A check that failed through no fault of its target."""
    return CheckFailure(kind="error", phase="internal", path=path, message=message)


def expired_failure(phase: str, path: str, timeout_s: float) -> CheckFailure:
    """A check that was still at this place when its deadline passed."""
    return CheckFailure(
        kind="error", phase=phase, path=path, message=f"not done within {timeout_s:g} s, still at {path}"
    )


def _observed(target: ResolvedTarget, context: CheckContext, checkers: Mapping[str, Checker] | None) -> Outcome:
    try:
        with alarm(context.deadline):
            return (checkers or registry())[target.type].check(target, context)
    except DeadlineExpired:
        failure = expired_failure(context.phase, context.path, target.timeout_s)
    except Exception as error:  # noqa: BLE001 - a defect of a checker is the result of its check, and is logged
        event(log, "check.crashed", level=logging.ERROR, target=target.id, path=context.path, exc_info=True)
        failure = internal_failure(
            f"the check of type {target.type} crashed at {context.path} with {type(error).__name__}: {error}; "
            "this is a defect of Checkvisor, its log has the traceback"
        )
    context.note("failed", failure.message, outcome="failed")
    return Outcome(duration_ms=context.deadline.elapsed_ms(), failure=failure)


@lru_cache(maxsize=1)
def registry(module: str = REGISTRY) -> Mapping[str, Checker]:
    """The checkers by type. Read late: a worker's start must not depend on every checker's import."""
    checkers: Mapping[str, Checker] = importlib.import_module(module).CHECKERS
    return checkers


def _duration(value_ms: float) -> float:
    return round(value_ms, 3) if math.isfinite(value_ms) and value_ms > 0 else 0.0


@lru_cache(maxsize=1024)
def masker(secrets: tuple[Secret, ...]) -> Masker:
    """The masker of these secrets; made once."""
    return Masker(secrets)


class _Shown:
    """Makes text from outside fit to be shown and stored: the target's secrets masked, then cleaned, then cut."""

    __slots__ = ("_masker",)

    def __init__(self, secrets: tuple[Secret, ...]) -> None:
        self._masker = masker(secrets) if secrets else None

    def text(self, value: str, limit: int) -> str:
        if not value:
            return ""
        masked = self._masker.mask(value) if self._masker is not None else value
        return str(cut(clean(masked), limit))  # str(): a library's subclass of str must not travel

    def optional(self, value: str | None) -> str | None:
        return None if value is None else self.text(value, VALUE_LIMIT)

    def failure(self, failure: CheckFailure | None) -> CheckFailure | None:
        if failure is None:
            return None
        return CheckFailure(
            kind=failure.kind,
            phase=failure.phase,
            path=self.text(failure.path, VALUE_LIMIT),
            message=self.text(failure.message, MESSAGE_LIMIT),
            expected=self.optional(failure.expected),
            actual=self.optional(failure.actual),
        )

    def metric(self, metric: Metric) -> Metric:
        return replace(
            metric,
            label=self.text(metric.label, NAME_LIMIT),
            unit=self.text(metric.unit, NAME_LIMIT),
            warning=self.text(metric.warning, NAME_LIMIT),
            critical=self.text(metric.critical, NAME_LIMIT),
        )

    def certificate(self, certificate: Certificate | None) -> Certificate | None:
        if certificate is None:
            return None
        subject, issuer = self.text(certificate.subject, VALUE_LIMIT), self.text(certificate.issuer, VALUE_LIMIT)
        return replace(certificate, subject=subject, issuer=issuer)

    def step(self, step: TraceStep) -> TraceStep:
        expected = self.optional(step.expected)
        return replace(
            step, step=self.text(step.step, VALUE_LIMIT), seen=self.text(step.seen, VALUE_LIMIT), expected=expected
        )
