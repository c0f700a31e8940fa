"""The pool of worker processes: runs come in, verdicts go out; a dead or hung worker costs exactly its own check."""

from supervisor.pool.pool import Pool
from supervisor.pool.types import Finished, Freed, PoolStats, Run, Stuck, Verdict, WorkerStat

__all__ = ["Finished", "Freed", "Pool", "PoolStats", "Run", "Stuck", "Verdict", "WorkerStat"]
