"""The workers of a pool as processes: started, watched, replaced. What they run is the pool's business."""

from __future__ import annotations

import logging
import select
import selectors
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from supervisor.logs import event
from supervisor.pool.slot import Slot
from supervisor.pool.starter import Plan, Started, Starter
from supervisor.pool.types import PoolStats
from supervisor.pool.wire import HELLO, Board, Frame

log = logging.getLogger(__name__)

_READY_WITHIN_S = 60.0  # a forkserver that imports everything on a busy small machine
_STATUS_WITHIN_S = 0.5
_LOOK_S = 0.005
_SPARE_ROWS = 16
_BACKOFF_S = (1.0, 60.0)
_FORKSERVER_LOOK_S = 2.0
_LEAVE_S = 1.0
_NEXT_REPLACEMENT_S = 0.2
_ABANDON_S = 2.0  # a killed worker that does not end: in uninterruptible sleep


class Crew:
    """Keeps `size` workers alive. `frame`, `joined`, `lost` (its pipe ended) and `ended` (how) tell the pool."""

    def __init__(
        self,
        size: int,
        selector: selectors.BaseSelector,
        plan: Plan,
        *,
        frame: Callable[[Slot, Frame], None],
        joined: Callable[[Slot], None],
        lost: Callable[[Slot], None],
        ended: Callable[[Slot, str], None],
    ) -> None:
        self.board = Board.create(size + _SPARE_ROWS)
        self.slots: dict[int, Slot] = {}  # by the descriptor that is read
        self.failures = 0  # starts in a row that failed
        self._size = size
        self._selector = selector
        self._plan = replace(plan, board=self.board.descriptor)
        self._frame, self._joined, self._lost, self._ended = frame, joined, lost, ended
        self._rows = list(range(size + _SPARE_ROWS - 1, -1, -1))
        self._asked = 0
        self._dying: list[Slot] = []
        self._abandoned: list[Slot] = []
        self._start_at = 0.0
        self._look_at_forkserver = time.monotonic() + _FORKSERVER_LOOK_S
        self._closing = False
        self._stats = PoolStats(size)
        self._starter = Starter()
        selector.register(self._starter.wake, selectors.EVENT_READ, self.ready)

    # --- what the loop calls, through the pool ------------------------------------------------------------------------

    def ready(self, fileobj: object, _mask: int) -> None:
        """A descriptor of ours can be read."""
        slot = self.slots.get(fileobj) if isinstance(fileobj, int) else None
        if slot is not None:
            self.read(slot)
        elif fileobj == self._starter.wake:
            for started in self._starter.take():
                self._arrive(started)

    def read(self, slot: Slot) -> None:
        """Take in what this worker has sent, and its end."""
        for frame in slot.read():
            if frame.kind == HELLO:
                slot.ready = True
                slot.kill_at = float("inf")
                self.failures = 0
                self._joined(slot)
            else:
                self._frame(slot, frame)
        if slot.died_at is not None:
            slot.died_at = time.monotonic()
            self._selector.unregister(slot.outbox_read)
            del self.slots[slot.outbox_read]
            self._dying.append(slot)
            self._lost(slot)

    def turn(self, now: float) -> float:
        """Bury the dead, start the missing, look after the forkserver; the time by which to call again."""
        wake = min(self._bury(now), self._start_missing(now))
        if now >= self._look_at_forkserver:
            self._look_at_forkserver = now + _FORKSERVER_LOOK_S
            self._replace_adopted(now)
        return min(wake, self._look_at_forkserver)

    def stats(self) -> PoolStats:
        return self._stats

    def count_recycled(self) -> None:
        self._stats = replace(self._stats, recycled=self._stats.recycled + 1)

    def starting(self) -> bool:
        """Whether a worker is on its way."""
        return self._asked > 0 or any(not slot.ready for slot in self.slots.values())

    def wait(self, seconds: float) -> None:
        """Wait for our own descriptors only: at start and stop, when no loop turns."""
        poll = select.poll()
        for descriptor in (self._starter.wake, *self.slots):
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            self.ready(descriptor, selectors.EVENT_READ)

    # --- start --------------------------------------------------------------------------------------------------------

    def _start_missing(self, now: float) -> float:
        missing = self._size - len(self.slots) - len(self._dying) - self._asked + len(self._abandoned)
        if missing <= 0 or self._closing or not self._rows:
            return float("inf")
        if now < self._start_at:
            return self._start_at
        if self.failures:  # one at a time shows whether it works again
            missing = 0 if self.starting() else 1
        for _ in range(min(missing, len(self._rows))):
            row = self._rows.pop()
            self.board.clear(row)
            self._asked += 1
            self._starter.ask(replace(self._plan, row=row))
        return float("inf")

    def _arrive(self, started: Started) -> None:
        self._asked -= 1
        if started.process is None:
            self._rows.append(started.row)
            if not self._closing:
                self._failed(started.error)
            return
        slot = Slot.of(started)
        slot.kill_at = time.monotonic() + _READY_WITHIN_S
        self.slots[slot.outbox_read] = slot
        self._selector.register(slot.outbox_read, selectors.EVENT_READ, self.ready)
        if self._closing:
            slot.tell_to_leave(time.monotonic())

    def _failed(self, reason: str) -> None:
        shortest, longest = _BACKOFF_S
        wait_s = min(longest, shortest * 2 ** min(self.failures, 10))
        self.failures += 1
        self._start_at = time.monotonic() + wait_s
        self._stats = replace(self._stats, start_failures=self._stats.start_failures + 1, last_start_error=reason)
        event(log, "worker.start_failed", level=logging.ERROR, reason=reason, next_try_s=wait_s)

    # --- end ----------------------------------------------------------------------------------------------------------

    def kill(self, slot: Slot) -> None:
        """SIGKILL; its end of the pipe tells when it is over. One that does not end is replaced all the same."""
        slot.signal(signal.SIGKILL)
        slot.kill_at = time.monotonic() + _ABANDON_S

    def abandon(self, slot: Slot) -> None:
        """Go on without a worker that can't be ended now. Its row and descriptors stay with it until it is over."""
        if slot not in self._abandoned:
            self._abandoned.append(slot)
            event(log, "worker.stuck", level=logging.ERROR, pid=slot.pid)
        slot.kill_at = float("inf")

    def _bury(self, now: float) -> float:
        wake = float("inf")
        for slot in list(self._dying):
            code = slot.exit_code()
            if code is None and now - (slot.died_at or now) < _STATUS_WITHIN_S:
                wake = now + _LOOK_S
                continue
            if code is None:
                slot.signal(signal.SIGKILL)  # closed its pipe without leaving, or nobody tells its end
            self._dying.remove(slot)
            if slot in self._abandoned:
                self._abandoned.remove(slot)
            self._after(slot, _how(code))
        return wake

    def _after(self, slot: Slot, how: str) -> None:
        self._stats = replace(self._stats, restarts=self._stats.restarts + (0 if self._closing else 1))
        told = slot.told_to_leave or slot.retiring or slot.killed_late
        if not told:
            event(log, "worker.ended", level=logging.WARNING, pid=slot.pid, how=how, checks=slot.checks)
        if not slot.ready and not self._closing:
            self._failed(f"a worker ended before it was ready: {how}")
        elif not told and not slot.checks and slot.current is None:
            self._failed(f"a worker ended before its first check: {how}")
        self._ended(slot, how)
        slot.close()
        self._rows.append(slot.row)

    def _replace_adopted(self, now: float) -> None:
        """When the forkserver has died, its workers are our children and go on. They are replaced one by one, idle."""
        if self.starting() or self._closing:
            return
        poll = select.poll()
        by_sentinel = {slot.process.sentinel: slot for slot in self.slots.values()}
        for sentinel in by_sentinel:
            poll.register(sentinel, select.POLLIN)
        for sentinel, _ in poll.poll(0):
            slot = by_sentinel[sentinel]
            if slot.takes_work and slot.current is None:
                event(log, "worker.replaced", pid=slot.pid, reason="the forkserver has ended")
                slot.tell_to_leave(now + _LEAVE_S)
                self._look_at_forkserver = now + _NEXT_REPLACEMENT_S
                return

    def overdue(self, now: float) -> Iterator[Slot]:
        """The workers whose time is up, after a last look at what they have sent."""
        for slot in [slot for slot in self.slots.values() if slot.kill_at <= now]:
            self.read(slot)
            if slot.died_at is None and slot.kill_at <= now:
                yield slot

    def next_kill(self) -> float:
        return min((slot.kill_at for slot in self.slots.values()), default=float("inf"))

    def close(self, grace_s: float, turn: Callable[[float], bool]) -> None:
        """Tell all to leave, kill who stays, and wait; `turn(now)` does its part and says if it has more to do."""
        self._closing = True
        now = time.monotonic()
        for slot in self.slots.values():
            slot.tell_to_leave(now + grace_s)
        late = self._starter.close(grace_s)
        self._selector.unregister(self._starter.wake)
        for started in late:
            self._arrive(started)
        give_up = time.monotonic() + grace_s + 3.0
        while (busy := turn(time.monotonic())) or self.slots or self._dying:
            if time.monotonic() > give_up:
                left = [slot.pid for slot in self.slots.values()]
                event(log, "pool.left_behind", level=logging.ERROR, workers=left, commands=busy)
                break
            self._wait_for_slots(0.02)
        for slot in list(self.slots.values()):
            self._selector.unregister(slot.outbox_read)
            slot.close()
        self.slots.clear()
        self.board.close()

    def _wait_for_slots(self, seconds: float) -> None:
        poll = select.poll()
        for descriptor in self.slots:
            poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll(seconds * 1000):
            self.ready(descriptor, selectors.EVENT_READ)


def _how(code: int | None) -> str:
    """In words: how a process ended."""
    if code is None:
        return "in a way nobody could tell"
    if code >= 0:
        return f"with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"by {name} (out of memory?)" if -code == signal.SIGKILL else f"by {name}"
