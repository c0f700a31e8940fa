"""One check in a worker process of a pool of one: with the same deadline, kills and clean-up as in the supervisor."""

from __future__ import annotations

import json
import logging
import os
import selectors
import time

from supervisor import logs
from supervisor.context import TraceStep
from supervisor.model import CheckResult, ResolvedTarget
from supervisor.pool import Finished, Freed, Pool, Run

VARIABLE = "CHECKVISOR_TRACE"  # names the file to which the worker writes its steps (traced.py)
_LONGEST_WAIT_S = 0.2
_GRACE_S = 1.0


def run_once(target: ResolvedTarget) -> tuple[CheckResult, tuple[TraceStep, ...]]:
    """The result and the trace, also of a worker that had to be killed. Raises StartError if there is no worker."""
    logs.setup(level=logging.ERROR)
    trace = os.memfd_create("checkvisor-trace", os.MFD_CLOEXEC)
    try:
        result = _in_a_pool(target, f"/proc/{os.getpid()}/fd/{trace}")
        steps = _steps(os.pread(trace, os.fstat(trace).st_size, 0))
    finally:
        os.close(trace)
    if result.failure is not None and not any(step.outcome == "failed" for step in steps):  # it could not say so itself
        steps.append(TraceStep(result.duration_ms, "failed", result.failure.message, outcome="failed"))
    return result, tuple(steps)


def _in_a_pool(target: ResolvedTarget, trace: str) -> CheckResult:
    os.environ[VARIABLE] = trace  # the worker takes it out of its own before any command can inherit it
    result: CheckResult | None = None
    freed = False
    with selectors.DefaultSelector() as selector:
        pool = Pool(1, selector, registry="supervisor.commands.traced")
        pool.start()
        try:
            pool.submit(Run(1, target, time.monotonic()))
            while result is None or not freed:
                wait = min(pool.next_wake() - time.monotonic(), _LONGEST_WAIT_S)
                for key, mask in selector.select(max(0.0, wait)):
                    key.data(key.fileobj, mask)
                for verdict in pool.turn(time.monotonic()):
                    if isinstance(verdict, Finished):
                        result = verdict.result
                    freed = freed or isinstance(verdict, Freed)
        finally:
            pool.stop(_GRACE_S)
            del os.environ[VARIABLE]
    return result


def _steps(written: bytes) -> list[TraceStep]:
    """What the worker has written; the last line of a killed one may be unfinished."""
    whole = written[: written.rfind(b"\n") + 1]
    return [TraceStep(**json.loads(line)) for line in whole.splitlines()]
