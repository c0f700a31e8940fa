"""What the loop hands to the pool and gets back, and what the pool tells about itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from supervisor.model import CheckResult, ResolvedTarget
from supervisor.processes import Seen


@dataclass(frozen=True, slots=True)
class Run:
    """One check to be run. `id` is unique over the pool's life, `due` is monotonic."""

    id: int
    target: ResolvedTarget
    due: float


@dataclass(frozen=True, slots=True)
class Finished:
    """The verdict of a run, `queued_s` after it was due. Its target still counts as running until `Freed`."""

    run: Run
    result: CheckResult
    queued_s: float


@dataclass(frozen=True, slots=True)
class Freed:
    """Nothing of this run is left: its target may run again. Without a `Finished` before it, it was cancelled."""

    run: Run


Verdict = Finished | Freed


@dataclass(frozen=True, slots=True)
class WorkerStat:
    """One worker process: what it runs now, and since when."""

    pid: int
    target_id: str | None
    running_s: float
    checks: int


@dataclass(frozen=True, slots=True)
class Stuck:
    """Processes of a run that could not be ended: in uninterruptible sleep, or not ours to kill."""

    target_id: str
    processes: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class PoolStats:
    """Counts since the pool's start; `size` is what was asked for, `busy + idle` what lives and is ready."""

    size: int
    busy: int = 0
    idle: int = 0
    waiting: int = 0
    restarts: int = 0
    start_failures: int = 0
    recycled: int = 0
    last_start_error: str = ""
    stuck: tuple[Stuck, ...] = ()
    workers: tuple[WorkerStat, ...] = field(default=())
