"""What waits for the writer, in order and bounded: 10,000 items, and as many again while those are being written.

When it is full, the oldest result without an event overflows: it becomes a residue that keeps its target's state,
incidents and the number of lost results.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice

from supervisor.model import Incident, Item, ResolvedTarget, TargetState
from supervisor.store.outbox import DeliveryOutcome
from supervisor.store.rollup import HOUR_MS

LIMIT = 10_000
BATCH = 500
WINDOW_S = 0.05
OUTCOME_WINDOW_S = 0.005  # a delivery waits for its outcome: it does not wait for more of them
RESERVED = 4  # places that every stream has for its events, whatever the others do
_RESIDUE_INCIDENTS = 100


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The running set, in order."""

    targets: tuple[ResolvedTarget, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """A delivery outcome, and whom to tell when it is on disk."""

    outcome: DeliveryOutcome
    on_commit: Callable[[], None]


@dataclass(slots=True)
class Residue:
    """What is left of the results of one target that overflowed."""

    target_id: str
    state: TargetState
    maintenance: bool
    incidents: dict[int, Incident] = field(default_factory=dict)
    lost: Counter[int] = field(default_factory=Counter)  # by hour


@dataclass(frozen=True, slots=True)
class Missed:
    """Slots of one target and hour at which no run started."""

    target_id: str
    slot_ms: int
    count: int


@dataclass(frozen=True, slots=True)
class Meta:
    """Values for the table `meta`: only the latest of each key matters."""

    values: dict[str, str]


Op = Item | Snapshot | Outcome | Residue | Missed | Meta


class Memory:
    """A queue between the loop's thread and the writer's. No method waits, but `take`."""

    def __init__(self, limit: int = LIMIT, batch: int = BATCH) -> None:
        self.window_s = WINDOW_S
        self.lost = 0
        self._limit = limit
        self._batch = batch
        self._changed = threading.Condition()
        self._ops: OrderedDict[int, Op] = OrderedDict()
        self._next = 0
        self._items = 0
        self._events: Counter[str] = Counter()  # items with events, by stream
        self._droppable: deque[int] = deque()  # items without, oldest first; some may be written already
        self._in_flight = -1  # the highest number that the writer works on
        self._lent = 0  # how many items it works on
        self._residues: dict[str, int] = {}
        self._missed: Counter[tuple[str, int]] = Counter()
        self._meta: dict[str, str] = {}
        self._due: float | None = None  # when the waiting batch is to be written
        self._stopping = False

    def __len__(self) -> int:
        return self._items

    # --- the loop's side ---------------------------------------------------------------------------------------------

    def put_item(self, item: Item) -> bool:
        """Take an item, always. False when a result without an event overflowed for it (or it did itself)."""
        with self._changed:
            number = self._append(item)
            self._items += 1
            if item.events:
                self._events[item.target_id] += 1
            else:
                self._droppable.append(number)
            room = self._limit + min(self._lent, self._limit)  # what is lent is the oldest: wait for its fate
            return self._items <= room or not self._overflow()

    def put(self, op: Snapshot | Outcome) -> None:
        """Take anything else that has an order."""
        with self._changed:
            self._append(op)

    def put_meta(self, key: str, value: str) -> None:
        """Take a value for `meta`; it replaces an older one that still waits."""
        with self._changed:
            self._meta[key] = value
            self._wake(self.window_s)

    def put_missed(self, target_id: str, slot_ms: int, count: int) -> None:
        """Count slots; the counts of one hour are added up."""
        with self._changed:
            hour = slot_ms - slot_ms % HOUR_MS
            if len(self._missed) >= self._limit and (target_id, hour) not in self._missed:
                self._collapse(hour)
            self._missed[target_id, hour] += count
            self._wake(self.window_s)

    def full(self, stream: str) -> bool:
        """Whether an event of this stream must wait: memory is full of events, and it has used its reserved places."""
        with self._changed:
            with_events = self._events.total()
            return with_events >= self._limit and self._events[stream] >= RESERVED

    def stop(self) -> None:
        """Let `take` return at once from now on."""
        with self._changed:
            self._stopping = True
            self._changed.notify()

    def _append(self, op: Op) -> int:
        number = self._next
        self._next += 1
        self._ops[number] = op
        self._wake(OUTCOME_WINDOW_S if isinstance(op, Outcome) else self.window_s)
        return number

    def _wake(self, within_s: float) -> None:
        """Set the time at which the batch is due; wake the writer when that is news to it."""
        due = time.monotonic() + within_s
        if self._due is None or due < self._due - 0.001:
            self._due = due
            self._changed.notify()
        elif len(self._ops) == self._batch:
            self._changed.notify()

    def _collapse(self, hour: int) -> None:
        """Keep the counts and give up the hours: a fault that lasts for days must not fill the memory."""
        totals: Counter[tuple[str, int]] = Counter()
        for (target_id, _), count in self._missed.items():
            totals[target_id, hour] += count
        self._missed = totals

    def _overflow(self) -> bool:
        """Turn the oldest result without an event into a residue, in its place. False when there is none."""
        while self._droppable and self._droppable[0] <= self._in_flight:
            self._droppable.popleft()  # written, or being written
        if not self._droppable:
            return False
        number = self._droppable.popleft()
        item = self._ops[number]
        assert isinstance(item, Item)
        self._ops[number] = self._residue(item)
        self._residues[item.target_id] = number
        self._items -= 1
        return True

    def _residue(self, item: Item) -> Residue:
        before = self._ops.get(self._residues.get(item.target_id, -1))
        residue = Residue(item.target_id, item.state, item.maintenance)
        if isinstance(before, Residue) and self._residues[item.target_id] > self._in_flight:
            del self._ops[self._residues[item.target_id]]
            residue.incidents, residue.lost = before.incidents, before.lost
        if item.incident is not None:
            residue.incidents[item.incident.id] = item.incident
            while len(residue.incidents) > _RESIDUE_INCIDENTS:
                del residue.incidents[next(iter(residue.incidents))]
        if item.result is not None:
            at = item.result.timestamp_ms
            residue.lost[at - at % HOUR_MS] += 1
            self.lost += 1
        return residue

    # --- the writer's side -------------------------------------------------------------------------------------------

    def take(self, idle_s: float, *, everything: bool = False) -> list[tuple[int, Op]]:
        """Wait for a batch and lend it, oldest first: it stays here until `done`, and `give_back` ends the loan.

        Returns after `idle_s` with nothing when nothing came. `everything` takes all there is, at once.
        """
        with self._changed:
            if not everything:
                self._wait(idle_s)
            ops = list(islice(self._ops.items(), None if everything else self._batch))
            if ops:
                self._in_flight = ops[-1][0]
                self._lent = sum(isinstance(op, Item) for _, op in ops)
            ops += [(-1, Missed(target_id, hour, count)) for (target_id, hour), count in self._missed.items()]
            if self._meta:
                ops.append((-1, Meta(dict(self._meta))))
            self._due = None
            return ops

    def _wait(self, idle_s: float) -> None:
        end = time.monotonic() + idle_s
        while not self._stopping:
            now = time.monotonic()
            if self._due is None and self._ops:
                return  # more than one batch was waiting
            if len(self._ops) >= self._batch or (self._due is not None and now >= self._due):
                return
            left = (end if self._due is None else self._due) - now
            if left <= 0:
                return
            self._changed.wait(left)

    def done(self, ops: list[tuple[int, Op]]) -> None:
        """These are on disk."""
        with self._changed:
            for number, op in ops:
                if isinstance(op, Missed):
                    self._settle_missed(op)
                elif isinstance(op, Meta):
                    for key, value in op.values.items():
                        if self._meta.get(key) == value:
                            del self._meta[key]
                else:
                    self._forget(number, op)

    def _settle_missed(self, op: Missed) -> None:
        key = (op.target_id, op.slot_ms)
        self._missed[key] -= op.count
        if self._missed[key] <= 0:
            del self._missed[key]

    def _forget(self, number: int, op: Op) -> None:
        del self._ops[number]
        if isinstance(op, Residue):
            if self._residues.get(op.target_id) == number:
                del self._residues[op.target_id]
        elif isinstance(op, Item):
            self._items -= 1
            self._lent -= 1
            if op.events:
                self._events[op.target_id] -= 1
                if not self._events[op.target_id]:
                    del self._events[op.target_id]

    def give_back(self) -> None:
        """The batch could not be written: what is in it may overflow again, and does if too much came meanwhile."""
        with self._changed:
            self._in_flight = -1
            self._lent = 0
            self._droppable = deque(
                number for number, op in self._ops.items() if isinstance(op, Item) and not op.events
            )
            while self._items > self._limit and self._overflow():
                pass

    def items(self) -> tuple[Item, ...]:
        """All items that wait, in order."""
        with self._changed:
            return tuple(op for op in self._ops.values() if isinstance(op, Item))
