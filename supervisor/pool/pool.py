"""The pool: hands runs to workers, watches their deadlines, gives back verdicts. Single-threaded, driven by the loop.

A worker that was used last is used first: its caches are warm. When none is idle, a worker that has just begun gets one
more check ahead, so that it need not wait for us in between; what it has not begun is taken back as soon as another
worker has nothing to do, or when it hangs or dies.
"""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from supervisor.errors import StartError
from supervisor.model import CheckResult
from supervisor.pool.crew import Crew
from supervisor.pool.lost import late_failure, lost_result
from supervisor.pool.orphans import Orphans
from supervisor.pool.slot import Slot
from supervisor.pool.starter import Plan
from supervisor.pool.types import Finished, Freed, PoolStats, Run, Stuck, Verdict, WorkerStat
from supervisor.pool.wire import FREED, RETIRING, VERDICT, Catalogue, Frame
from supervisor.processes import become_subreaper, look
from supervisor.worker import REGISTRY, internal_failure

_GRACE_S = 1.0  # after the deadline, for a worker whose verdict is due
_AFTER_VERDICT_S = 4.0
_CANCEL_S = 1.0
_AHEAD_WITHIN_S = 0.05  # only a worker that began this recently gets a check ahead
_AHEAD = 1  # checks ahead for a worker of which we know nothing
_QUICK_S = 0.003
_QUICK_AHEAD = 3  # for one whose last check was quick
_TAKE_BACK_AFTER_S = 0.003
_CORES = max(2, len(os.sched_getaffinity(0)))
_STALL_S = 0.5
_NEVER = float("inf")
_START_WITHIN_S = 90.0
_MEMORY_LIMIT_BYTES = 256 * 1024 * 1024


