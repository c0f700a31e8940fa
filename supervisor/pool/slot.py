"""One worker as the pool sees it: its process, its pipes, what it runs and what it was handed ahead."""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess

from supervisor.pool.starter import Started
from supervisor.pool.types import Run
from supervisor.pool.wire import ORDER_BYTES, Frame, Order, frames

_READ_BYTES = 65536


@dataclass(slots=True, eq=False)
class Slot:
    """A living worker. `started` is when its present run began (as far as known), `kill_at` when it is too late."""

    row: int
    process: BaseProcess
    pid: int
    inbox_read: int
    inbox_write: int
    outbox_read: int
    ready: bool = False  # has said hello
    retiring: bool = False  # gets nothing more and leaves by itself
    current: Run | None = None
    ahead: deque[Run] = field(default_factory=deque)  # orders it has not begun, as far as we know
    narrow: bool = False  # its pipe is short: no orders ahead
    quick: bool = False  # its last check took a moment only
    started: float = 0.0
    verdict_sent: bool = False
    cancelled: bool = False
    kill_at: float = float("inf")
    killed_late: bool = False
    told_to_leave: bool = False
    died_at: float | None = None
    checks: int = 0
    _buffer: bytearray = field(default_factory=bytearray)

    @classmethod
    def of(cls, started: Started) -> Slot:
        process = started.process
        assert process is not None
        assert process.pid is not None
        return cls(started.row, process, process.pid, started.inbox_read, started.inbox_write, started.outbox_read)

    @property
    def takes_work(self) -> bool:
        """Whether it may be given a check at all."""
        leaving = self.retiring or self.told_to_leave or self.killed_late
        return self.ready and not leaving and self.died_at is None

    def put(self, order: Order) -> bool:
        """Give it an order, without waiting. False if its pipe is full: a user with very many pipes gets short ones."""
        try:
            os.write(self.inbox_write, order.pack())
        except BlockingIOError:
            self.narrow = True
            return False
        return True

    def take_back(self) -> set[int]:
        """Take the orders back that the worker has not begun; their run ids. A worker never sees them."""
        taken: set[int] = set()
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.inbox_read, ORDER_BYTES):
                taken.add(Order.unpack(data).run_id)
        return taken

    def read(self) -> Iterator[Frame]:
        """The frames that have arrived; sets `died_at` to 0 at the end of the pipe."""
        while True:
            try:
                data = os.read(self.outbox_read, _READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.died_at = 0.0
                return
            self._buffer += data
            yield from frames(self._buffer)
            if len(data) < _READ_BYTES:
                return

    def signal(self, number: int) -> None:
        """Signal the process; the pipe has not ended, so its pid is still its own."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def tell_to_leave(self, kill_at: float) -> None:
        """TERM: it ends its command and leaves; at `kill_at` it is killed."""
        self.told_to_leave = True
        self.kill_at = min(self.kill_at, kill_at)
        self.signal(signal.SIGTERM)

    def exit_code(self) -> int | None:
        """How it ended, once that is known. 255 when nobody can tell (the forkserver died with it)."""
        with contextlib.suppress(ChildProcessError):  # ours only after the forkserver's death
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            return os.waitstatus_to_exitcode(status) if pid else None
        return self.process.exitcode

    def close(self) -> None:
        """Release the descriptors; the process is over."""
        for descriptor in (self.inbox_read, self.inbox_write, self.outbox_read):
            os.close(descriptor)
        with contextlib.suppress(ValueError):  # its end was never reported: the descriptor goes with the object
            self.process.close()
