"""The worker process: takes orders, runs checks, sends verdicts. Leaves when the supervisor is gone, by itself.

Two things keep it from outliving the supervisor: the kernel's signal at the death of its parent (the forkserver, later
the supervisor as subreaper), and the end of its inbox.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from types import FrameType
from typing import Any

from supervisor import logs, processes
from supervisor.context import Ending
from supervisor.deadline import postpone
from supervisor.model import ResolvedTarget
from supervisor.pool import wire
from supervisor.worker import masker, registry, run_check

_KNOWN_TARGETS = 1024  # unpickled targets kept; about 1 KB each
# A worker that is seldom needed keeps no targets, which would take it 4 MB for 1,000: it is seldom the one that gets
# the same target again. One that had this many checks without a rest is needed all the time.
_KEEPS_AFTER = 50
_REST_S = 1.0
_OPEN_FILES = 1024
_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)
_TERM_S = 0.8  # what a command gets between TERM and KILL when its worker is told to leave


@dataclass(frozen=True, slots=True)
class Start:
    """What a new worker is given. The descriptors are `wire.Descriptor` on the way and numbers on arrival."""

    inbox: Any
    outbox: Any
    board: Any
    catalogue: Any
    row: int
    supervisor: int
    registry: str
    max_checks: int
    max_memory_bytes: int


def main(start: Start) -> None:
    """The life of a worker."""
    worker = _Worker(start)
    with suppress(BrokenPipeError):  # the supervisor is gone: nobody to tell
        worker.settle()
        gc.freeze()  # what was preloaded stays in pages shared with the forkserver
        worker.work()


class _Worker:
    def __init__(self, start: Start) -> None:
        self._start = start
        self._row = wire.Row(start.board, start.row)
        self._targets: OrderedDict[int, ResolvedTarget] = OrderedDict()
        self._checkers = registry(start.registry)
        self._session = 0
        self._parent = os.getppid()
        self._checks = 0
        self._since_rest = 0
        self._orders = select.poll()
        self._orders.register(start.inbox, select.POLLIN)
        self._formatter = logs.setup()

    def settle(self) -> None:
        """Leave nothing of the forkserver's ways: descriptors, signals, directory."""
        _close_alive_descriptor()
        _keep_descriptors_from_commands()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in signal.valid_signals():
            # A worker needs these ignored, and a command gets them back. All others would stay ignored in commands.
            if signal.getsignal(number) is signal.SIG_IGN and number not in _IGNORED:
                signal.signal(number, signal.SIG_DFL)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, _nothing)  # the supervisor decides; a handler, so that commands have the default
        signal.signal(signal.SIGTERM, self._on_term)
        processes.become_subreaper()
        processes.signal_when_parent_dies(signal.SIGTERM)
        os.chdir("/")
        if self._supervisor_is_gone():  # died before the kernel could know that we care
            os._exit(0)
        self._send(wire.Frame(wire.HELLO))

    def work(self) -> None:
        """Check after check, until the inbox ends or this process has done its share."""
        while True:
            order = self._next_order()
            if order is None:
                return
            started = time.monotonic()
            endings: list[Ending] = []
            result, _ = run_check(
                self._target(order),
                mark=self._row.mark,
                report_process=self._report,
                endings=endings,
                checkers=self._checkers,
                keep=self._keeps,
            )
            self._checks += 1
            self._since_rest += 1
            retiring = wire.RETIRING if self._has_done_its_share() else 0
            if endings:
                self._send(wire.Frame(wire.VERDICT, order.run_id, started, result))
                stuck = tuple(seen for ending in endings for seen in ending.finish())
                last = wire.Frame(wire.FREED | retiring, order.run_id, started, stuck)
            else:
                last = wire.Frame(wire.VERDICT | wire.FREED | retiring, order.run_id, started, result)
            if self._session:
                self._report(0)
                _reap()
            self._send(last)
            if retiring:
                return

    def _next_order(self) -> wire.Order | None:
        while True:
            try:
                data = os.read(self._start.inbox, wire.ORDER_BYTES)
            except BlockingIOError:
                asleep = time.monotonic()
                self._orders.poll()
                if time.monotonic() - asleep > _REST_S:
                    self._since_rest = 0
                continue
            return wire.Order.unpack(data) if data else None

    def _target(self, order: wire.Order) -> ResolvedTarget:
        target = self._targets.get(order.version)
        if target is None:
            target = wire.read_target(self._start.catalogue, order)
            if self._keeps:
                self._targets[order.version] = target
            if len(self._targets) > _KNOWN_TARGETS:
                self._targets.popitem(last=False)
        else:
            self._targets.move_to_end(order.version)
        self._formatter.masker = masker(target.secrets)
        return target

    @property
    def _keeps(self) -> bool:
        return self._since_rest >= _KEEPS_AFTER

    def _report(self, session: int) -> None:
        self._session = max(session, 0)
        self._row.report(session)

    def _send(self, frame: wire.Frame) -> None:
        data = frame.pack()
        while data:
            data = data[os.write(self._start.outbox, data) :]

    def _has_done_its_share(self) -> bool:
        if self._checks >= self._start.max_checks:
            return True
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return peak > self._start.max_memory_bytes and _resident_bytes() > self._start.max_memory_bytes

    def _supervisor_is_gone(self) -> bool:
        """By its end of the inbox. A supervisor that is just being killed may still hold that when the forkserver has
        gone after it already; but it adopts nobody any more."""
        if os.getppid() not in (self._parent, self._start.supervisor):
            return True
        poll = select.poll()  # its own: a signal may find the other one waiting
        poll.register(self._start.inbox, 0)
        found = poll.poll(0)
        return bool(found) and bool(found[0][1] & (select.POLLHUP | select.POLLERR))

    def _on_term(self, _signum: int, _frame: FrameType | None) -> None:
        """Told to leave, or the parent has died."""
        if not postpone(self._leave):
            self._leave()

    def _leave(self) -> None:
        """End the command and leave; but the forkserver's death alone is no reason to."""
        gone = self._supervisor_is_gone()
        if os.getppid() != self._parent and not gone:
            self._parent = os.getppid()  # the kernel will tell its death too
            return
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        if self._session:
            _end_session(self._session, 0.0 if gone else _TERM_S)
        os._exit(0)


