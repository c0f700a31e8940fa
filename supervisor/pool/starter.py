"""Starts worker processes, in a thread: a fork can wait for a forkserver that starts, and the loop must not."""

from __future__ import annotations

import multiprocessing
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from multiprocessing.context import ForkServerProcess
from multiprocessing.process import BaseProcess

from supervisor.pool import apart, child, wire

PRELOAD = "supervisor.pool.preload"


@dataclass(frozen=True, slots=True)
class Plan:
    """What a new worker gets from its pool."""

    row: int
    board: int
    catalogue: int
    registry: str
    max_checks: int
    max_memory_bytes: int


@dataclass(frozen=True, slots=True)
class Started:
    """A process with the pool's ends of its pipes, or the error that kept it from being started."""

    row: int
    process: BaseProcess | None = None
    inbox_read: int = -1
    inbox_write: int = -1
    outbox_read: int = -1
    error: str = ""


class Starter:
    """Takes plans, gives back `Started`. `wake` is written to after each, so that a selector notices."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([PRELOAD])
        self._plans: queue.SimpleQueue[Plan | None] = queue.SimpleQueue()
        self._started: queue.SimpleQueue[Started] = queue.SimpleQueue()
        self.wake, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="pool-starter", daemon=True)
        _keep_main_out_of_workers()
        self._thread.start()

    def ask(self, plan: Plan) -> None:
        """Start a worker, soon."""
        self._plans.put(plan)

    def take(self) -> list[Started]:
        """What was started since the last call."""
        with suppress(BlockingIOError):
            os.read(self.wake, 4096)
        taken: list[Started] = []
        with suppress(queue.Empty):
            while True:
                taken.append(self._started.get_nowait())
        return taken

    def close(self, timeout_s: float) -> list[Started]:
        """End the thread; what it started last is for the caller to end. One that hangs is a daemon."""
        self._closing = True
        self._plans.put(None)
        self._thread.join(timeout_s)
        last = self.take()
        if not self._thread.is_alive():
            os.close(self.wake)
            os.close(self._wake_write)
        return last

    def _work(self) -> None:
        while (plan := self._plans.get()) is not None:
            self._started.put(Started(plan.row, error="closing") if self._closing else self._start(plan))
            with suppress(BlockingIOError):  # full: the reader has reason enough to wake
                os.write(self._wake_write, b"s")

    def _start(self, plan: Plan) -> Started:
        opened: list[int] = []
        try:
            inbox_read, inbox_write = _kept(opened, wire.order_pipe)
            outbox_read, outbox_write = _kept(opened, lambda: os.pipe2(os.O_CLOEXEC))
            os.set_blocking(outbox_read, False)
            process = self._process(plan, inbox_read, outbox_write)
            apart.hold()
            process.start()
        except (OSError, EOFError, ValueError) as error:
            for descriptor in opened:
                os.close(descriptor)
            return Started(plan.row, error=f"a worker process could not be started: {_reason(error)}")
        os.close(outbox_write)
        return Started(plan.row, process, inbox_read, inbox_write, outbox_read)

    def _process(self, plan: Plan, inbox: int, outbox: int) -> ForkServerProcess:
        start = child.Start(
            inbox=wire.Descriptor(inbox),
            outbox=wire.Descriptor(outbox),
            board=wire.Descriptor(plan.board),
            catalogue=wire.Descriptor(plan.catalogue),
            row=plan.row,
            supervisor=os.getpid(),
            registry=plan.registry,
            max_checks=plan.max_checks,
            max_memory_bytes=plan.max_memory_bytes,
        )
        return self._context.Process(target=child.main, args=(start,), name=f"worker-{plan.row}", daemon=True)


def _kept(opened: list[int], make: Callable[[], tuple[int, int]]) -> tuple[int, int]:
    pair = make()
    opened.extend(pair)
    return pair


def _reason(error: Exception) -> str:
    if isinstance(error, EOFError | ConnectionError):
        return "the process that forks workers ended meanwhile"
    return str(error) or type(error).__name__


def _keep_main_out_of_workers() -> None:
    """multiprocessing imports the parent's main script in each child, here the whole command line with all that it
    needs. It does so by path or by the name in its spec, and leaves a spec named `....__main__` alone."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is None or not spec.name.endswith(".__main__"):
        main.__spec__ = ModuleSpec("checkvisor.__main__", None)
