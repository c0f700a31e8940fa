"""The turn: what is due goes to the pool, what comes back is recorded, signals and requests are acted on.

One thread, one selector. Signal handlers only enqueue; each turn makes things true again. Three clocks: the schedule
runs on CLOCK_BOOTTIME (a suspended machine's slots are missed), deadlines on the monotonic clock, timestamps on the
wall clock; they are never compared, only their differences travel.
"""

from __future__ import annotations

import logging
import selectors
import signal
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.errors import CheckvisorError
from supervisor.logs import event
from supervisor.mailbox import Mailbox
from supervisor.model import Config, ResolvedTarget
from supervisor.notify import Notifier
from supervisor.pool import Finished, Freed, Pool, Run
from supervisor.record import Recorder
from supervisor.schedule import Due, Schedule
from supervisor.store.write import Writer

log = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
DRAIN_S = 5.0  # after SIGTERM, for checks that are under way
_LONGEST_SLEEP_S = 1.0
_STATUS_S = 10.0


@dataclass(slots=True)
class LoopStats:
    """Counts since the start. Between two turns: scheduled = results + missed + cancelled + queued + running."""

    scheduled: int = 0
    results: int = 0
    missed: int = 0
    cancelled: int = 0
    errors: int = 0
    lag_sum_s: float = 0.0
    lag_max_s: float = 0.0
    queued: int = 0
    running: int = 0
    held: int = 0
    last_turn: float = 0.0


LAG_BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0, 30.0)


