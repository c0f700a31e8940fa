"""A small loop around a pool: submits runs, collects verdicts, as the supervisor's loop does."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from supervisor.checkers.command.settings import CommandSettings
from supervisor.model import CheckResult, ResolvedTarget
from supervisor.pool import Finished, Freed, Pool, Run
from tests.make import make_target

REGISTRY = "tests.pool.registry"


def command(id_: str, exec_: str, *args: str, timeout_s: float = 10.0, **settings: Any) -> ResolvedTarget:
    """A target of type command; it expects exit code 0."""
    return make_target(
        id=id_, type="command", timeout_s=timeout_s, settings=CommandSettings(exec=exec_, args=args, **settings)
    )


def shell(id_: str, script: str, *, timeout_s: float = 10.0, **settings: Any) -> ResolvedTarget:
    """A target that runs a shell script."""
    return command(id_, "sh", "-c", script, timeout_s=timeout_s, **settings)


class Driver:
    """Turns the pool; keeps what came out in `results` and `freed`, in order, with the time it came."""

    def __init__(self, size: int, **options: Any) -> None:
        self.selector = selectors.DefaultSelector()
        options.setdefault("registry", REGISTRY)
        self.pool = Pool(size, self.selector, **options)
        self.finished: list[tuple[float, Finished]] = []
        self.freed: list[tuple[float, int]] = []
        self._queue: deque[Run] = deque()
        self._ids = 0

    def add(self, *targets: ResolvedTarget) -> list[int]:
        """Queue a run of each target; they are submitted as the pool has room."""
        ids = []
        for target in targets:
            self._ids += 1
            ids.append(self._ids)
            self._queue.append(Run(self._ids, target, time.monotonic()))
        return ids

    def turn(self, longest_s: float = 0.05) -> None:
        """One turn of the loop."""
        for _ in range(min(self.pool.free(), len(self._queue))):
            self.pool.submit(self._queue.popleft())
        now = time.monotonic()
        for key, mask in self.selector.select(max(0.0, min(self.pool.next_wake() - now, longest_s))):
            key.data(key.fileobj, mask)
        now = time.monotonic()
        for verdict in self.pool.turn(now):
            if isinstance(verdict, Finished):
                self.finished.append((now, verdict))
            else:
                assert isinstance(verdict, Freed)
                self.freed.append((now, verdict.run.id))

    def turn_until(self, condition: Callable[[], bool], seconds: float = 10.0, what: str = "the condition") -> None:
        """Turn until the condition is true, or fail the test."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{what} did not come true within {seconds} s; {self.pool.stats()}")
            self.turn()

    def run(self, *targets: ResolvedTarget, seconds: float = 15.0) -> list[CheckResult]:
        """Run all of them, each to its end; their results in the order of the targets."""
        ids = self.add(*targets)
        self.wait_freed(ids, seconds)
        return [self.result(id_) for id_ in ids]

    def wait_freed(self, ids: Iterable[int], seconds: float = 15.0) -> None:
        """Turn until these runs are wholly over."""
        wanted = set(ids)
        self.turn_until(lambda: wanted <= {id_ for _, id_ in self.freed}, seconds, "the end of all runs")

    def result(self, id_: int) -> CheckResult:
        """The one verdict of this run."""
        [result] = [finished.result for _, finished in self.finished if finished.run.id == id_]
        return result

    def has_result(self, id_: int) -> bool:
        return any(finished.run.id == id_ for _, finished in self.finished)

    def worker_of(self, target_id: str) -> int | None:
        """The pid of the worker that runs this target now."""
        return next((w.pid for w in self.pool.stats().workers if w.target_id == target_id), None)


@contextmanager
def driven(size: int, **options: Any) -> Iterator[Driver]:
    """A started pool in a driver, stopped at the end."""
    driver = Driver(size, **options)
    driver.pool.start()
    try:
        driver.turn_until(lambda: driver.pool.stats().idle == size, 30, "all workers")
        yield driver
    finally:
        driver.pool.stop(1.0)
        driver.selector.close()
