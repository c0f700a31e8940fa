"""When: fixed slots, the spread first round, retries, missed slots. Pure: `now` is an argument, in seconds.

The loop passes CLOCK_BOOTTIME, which counts a suspended machine's time too: slots that passed meanwhile are missed, and
the rhythm stays. A target's slots are `slot + k * interval` on the wall clock as it was when the schedule was made, so
a restart keeps the rhythm and a clock step afterwards changes nothing.
"""

from __future__ import annotations

import hashlib
import heapq
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from supervisor.model import ResolvedTarget

SPREAD_S = 5.0
SPREAD_PER_TARGET_S = 0.02  # a few targets need no 5 s to spread over

Kind = Literal["first", "slot", "retry"]


@dataclass(frozen=True, slots=True)
class Due:
    """A run that should start now; `due` is when it should have started at the latest."""

    target_id: str
    due: float
    kind: Kind


@dataclass(slots=True)
class _Entry:
    interval_s: float
    retry_interval_s: float
    next_slot: float
    generation: int
    occupied: bool = False  # queued or running
    first: bool = True
    retry_at: float | None = None
    started: float | None = None
    missed: int = field(default=0)


def fraction(target_id: str) -> float:
    """A stable number in [0, 1) for an id: where in its interval a target's slot lies."""
    digest = hashlib.blake2b(target_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


class Schedule:
    """Slots and retries of all targets. A target is *occupied* from `due` until `finished` or `cancelled`."""

    def __init__(self, wall_offset_s: float) -> None:
        """`wall_offset_s` is wall time minus the schedule's clock, taken once."""
        self._offset = wall_offset_s
        self._entries: dict[str, _Entry] = {}
        self._heap: list[tuple[float, int, str, Kind]] = []
        self._generation = 0

    def set(self, targets: Iterable[ResolvedTarget], now: float) -> None:
        """Make `targets` the running set: unchanged rhythms stay, new ones get their first check, others end."""
        wanted = {target.id: target for target in targets if target.enabled}
        for gone in self._entries.keys() - wanted.keys():
            del self._entries[gone]
        fresh = [target for target in wanted.values() if target.id not in self._entries]
        window = min(SPREAD_S, SPREAD_PER_TARGET_S * len(fresh))
        for target in wanted.values():
            entry = self._entries.get(target.id)
            if entry is None:
                self._add(target, now, window)
            elif (entry.interval_s, entry.retry_interval_s) != (target.interval_s, target.retry_interval_s):
                self._change(entry, target, now)

    def _add(self, target: ResolvedTarget, now: float, window: float) -> None:
        first = now + fraction(target.id) * min(window, target.interval_s)
        # the slot after the first check keeps half an interval's distance, or one target would be checked twice at once
        next_slot = self._slot_after(target, first + target.interval_s / 2)
        entry = _Entry(target.interval_s, target.retry_interval_s, next_slot, self._next_generation())
        self._entries[target.id] = entry
        self._push(first, entry, target.id, "first")
        self._push(next_slot, entry, target.id, "slot")

    def _change(self, entry: _Entry, target: ResolvedTarget, now: float) -> None:
        entry.interval_s = target.interval_s
        entry.retry_interval_s = target.retry_interval_s
        entry.next_slot = self._slot_after(target, now)
        entry.generation = self._next_generation()
        self._push(entry.next_slot, entry, target.id, "slot")
        if entry.first:
            self._push(now, entry, target.id, "first")
        elif entry.retry_at is not None and entry.started is not None:
            entry.retry_at = entry.started + entry.retry_interval_s
            self._push(entry.retry_at, entry, target.id, "retry")

    def _next_generation(self) -> int:
        self._generation += 1
        return self._generation

    def _slot_after(self, target: ResolvedTarget, time: float) -> float:
        """The first slot strictly after `time`."""
        interval = target.interval_s
        base = fraction(target.id) * interval - self._offset
        return base + (math.floor((time - base) / interval) + 1) * interval

    def _push(self, time: float, entry: _Entry, target_id: str, kind: Kind) -> None:
        heapq.heappush(self._heap, (time, entry.generation, target_id, kind))

    def due(self, now: float) -> list[Due]:
        """Runs to start now, in the order in which they became due. Marks their targets as occupied."""
        found: list[Due] = []
        while self._heap and self._heap[0][0] <= now:
            time, generation, target_id, kind = heapq.heappop(self._heap)
            entry = self._entries.get(target_id)
            if entry is None or entry.generation != generation:
                continue
            if kind == "slot":
                time = self._pass_slots(entry, target_id, now)
            elif kind == "retry" and entry.retry_at != time:
                continue
            if entry.occupied:
                continue
            entry.occupied = True
            entry.first = False
            entry.retry_at = None
            found.append(Due(target_id, time, kind))
        return found

    def _pass_slots(self, entry: _Entry, target_id: str, now: float) -> float:
        """Move on to the next future slot; returns the last one passed. The others, and it too if the target is
        occupied, are missed."""
        passed = math.floor((now - entry.next_slot) / entry.interval_s) + 1
        last = entry.next_slot + (passed - 1) * entry.interval_s
        entry.next_slot = last + entry.interval_s
        entry.missed += passed if entry.occupied else passed - 1
        self._push(entry.next_slot, entry, target_id, "slot")
        return last

    def started(self, target_id: str, now: float) -> None:
        """The run of an occupied target was given to a worker."""
        if entry := self._entries.get(target_id):
            entry.started = now

    def finished(self, target_id: str, now: float, *, retry: bool) -> None:
        """The run is over and its slot is free. `retry`: the state is failing or recovering."""
        entry = self._entries.get(target_id)
        if entry is None:
            return
        entry.occupied = False
        if not retry or entry.started is None:
            return
        entry.retry_at = max(entry.started + entry.retry_interval_s, now)
        if entry.retry_at < entry.next_slot:
            self._push(entry.retry_at, entry, target_id, "retry")
        else:
            entry.retry_at = None

    def take_missed(self) -> list[tuple[str, int]]:
        """Slots missed since the last call, by target."""
        found = [(target_id, entry.missed) for target_id, entry in self._entries.items() if entry.missed]
        for target_id, _count in found:
            self._entries[target_id].missed = 0
        return found

    def next_due(self, target_id: str) -> float | None:
        """When the target's next run is due."""
        entry = self._entries.get(target_id)
        if entry is None:
            return None
        return min(entry.next_slot, entry.retry_at) if entry.retry_at is not None else entry.next_slot

    def next_wake(self) -> float:
        """When `due` may have something next; infinity without targets."""
        return self._heap[0][0] if self._heap else math.inf