class Pool:
    """`size` worker processes, one check at a time each. `registry` names the module whose CHECKERS they use."""

    def __init__(
        self,
        size: int,
        selector: selectors.BaseSelector,
        *,
        registry: str = REGISTRY,
        max_checks: int = 10_000,
        max_memory_bytes: int = _MEMORY_LIMIT_BYTES,
    ) -> None:
        self._size = size
        self._selector = selector
        self._catalogue = Catalogue()
        self._plan = Plan(-1, -1, self._catalogue.descriptor, registry, max_checks, max_memory_bytes)
        self._orphans = Orphans()
        self._idle: list[Slot] = []  # a stack
        self._busy: dict[Slot, None] = {}  # in the order in which their runs began
        self._waiting: deque[Run] = deque()
        self._out: list[Verdict] = []
        self._wake = 0.0
        self._stopped = False
        self._crew: Crew

    # --- what the loop calls ------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the workers; returns when the first is ready. Raises StartError if none can be started."""
        become_subreaper()
        try:
            self._crew = Crew(
                self._size,
                self._selector,
                self._plan,
                frame=self._on_frame,
                joined=self._on_joined,
                lost=self._on_lost,
                ended=self._on_ended,
            )
        except OSError as error:
            raise StartError(f"the worker pool could not be set up: {error}") from error
        deadline = time.monotonic() + _START_WITHIN_S
        while not self._idle:
            now = time.monotonic()
            wake = self._crew.turn(now)
            failed = self._crew.failures and not self._crew.starting()
            if failed or now > deadline:
                reason = self._crew.stats().last_start_error or f"none was ready within {_START_WITHIN_S:g} s"
                self.stop(1.0)
                raise StartError(f"no worker process could be started, so no check would ever run: {reason}")
            self._crew.wait(max(0.0, min(wake - now, 0.1)))

    def free(self) -> int:
        """How many runs are welcome now."""
        room = sum(left for _, left in self._with_room(time.monotonic()))
        return max(0, len(self._idle) + room - len(self._waiting))

    def submit(self, run: Run) -> None:
        """Run this as soon as a worker can. Never blocks."""
        self._waiting.append(run)
        self._dispatch(time.monotonic())

    def ready(self, fileobj: object, mask: int) -> None:
        """A descriptor that the pool registered can be read."""
        self._crew.ready(fileobj, mask)

    def turn(self, now: float) -> list[Verdict]:
        """What happened since the last turn, in order. Kills what is late, replaces what died."""
        if now >= self._wake:
            self._upkeep(now)
        out, self._out = self._out, []
        return out

    def next_wake(self) -> float:
        """Monotonic time by which `turn` must be called again."""
        return self._wake

    def cancel(self, run_id: int) -> None:
        """End this run without a verdict: a worker that has begun it is told to leave, and killed after 1 s."""
        for run in self._waiting:
            if run.id == run_id:
                self._waiting.remove(run)
                self._release(run)
                return
        for slot in self._busy:
            ahead = next((run for run in slot.ahead if run.id == run_id), None)
            if ahead is not None:
                self._cancel_ahead(slot, ahead)
                return
            if slot.current is not None and slot.current.id == run_id:
                self._cancel(slot)
                return

    def forget(self, keep: frozenset[str]) -> None:
        """After a reload: the ids of all targets; what the pool remembers of others goes."""
        self._catalogue.forget(keep)

    def stop(self, grace_s: float) -> None:
        """End all workers and commands: TERM, `grace_s`, KILL. No verdicts any more."""
        if self._stopped:
            return
        self._stopped = True
        for slot in list(self._busy):
            self._recall(slot)
            slot.cancelled = True
        self._waiting.clear()
        self._crew.close(grace_s, self._last_turn)
        self._orphans.reap_all()
        self._catalogue.close()
        self._idle.clear()
        self._busy.clear()
        self._wake = _NEVER

    def stats(self) -> PoolStats:
        """The pool at a glance."""
        now, slots = time.monotonic(), list(self._crew.slots.values())
        workers = tuple(_stat(slot, now) for slot in slots)
        hung = tuple(
            Stuck(slot.current.target.id, (seen,))
            for slot in slots
            if slot.killed_late and slot.current and slot.kill_at == _NEVER and (seen := look(slot.pid))
        )
        return replace(
            self._crew.stats(),
            busy=len(self._busy),
            idle=len(self._idle),
            waiting=len(self._waiting),
            stuck=self._orphans.stuck(now) + hung,
            workers=workers,
        )

    # --- giving out work ----------------------------------------------------------------------------------------------

    def _with_room(self, now: float) -> Iterator[tuple[Slot, int]]:
        """Busy workers that may get more checks, and how many; the latest beginner first."""
        for slot in reversed(self._busy):
            if now - slot.started > _AHEAD_WITHIN_S:
                return
            left = (_QUICK_AHEAD if slot.quick else _AHEAD) - len(slot.ahead)
            if left > 0 and slot.takes_work and not (slot.verdict_sent or slot.cancelled or slot.narrow):
                yield slot, left

    def _dispatch(self, now: float) -> None:
        while self._waiting or self._level(now):
            slot = self._choose(now)
            if slot is None:
                return
            run = self._waiting.popleft()
            if not slot.put(self._catalogue.order(run.id, run.target)):
                self._requeue(run)
                if slot.current is None:  # nothing can be in its way but itself
                    self._crew.kill(slot)
            elif slot.current is None:
                self._begin(slot, run, now)
            else:
                slot.ahead.append(run)
                if self._idle:
                    self._wake = min(self._wake, slot.started + _TAKE_BACK_AFTER_S)

    def _choose(self, now: float) -> Slot | None:
        """Once every core has a worker, one that is warm and quick comes before one that would have to be woken."""
        if len(self._busy) >= _CORES:
            for slot, _ in self._with_room(now):
                if slot.quick and now - slot.started < _QUICK_S:
                    return slot
        while self._idle:
            slot = self._idle.pop()
            if slot.takes_work:
                return slot
        return next((slot for slot, _ in self._with_room(now)), None)

    def _begin(self, slot: Slot, run: Run, now: float) -> None:
        slot.current = run
        slot.started = now
        slot.verdict_sent = False
        slot.cancelled = False
        slot.kill_at = now + run.target.timeout_s + _GRACE_S
        self._busy.pop(slot, None)
        self._busy[slot] = None
        self._wake = min(self._wake, slot.kill_at)

    def _level(self, now: float) -> bool:
        """Nobody waits behind a slow check while a worker is idle: whether one was taken back, and waits for that."""
        if not self._idle:
            return False
        for slot in self._busy:  # and no further than the first: the dict changes
            if not slot.ahead:
                continue
            due = slot.started + _TAKE_BACK_AFTER_S
            if now < due:
                self._wake = min(self._wake, due)
                return False
            slot.quick = False
            self._recall(slot)
            return bool(self._waiting)
        return False

    def _recall(self, slot: Slot) -> None:
        """Take back what this worker has not begun."""
        begun = slot.current
        given = list(slot.ahead) if begun is None else [begun, *slot.ahead]
        taken = slot.take_back()
        for run in reversed(given):
            if run.id in taken:
                self._requeue(run)
        # not always the last ones: the worker may have read an order between two of our reads
        kept = [run for run in given if run.id not in taken]
        slot.ahead = deque(kept[1:])
        if kept and kept[0] is not begun:
            self._begin(slot, kept[0], time.monotonic())
        elif begun is not None and not kept:  # it has not even begun that: it is idle, but the last to get work
            slot.current = None
            slot.kill_at = _NEVER
            self._busy.pop(slot, None)
            self._idle.insert(0, slot)

    def _requeue(self, run: Run) -> None:
        self._catalogue.release(run.id)
        self._waiting.appendleft(run)

    # --- what comes back ----------------------------------------------------------------------------------------------

    def _on_joined(self, slot: Slot) -> None:
        self._idle.append(slot)
        self._dispatch(time.monotonic())

    def _on_frame(self, slot: Slot, frame: Frame) -> None:
        now = time.monotonic()
        run = slot.current
        if run is None or run.id != frame.run_id:
            return  # a run that was cancelled or given up meanwhile
        if frame.kind & VERDICT:
            self._finish(slot, run, frame.payload, frame.started)
            slot.kill_at = now + _AFTER_VERDICT_S
            self._wake = min(self._wake, slot.kill_at)
        if frame.kind & FREED:
            stuck = frame.payload if not frame.kind & VERDICT else ()
            self._free(slot, run, stuck or (), now, retiring=bool(frame.kind & RETIRING))

    def _finish(self, slot: Slot, run: Run, result: CheckResult, started: float) -> None:
        if not slot.verdict_sent and not slot.cancelled:
            self._out.append(Finished(run, result, max(0.0, started - run.due)))
        slot.verdict_sent = True

    def _free(self, slot: Slot, run: Run, stuck: tuple[object, ...], now: float, *, retiring: bool) -> None:
        slot.checks += 1
        slot.quick = now - slot.started < _QUICK_S
        slot.current = None
        if stuck:
            self._catalogue.release(run.id)
            self._orphans.add_stuck(run, stuck, now)  # type: ignore[arg-type]
            self._wake = now
        else:
            self._release(run)
        if retiring:
            slot.retiring = True
            slot.kill_at = now + _GRACE_S
            self._crew.count_recycled()
            self._busy.pop(slot, None)
            self._recall(slot)
        elif slot.ahead:
            self._begin(slot, slot.ahead.popleft(), now)
        else:
            self._busy.pop(slot, None)
            if slot.takes_work:
                slot.kill_at = _NEVER
                self._idle.append(slot)
        self._dispatch(now)

    def _release(self, run: Run) -> None:
        self._catalogue.release(run.id)
        self._out.append(Freed(run))

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _upkeep(self, now: float) -> None:
        if self._wake and now - self._wake > _STALL_S:  # we were stopped or blocked, and so perhaps were the workers
            for slot in self._busy:
                slot.kill_at += now - self._wake
        for slot in self._crew.overdue(now):
            self._late(slot, now)
        wake = self._crew.turn(now)
        for run in self._orphans.turn(now):
            self._release(run)
        self._wake = min(wake, self._orphans.next_wake(), self._crew.next_kill())
        self._dispatch(now)

    def _late(self, slot: Slot, now: float) -> None:
        if slot.killed_late:
            self._crew.abandon(slot)
            return
        self._recall(slot)
        if slot.current is not None and not slot.verdict_sent:
            failure = late_failure(self._crew.board.read(slot.row), slot.current)
            self._finish(slot, slot.current, lost_result(slot.current, slot.started, failure, now), slot.started)
        slot.killed_late = True
        self._crew.kill(slot)

    def _cancel_ahead(self, slot: Slot, run: Run) -> None:
        self._recall(slot)
        if run in self._waiting:
            self._waiting.remove(run)
            self._release(run)
            return
        self._crew.read(slot)  # it has begun this one, so it has said that those before are over
        if slot.current is run:
            self._cancel(slot)

    def _cancel(self, slot: Slot) -> None:
        self._recall(slot)
        if slot.current is None:
            run = self._waiting.popleft()
            self._release(run)
            return
        slot.cancelled = True
        now = time.monotonic()
        slot.tell_to_leave(now + _CANCEL_S)
        self._wake = min(self._wake, slot.kill_at)

    def _on_lost(self, slot: Slot) -> None:
        """A worker's pipe has ended: nothing more is given to it; how it ended is known in a moment."""
        self._drop(slot)
        self._wake = 0.0

    def _drop(self, slot: Slot) -> None:
        if slot in self._idle:
            self._idle.remove(slot)
        self._busy.pop(slot, None)

    def _on_ended(self, slot: Slot, how: str) -> None:
        now = time.monotonic()
        self._recall(slot)
        self._drop(slot)
        run = slot.current
        if run is not None:
            place = self._crew.board.read(slot.row)
            failure = internal_failure(f"worker ended {how}")
            self._finish(slot, run, lost_result(run, slot.started, failure, now), slot.started)
            if place.session:
                self._catalogue.release(run.id)
                self._orphans.add_session(run, place, now)
            else:
                self._release(run)
            slot.current = None
        self._wake = 0.0
        self._dispatch(now)

    def _last_turn(self, now: float) -> bool:
        self._upkeep(now)
        return self._orphans.any_left(now)


def _stat(slot: Slot, now: float) -> WorkerStat:
    if slot.current is None:
        return WorkerStat(slot.pid, None, 0.0, slot.checks)
    return WorkerStat(slot.pid, slot.current.target.id, now - slot.started, slot.checks)
