"""The verdicts of runs whose worker could not give one: it died, or had to be killed. Pure but for the wall clock."""

from __future__ import annotations

import time

from supervisor.model import CheckFailure, CheckResult
from supervisor.pool.types import Run
from supervisor.pool.wire import Place
from supervisor.worker import expired_failure, internal_failure


def late_failure(place: Place, run: Run) -> CheckFailure:
    """A worker that has sent no verdict in time: an error of the stage in which it hangs."""
    timeout_s = run.target.timeout_s
    if place.phase:
        return expired_failure(place.phase, place.path, timeout_s)
    return internal_failure(f"its worker did nothing for {timeout_s:g} s and was killed")


def lost_result(run: Run, started: float, failure: CheckFailure, now: float) -> CheckResult:
    """The result of a run that ends with this failure now; both times are monotonic."""
    duration_s = max(0.0, now - started)
    return CheckResult(
        target_id=run.target.id,
        timestamp_ms=int((time.time() - duration_s) * 1000),
        success=False,
        matched=False,
        duration_ms=round(duration_s * 1000, 3),
        failure=failure,
    )
