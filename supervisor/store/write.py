"""The writer thread: takes what the loop hands over, and commits it in batches. The loop never waits for it.

A fault of the store (busy, locked, full, I/O, read-only, can't open) keeps everything in memory and is tried again
every 5 s; any other error is the fault of what is written: the batch is halved until the one that fails stands alone.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from supervisor import logs
from supervisor.model import Item, ResolvedTarget, Retention
from supervisor.store import memory as queue
from supervisor.store.connect import BUSY_TIMEOUT_S, FILE_NAME, is_fault
from supervisor.store.load import Loaded
from supervisor.store.memory import Memory, Op, Outcome, Snapshot
from supervisor.store.outbox import DeliveryOutcome
from supervisor.store.poison import substitutes
from supervisor.store.retention import Cleaner
from supervisor.store.session import WRITE_ERRORS, Session, StoreFault, reason_of

log = logging.getLogger(__name__)
RETRY_S = 5.0
_LONGEST_WINDOW_S = 1.0
_SLOW_COMMIT_S = 0.02
_IDLE_S = 1.0
_STOPPING_BUSY_S = 1.0

Numbered = list[tuple[int, Op]]


@dataclass(frozen=True, slots=True)
class WriterStats:
    """How the writer is. `degraded_since` (UTC ms) and `last_error` are None while the store works."""

    queued: int
    degraded_since: int | None
    last_error: str | None
    lost: int
    commit_ms: float
    wal_bytes: int
    store_errors: int
    poisoned: int
    window_ms: float


class Writer:
    """The only writer of a data directory. Its methods may be called from any thread and never block, but `open` and
    `flush_and_stop`."""

    def __init__(
        self,
        data_dir: Path,
        *,
        retention: Retention | None = None,
        committed: Callable[[Item], None] | None = None,
        retry_s: float = RETRY_S,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
        limit: int = queue.LIMIT,
    ) -> None:
        self.path = data_dir / FILE_NAME
        self._session = Session(self.path, busy_timeout_s=busy_timeout_s)
        self._memory = Memory(limit)
        self._cleaner = Cleaner(retention or Retention())
        self._committed = committed
        self._retry_s = retry_s
        self._retry_at = 0.0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._boot, self._batches = uuid.uuid4().hex, 0
        self._doubt: tuple[str, Numbered] | None = None  # a batch whose commit gave an error
        self._degraded_since: int | None = None
        self._last_error: str | None = None
        self._commit_s = 0.0
        self._store_errors = 0
        self._poisoned = 0

    # --- start -------------------------------------------------------------------------------------------------------

    def open(self) -> Loaded:
        """Open, migrate and read the database. A store that can't be used now is no error (`Loaded.problem`): it is
        tried again. Raises StoreError for a newer, corrupt or foreign file."""
        try:
            return self._session.open()
        except StoreFault as fault:
            self._fault(str(fault))
            return self._session.look(str(fault))

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def set_retention(self, retention: Retention) -> None:
        """A reload may change it; the next pass uses it."""
        self._cleaner.retention = retention

    # --- what the loop hands over ------------------------------------------------------------------------------------

    def put(self, item: Item) -> bool:
        """Take one item. False when a result without an event had to overflow for it and is counted as lost."""
        return self._memory.put_item(item)

    def put_missed(self, target_id: str, slot_ms: int, count: int = 1) -> None:
        """Count slots at which no run started."""
        self._memory.put_missed(target_id, slot_ms, count)

    def put_targets(self, targets: tuple[ResolvedTarget, ...], now_ms: int) -> None:
        """The running set, in its order; what is not in it is removed. Items of new targets come after it."""
        self._memory.put(Snapshot(targets, now_ms))

    def put_meta(self, key: str, value: str) -> None:
        """Set a value in `meta`."""
        self._memory.put_meta(key, value)

    def put_heartbeat(self, now_ms: int) -> None:
        """The loop turns."""
        self._memory.put_meta("heartbeat_at", str(now_ms))

    def put_outcome(self, outcome: DeliveryOutcome, on_commit: Callable[[], None]) -> None:
        """Commit a delivery outcome; `on_commit` is called in the writer's thread."""
        self._memory.put(Outcome(outcome, on_commit))

    def full(self, stream: str) -> bool:
        """Whether an event of this stream has to wait for a place in memory (W19)."""
        return self._memory.full(stream)

    def alive(self) -> bool:
        """Whether the thread runs; once it was started, only an error of the program ends it before the stop."""
        return self._thread.is_alive()

    def stats(self) -> WriterStats:
        """How the writer is now."""
        try:
            wal_bytes = os.stat(f"{self.path}-wal").st_size  # noqa: PTH116
        except OSError:
            wal_bytes = 0
        return WriterStats(
            queued=len(self._memory),
            degraded_since=self._degraded_since,
            last_error=self._last_error,
            lost=self._memory.lost,
            commit_ms=self._commit_s * 1000,
            wal_bytes=wal_bytes,
            store_errors=self._store_errors,
            poisoned=self._poisoned,
            window_ms=self._memory.window_s * 1000,
        )

    def flush_and_stop(self, deadline_s: float) -> tuple[Item, ...]:
        """Write what waits, close the database, end the thread. Returns the items that could not be written."""
        self._stop.set()
        self._memory.stop()
        if self._thread.is_alive():
            self._thread.join(deadline_s)
        elif self._thread.ident is None:
            self._session.close()
        return self._memory.items()

    # --- the thread --------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                stopping = self._stop.is_set()
                if stopping:
                    self._session.hurry(_STOPPING_BUSY_S)
                if self._degraded_since is not None and not stopping:
                    self._stop.wait(max(0.0, self._retry_at - time.monotonic()))
                degraded = self._degraded_since is not None
                idle_s = 0.0 if self._cleaner.due(time.monotonic()) else _IDLE_S
                ops = self._memory.take(idle_s, everything=degraded or stopping)
                worked = self._attempt(ops) if ops or degraded else True
                if stopping and (not worked or not len(self._memory)):
                    return
                if worked and not stopping:
                    self._clean()
        finally:
            if not self._stop.is_set():  # a bug: say so, the loop shows it
                self._fault("the writer's thread has ended by an error of the program, see the log")
            self._session.close()

    def _attempt(self, ops: Numbered) -> bool:
        """Try one batch. False when the store failed; then everything stays in memory."""
        try:
            self._session.ready()
            ops = self._without_doubt(ops)
            self._write(ops)
        except StoreFault as fault:
            self._memory.give_back()
            self._fault(str(fault))
            return False
        if self._degraded_since is not None:
            logs.event(log, "store.recovered", written=len(ops), lost=self._memory.lost)
            self._degraded_since = self._last_error = None
        return True

    def _without_doubt(self, ops: Numbered) -> Numbered:
        """A commit whose answer was an error may have happened all the same: the mark in `meta` tells."""
        if self._doubt is None:
            return ops
        batch_id, doubtful = self._doubt
        self._doubt = None
        if self._session.last_batch != batch_id:
            return ops
        self._settle(doubtful)
        gone = {number for number, _ in doubtful if number >= 0}
        return [pair for pair in ops if pair[0] not in gone and pair not in doubtful]

    def _write(self, ops: Numbered) -> None:
        try:
            self._commit(ops, ops)
        except WRITE_ERRORS as error:
            if isinstance(error, StoreFault) or is_fault(error):
                raise StoreFault(reason_of(error)) from error
            if len(ops) > 1:
                half = len(ops) // 2
                self._write(ops[:half])
                self._write(ops[half:])
            else:
                self._write_poison(ops, reason_of(error))

    def _commit(self, ops: Numbered, originals: Numbered) -> None:
        """One transaction. `originals` are what `ops` stand for in memory."""
        self._batches += 1
        batch_id = f"{self._boot}:{self._batches}"
        started = time.monotonic()
        try:
            self._session.write([op for _, op in ops], batch_id)
        except WRITE_ERRORS as error:
            if is_fault(error):
                self._doubt = (batch_id, originals)
                self._session.failed(error)
            raise
        self._commit_s = time.monotonic() - started
        self._adapt()
        self._settle(originals)

    def _adapt(self) -> None:
        """Slow commits (SD cards, busy disks) get larger batches."""
        window = self._memory.window_s
        slow = self._commit_s > _SLOW_COMMIT_S
        self._memory.window_s = min(_LONGEST_WINDOW_S, window * 2) if slow else max(queue.WINDOW_S, window / 2)

    def _settle(self, ops: Numbered) -> None:
        self._memory.done(ops)
        for _, op in ops:
            if isinstance(op, Outcome):
                op.on_commit()
            elif isinstance(op, Item) and op.events and self._committed is not None:
                self._committed(op)

    def _write_poison(self, ops: Numbered, reason: str) -> None:
        """One operation that fails alone. If something else can be written in its place, it was to blame; if nothing
        can, the store is."""
        number, op = ops[0] if ops else (-1, None)
        tries: list[Numbered] = [[]]
        if isinstance(op, Item):
            tries = [[(number, one)] for one in substitutes(op, reason)]
        for written in tries:
            try:
                self._commit(written, ops)
            except WRITE_ERRORS as error:
                if isinstance(error, StoreFault) or is_fault(error):
                    raise StoreFault(reason_of(error)) from error
                continue
            self._poisoned += 1
            kept = written[0][1] if written else None
            dropped = [f"{event.stream}:{event.seq}" for event in op.events] if isinstance(op, Item) else []
            if isinstance(kept, Item) and kept.events:
                dropped = []
            logs.event(
                log, "store.poison", level=logging.ERROR, kind=type(op).__name__, error=reason,
                target=op.target_id if isinstance(op, Item) else None, dropped_events=" ".join(dropped) or None,
            )  # fmt: skip
            return
        raise StoreFault(reason)

    def _clean(self) -> None:
        if not self._cleaner.due(time.monotonic()):
            return
        try:
            self._cleaner.step(self._session.ready(), time.time_ns() // 1_000_000)
            if self._cleaner.forgotten:
                self._cleaner.forgotten = False
                self._session.forget()
        except WRITE_ERRORS as error:
            self._session.failed(error)
            self._fault(reason_of(error))

    def _fault(self, reason: str) -> None:
        self._store_errors += 1
        self._retry_at = time.monotonic() + self._retry_s
        self._last_error = reason
        if self._degraded_since is None:
            self._degraded_since = time.time_ns() // 1_000_000
            logs.event(log, "store.degraded", level=logging.ERROR, path=self.path, error=reason, retry_s=self._retry_s)