def boottime() -> float:
    """The schedule's clock: seconds, suspended time included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Loop:
    """The supervisor's main thread. `on_hangup` is called for SIGHUP, `on_beat` once a turn."""

    def __init__(
        self,
        *,
        selector: selectors.BaseSelector,
        mailbox: Mailbox,
        pool: Pool,
        schedule: Schedule,
        recorder: Recorder,
        writer: Writer,
        notifier: Notifier,
        on_hangup: Callable[[], None],
        on_beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._selector = selector
        self._mailbox = mailbox
        self._pool = pool
        self._schedule = schedule
        self._recorder = recorder
        self._writer = writer
        self._notifier = notifier
        self._on_hangup = on_hangup
        self._on_beat = on_beat
        self._targets: dict[str, ResolvedTarget] = {}
        self._queue: deque[Due] = deque()
        self._running: dict[str, Run] = {}  # by target
        self._blocked: dict[str, Due] = {}  # due while a cancelled run of an earlier configuration still ends
        self._cancelled: set[int] = set()
        self._judged: set[int] = set()  # the verdict is in, the run is not freed yet
        self._waiting: set[str] = set()  # freed, but the result waits for room
        self._next_run = 0
        self._signals: deque[int] = deque()
        self._stop_signals = 0
        self._next_heartbeat = self._next_status = 0.0
        self.stats = LoopStats()
        self.lag_counts = [0] * (len(LAG_BOUNDS_S) + 1)
        selector.register(mailbox.reader, selectors.EVENT_READ, mailbox.ready)

    # --- signals and requests ----------------------------------------------------------------------------------------

    def handle_signals(self) -> None:
        """TERM and INT stop, HUP reloads. The handlers only enqueue; the wake-up descriptor ends the sleep."""
        signal.set_wakeup_fd(self._mailbox.writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda received, _frame: self._signals.append(received))

    def _act_on_signals(self) -> None:
        while self._signals:
            number = self._signals.popleft()
            event(log, "signal.received", signal=signal.Signals(number).name)
            if number == signal.SIGHUP:
                self._on_hangup()
            else:
                self._stop_signals += 1

    @property
    def stopping(self) -> bool:
        """A stop was asked for."""
        return self._stop_signals > 0

    @property
    def hurried(self) -> bool:
        """It was asked for twice: stop at once."""
        return self._stop_signals > 1

    def set_config(self, config: Config) -> None:
        """Make this the running set. Unchanged targets keep their rhythm; the runs of what is gone are cancelled."""
        wanted = {target.id: target for target in config.targets if target.enabled}
        for target_id, run in self._running.items():
            if target_id not in wanted and run.id not in self._cancelled and run.id not in self._judged:
                self._cancelled.add(run.id)
                self._pool.cancel(run.id)
        due_before = len(self._queue) + len(self._blocked)
        self._queue = deque(due for due in self._queue if due.target_id in wanted)
        self._blocked = {name: due for name, due in self._blocked.items() if name in wanted}
        self.stats.cancelled += due_before - len(self._queue) - len(self._blocked)
        self._waiting &= wanted.keys()
        self._targets = wanted
        self._schedule.set(config.targets, boottime())
        self._recorder.set_config(config, time.time_ns() // 1_000_000)
        self._pool.forget(frozenset(wanted))

    # --- the turn ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Turn until a stop is asked for."""
        while not self.stopping:
            self._guarded_turn()

    def drain(self) -> None:
        """After the stop: record what ends within 5 s, start nothing new. A second signal ends it at once."""
        self.stats.cancelled += len(self._queue) + len(self._blocked)
        self._queue.clear()
        self._blocked.clear()
        until = time.monotonic() + DRAIN_S
        while self._running and not self.hurried and time.monotonic() < until:
            self._guarded_turn()
        self.stats.cancelled += self._unjudged()
        self._record_missed()

    def _guarded_turn(self) -> None:
        try:
            self.turn()
        except CheckvisorError:
            raise  # it can't go on: the process ends, and whoever runs it starts it again
        except Exception as error:  # noqa: BLE001 - one bad turn must not end the supervisor; it is logged and counted
            self.stats.errors += 1
            event(log, "loop.error", level=logging.ERROR, error=repr(error), exc_info=True)
            time.sleep(0.1)  # an error in every turn must not burn a core

    def turn(self) -> None:
        """Sleep until something is to be done, and do it."""
        for key, mask in self._selector.select(self._sleep_s()):
            key.data(key.fileobj, mask)
        self._act_on_signals()
        self._mailbox.turn()
        for verdict in self._pool.turn(time.monotonic()):
            if isinstance(verdict, Finished):
                self._finished(verdict)
            else:
                self._freed(verdict)
        for target_id in self._recorder.retry_held():
            if target_id in self._waiting:
                self._waiting.discard(target_id)
                if target_id not in self._running:  # else it is released when it is freed
                    self._release(target_id)
        if not self.stopping:
            self._start_due()
        self._tick(time.monotonic())

    def _sleep_s(self) -> float:
        wake_s = min(self._pool.next_wake(), self._next_heartbeat) - time.monotonic()
        if not self.stopping:
            wake_s = min(wake_s, self._schedule.next_wake() - boottime())
        return max(0.0, min(wake_s, _LONGEST_SLEEP_S))

    def _start_due(self) -> None:
        now = boottime()
        if self._schedule.next_wake() <= now:
            due = self._schedule.due(now)
            self.stats.scheduled += len(due)
            self._queue.extend(due)
        if not self._queue:
            return
        free = self._pool.free()
        while self._queue and free > 0:
            due_run = self._queue.popleft()
            if due_run.target_id in self._running:
                self._blocked[due_run.target_id] = due_run
                continue
            self._start(due_run, now)
            free -= 1

    def _start(self, due: Due, now: float) -> None:
        self._next_run += 1
        run = Run(self._next_run, self._targets[due.target_id], time.monotonic() - (now - due.due))
        self._running[due.target_id] = run
        self._schedule.started(due.target_id, now)
        self._pool.submit(run)

    def _finished(self, verdict: Finished) -> None:
        if verdict.run.id in self._cancelled:
            return
        self._judged.add(verdict.run.id)
        self._count_lag(verdict.queued_s)
        self.stats.results += 1
        if not self._recorder.record(verdict.run.target, verdict.result):
            self._waiting.add(verdict.run.target.id)

    def _freed(self, verdict: Freed) -> None:
        run = verdict.run
        target_id = run.target.id
        if self._running.get(target_id) is run:
            del self._running[target_id]
        self._judged.discard(run.id)
        if run.id in self._cancelled:
            self._cancelled.discard(run.id)
            self.stats.cancelled += 1
        elif target_id not in self._waiting:
            self._release(target_id)
        if target_id in self._blocked:
            self._queue.appendleft(self._blocked.pop(target_id))

    def _release(self, target_id: str) -> None:
        """The target may run again."""
        self._schedule.finished(target_id, boottime(), retry=self._recorder.quick_retry(target_id))

    def _unjudged(self) -> int:
        """Runs that are with a worker and have given no verdict."""
        return sum(run.id not in self._judged for run in self._running.values())

    def _count_lag(self, lag_s: float) -> None:
        self.stats.lag_sum_s += lag_s
        self.stats.lag_max_s = max(self.stats.lag_max_s, lag_s)
        for index, bound in enumerate(LAG_BOUNDS_S):
            if lag_s <= bound:
                self.lag_counts[index] += 1
                return
        self.lag_counts[-1] += 1

    # --- now and then ------------------------------------------------------------------------------------------------

    def _tick(self, now: float) -> None:
        """At the end of a whole turn: heartbeat, missed slots, watchdog, status line."""
        self.stats.last_turn = now
        self.stats.queued = len(self._queue) + len(self._blocked)
        self.stats.running = self._unjudged()
        self.stats.held = self._recorder.held
        self._notifier.feed(now)
        self._on_beat()
        if now >= self._next_heartbeat:
            self._next_heartbeat = now + HEARTBEAT_S
            self._writer.put_heartbeat(time.time_ns() // 1_000_000)
            self._record_missed()
        if now >= self._next_status:
            self._next_status = now + _STATUS_S
            self._notifier.status(self._status())

    def _record_missed(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        for target_id, count in self._schedule.take_missed():
            self.stats.scheduled += count
            self.stats.missed += count
            self._writer.put_missed(target_id, now_ms, count)
            event(log, "check.missed", level=logging.WARNING, target=target_id, slots=count)

    def _status(self) -> str:
        counts = self._recorder.counts()
        shown = ", ".join(f"{number} {name}" for name, number in sorted(counts.items()))
        store = self._writer.stats()
        trouble = f"; the database can't be written: {store.last_error}" if store.degraded_since is not None else ""
        return f"{sum(counts.values())} targets: {shown or 'none'}{trouble}"

    def next_due_ms(self, target_id: str) -> int | None:
        """When the target runs next, on the wall clock of now."""
        due = self._schedule.next_due(target_id)
        return None if due is None else round((time.time() + due - boottime()) * 1000)