def _nothing(_signum: int, _frame: FrameType | None) -> None:
    """A signal that is heard and does nothing."""


def _close_alive_descriptor() -> None:
    """Each process of the forkserver inherits the descriptor whose end tells the forkserver that its user is gone. As
    long as one worker holds it, nothing ends when the supervisor is killed (measured)."""
    server: Any = forkserver._forkserver
    if server._forkserver_alive_fd is not None:
        os.close(server._forkserver_alive_fd)
        server._forkserver_alive_fd = None


def _keep_descriptors_from_commands() -> None:
    """What arrived from the forkserver is inheritable; a command with our pipe would hide our death from the pool.
    Commands also get the usual soft limit of open files: some close all that are possible."""
    for path in list(Path("/proc/self/fd").iterdir()):
        with suppress(OSError):  # the listing's own descriptor is closed already
            os.set_inheritable(int(path.name), int(path.name) <= 2)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, _OPEN_FILES), hard))


def _reap() -> None:
    """Children are what commands left behind on purpose, in sessions of their own; some have ended by now."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def _end_session(session: int, grace_s: float) -> None:
    """TERM the command's group, wait, then KILL whatever is left of its session."""
    deadline = time.monotonic() + grace_s
    with suppress(ProcessLookupError, PermissionError):
        if grace_s:
            os.killpg(session, signal.SIGTERM)
        while time.monotonic() < deadline:
            _reap()
            os.killpg(session, 0)
            time.sleep(0.01)
    for _ in range(3):  # who forks while we look is found in the next round
        left = [seen for seen in processes.in_sessions((session,)) if seen.alive]
        for seen in left:
            processes.send(seen, signal.SIGKILL)
        if not left:
            return
