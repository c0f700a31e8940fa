"""A writer for tests of faults and crashes: the real tables and the real functions of the outbox, committed when told.

It has the methods of `store.write.Writer` that webhooks need. `broken` makes every commit fail as a full disk would;
`held` keeps it waiting; `dead` is a process that is gone: nothing is committed and nobody is called any more.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from supervisor.model import Event, EventType, Item
from supervisor.state import initial
from supervisor.store import outbox
from supervisor.store.connect import FILE_NAME, Reader, writer_engine
from supervisor.store.load import Loaded
from supervisor.store.outbox import DeliveryOutcome
from supervisor.webhook.hooks import Webhooks
from tests.make import make_target
from tests.webhook.rig import FakeClock, draft_of, make_database


@dataclass(frozen=True)
class Stats:
    degraded_since: int | None


class HandWriter:
    """Commits in a thread of its own, one operation a transaction."""

    def __init__(self, directory: Path, reached: Callable[[str], None] = lambda _point: None) -> None:
        self.path = directory / FILE_NAME
        make_database(directory)
        self.hooks: Webhooks | None = None
        self.broken = self.dead = self.stopping = self.held = False
        self.committed_events: list[Event] = []
        self._reached = reached
        self._engine = writer_engine(self.path)
        self._connection = self._engine.connect()
        self._ops: deque[Item | tuple[DeliveryOutcome, Callable[[], None]]] = deque()
        self._changed = threading.Condition()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="hand writer")

    def loaded(self) -> Loaded:
        with self._connection.begin():
            source = outbox.read_source(self._connection) or "no-source"
            return Loaded(source, outbox=outbox.read_outbox(self._connection))

    def start(self) -> None:
        self._thread.start()

    def stats(self) -> Stats:
        return Stats(1 if self._failing else None)

    def put(self, item: Item) -> None:
        with self._changed:
            self._ops.append(item)
            self._changed.notify()

    def put_outcome(self, outcome: DeliveryOutcome, on_commit: Callable[[], None]) -> None:
        with self._changed:
            self._ops.append((outcome, on_commit))
            self._changed.notify()

    def set_broken(self, broken: bool) -> None:
        with self._changed:
            self.broken = broken
            self._failing = self._failing and broken
            self._changed.notify()

    def hold(self, held: bool) -> None:
        """A slow disk: commits neither fail nor end."""
        with self._changed:
            self.held = held
            self._changed.notify()

    def idle(self) -> bool:
        with self._changed:
            return not self._ops

    def stop(self, *, dead: bool = False) -> None:
        with self._changed:
            self.stopping, self.dead = True, dead
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()
        self._connection.close()
        self._engine.dispose()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._ops and not self.stopping:
                    self._changed.wait(0.05)
                if self.dead or (self.stopping and (not self._ops or self.broken)):
                    return
                if self.broken:
                    self._failing = True
                    self._changed.wait(0.01)
                    continue
                self._failing = False
                if self.held and not self.stopping:
                    self._changed.wait(0.01)
                    continue
                op = self._ops[0]
            self._commit(op)
            with self._changed:
                self._ops.popleft()

    def _commit(self, op: Item | tuple[DeliveryOutcome, Callable[[], None]]) -> None:
        kind = "events" if isinstance(op, Item) else "outcome"
        self._reached(f"before-{kind}-commit")
        with self._connection.begin():
            if isinstance(op, Item):
                outbox.write_events(self._connection, op.events)
            else:
                outbox.write_outcome(self._connection, op[0])
            self._reached(f"inside-{kind}-commit")
        self._reached(f"after-{kind}-commit")
        if self.dead:
            return
        if isinstance(op, Item):
            self.committed_events += op.events
            assert self.hooks is not None
            self.hooks.committed(op)
        else:
            op[1]()


class HandRig:
    """Webhooks over a HandWriter."""

    def __init__(
        self, directory: Path, *endpoints: object, reached: Callable[[str], None] = lambda _p: None, **more: object
    ) -> None:
        self.clock = more.pop("clock", None) or FakeClock()
        self.endpoints = endpoints
        self.writer = HandWriter(directory, reached)
        self.reader = Reader(self.writer.path)
        more.setdefault("data_dir", directory)
        more.setdefault("chance", lambda: 0.5)
        self.hooks = Webhooks(
            endpoints, self.writer, self.reader, self.writer.loaded(), clock=self.clock, reached=reached, **more
        )
        self.writer.hooks = self.hooks
        self.sent: list[Event] = []

    def start(self) -> HandRig:
        self.writer.start()
        self.hooks.start()
        return self

    def __enter__(self) -> HandRig:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def stop(self) -> None:
        self.hooks.stop(2)
        self.writer.stop()
        self.reader.close()

    def crash(self) -> None:
        """What is left of a process that was killed: nothing but what it had committed and sent."""
        self.writer.dead = True
        self.hooks.stop(0)
        self.writer.stop(dead=True)
        self.reader.close()

    def send(self, key: str, kind: EventType = "target.down", **fields: object) -> tuple[Event, ...]:
        target = make_target(id=key, notify=tuple(one.name for one in self.endpoints))
        draft = draft_of(kind, key, self.clock.now_ms(), **fields)
        events = self.hooks.accept(target, (draft,))
        self.writer.put(Item(draft.result, initial(), key, events=events))
        self.sent += events
        return events

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.wake()

    def wake(self) -> None:
        with self.hooks._changed:
            self.hooks._changed.notify_all()

    def pending(self) -> int:
        """Events without an outcome on disk (or remembered)."""
        return sum(one.pending for one in self.hooks.stats().endpoints) + len(self.hooks._settlement._awaiting)

    def degraded(self) -> bool:
        return self.hooks._settlement.degraded

    def rows(self, query: str) -> list[dict[str, object]]:
        with self.reader.read() as reading:
            return [dict(row) for row in reading.connection.exec_driver_sql(query).mappings()]
