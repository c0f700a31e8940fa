"""What becomes of events: outcomes on their way to the writer, dead letters, what a fault makes us remember.

One lock (`changed`) guards the outbox and everything here. Nothing is handed to the writer while it is held: the writer
has a lock of its own and calls back.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from supervisor.logs import event
from supervisor.model import Event, WebhookEndpoint
from supervisor.store.outbox import DeadLetter, DeliveryOutcome, OutcomeName
from supervisor.webhook.outbox import RESULT, Channel, Clock, Lane, Outbox, Waiting, dead_letter

log = logging.getLogger(__name__)

_LETTERS_IN_MEMORY = 200
_AT_ONCE = 200  # events given up in one transaction
_ORPHANED = "the endpoint is no longer in the configuration"


class WriterStats(Protocol):
    """What is read of the writer's state: when its fault began, None while it is healthy."""

    @property
    def degraded_since(self) -> object | None: ...


class OutcomeWriter(Protocol):
    """The part of the writer that deliveries need."""

    def put_outcome(self, outcome: DeliveryOutcome, on_commit: Callable[[], None]) -> None: ...

    def stats(self) -> WriterStats: ...


def _nothing() -> None:
    """What follows the commit of an outcome nobody waits for."""


class Settlement:
    """Methods whose name does not say otherwise are called with the lock held."""

    def __init__(self, outbox: Outbox, writer: OutcomeWriter, clock: Clock, reached: Callable[[str], None]) -> None:
        self.changed = threading.Condition()
        self.outbox = outbox
        self.clock = clock
        self.degraded = False
        self.deliveries: Counter[tuple[str, str]] = Counter()
        self._writer = writer
        self._reached = reached
        self._outbound: deque[tuple[DeliveryOutcome, Callable[[], None]]] = deque()
        self._outbound_order = threading.Lock()
        self._awaiting: set[Lane] = set()
        self._remembered: dict[Lane, DeliveryOutcome] = {}
        self._letters: deque[DeadLetter] = deque(maxlen=_LETTERS_IN_MEMORY)

    # --- outcomes ----------------------------------------------------------------------------------------------------

    def delivered(self, lane: Lane) -> None:
        """The head has arrived."""
        self.deliveries[lane.name, "delivered"] += 1
        passed = self.outbox.pass_head(lane)
        self._store(lane, DeliveryOutcome(lane.cursor(), (), lane.channel.health(self.clock), passed))

    def retry(self, lane: Lane, delay_s: float) -> None:
        """The head stays and is due again later; that is stored before anything else happens to it."""
        self.deliveries[lane.name, "retry"] += 1
        lane.due = self.clock.monotonic() + delay_s
        cursor = lane.cursor(self.clock.now_ms() + int(delay_s * 1000))
        self._store(lane, DeliveryOutcome(cursor, (), lane.channel.health(self.clock)))

    def give_up(self, lane: Lane, most: int, outcome: OutcomeName, reason: str) -> None:
        """Dead letters for the first `most` events of a lane; the cursor moves past them."""
        letters: list[DeadLetter] = []
        passed: tuple[tuple[str, int], ...] = ()
        while lane.waiting and len(letters) < min(most, _AT_ONCE):
            letters.append(dead_letter(lane, lane.waiting[0], outcome, reason, self.clock.now_ms()))
            passed += self.outbox.pass_head(lane)
        self._tell(lane, letters, reason)
        health = None if lane.channel.removed else lane.channel.health(self.clock)
        self._store(lane, DeliveryOutcome(lane.cursor(), tuple(letters), health, passed))

    def take_out(self, lane: Lane, waiting: Waiting, outcome: OutcomeName, reason: str) -> None:
        """A dead letter for one event wherever it stands; no cursor moves (W4b)."""
        letter = dead_letter(lane, waiting, outcome, reason, self.clock.now_ms())
        cursor = None
        if lane.waiting[0] is waiting:  # the next event begins with a budget of its own
            lane.attempts, lane.last_error = 0, None
            cursor = lane.cursor()
        passed = self.outbox.take_out(lane, waiting)
        self._tell(lane, [letter], reason)
        if self.degraded:
            self._remember(lane, DeliveryOutcome(lane.cursor(), (letter,), None, passed))
        else:
            self._outbound.append((DeliveryOutcome(cursor, (letter,), None, passed), _nothing))
        self.changed.notify()

    def orphan(self, channel: Channel) -> None:
        """The endpoint is not configured any more: dead letters for all that waits."""
        channel.removed = True
        for lane in channel.lanes.values():
            if lane.waiting and not lane.busy:
                self.give_up(lane, _AT_ONCE, "orphaned", _ORPHANED)

    def sweep(self) -> None:
        """End what is too old, and what waits for an endpoint that wants no more events (410)."""
        now = self.clock.monotonic()
        for lane in list(self.outbox.lanes()):
            if lane.busy or not lane.waiting:
                continue
            channel = lane.channel
            if channel.breaker.state == "disabled":
                reason = f"the endpoint is disabled until its settings change ({channel.breaker.reason})"
                self.give_up(lane, _AT_ONCE, "disabled", reason)
                continue
            old = sum(1 for waiting in lane.waiting if now - waiting.born > channel.endpoint.max_age_s)
            if old:
                self.give_up(lane, old, "expired", too_old(channel.endpoint, lane))

    def _tell(self, lane: Lane, letters: list[DeadLetter], reason: str) -> None:
        first = letters[0]
        self.deliveries[lane.name, first.outcome] += len(letters)
        event(
            log, "webhook.dead_letter", level=logging.ERROR, endpoint=lane.name, outcome=first.outcome,
            event_id=f"{first.stream}:{first.seq}", count=len(letters), error=reason,
        )  # fmt: skip

    # --- storing them ------------------------------------------------------------------------------------------------

    def _store(self, lane: Lane, outcome: DeliveryOutcome) -> None:
        """Hand an outcome to the writer; the lane waits until it is stored. In a fault it is remembered (W21)."""
        lane.busy = True
        if self.degraded:
            self._remember(lane, outcome)
            self._free(lane)
            return
        lane.awaiting = outcome
        self._awaiting.add(lane)
        self._outbound.append((outcome, partial(self._stored, lane, outcome)))

    def _remember(self, lane: Lane, outcome: DeliveryOutcome) -> None:
        before = self._remembered.get(lane)
        passed = outcome.passed if before is None else before.passed + outcome.passed
        health = outcome.health if before is None or outcome.health is not None else before.health
        self._remembered[lane] = DeliveryOutcome(outcome.cursor, (), health, passed)
        self._letters.extend(outcome.dead_letters)

    def _stored(self, lane: Lane, outcome: DeliveryOutcome) -> None:
        """Called by the writer's thread after the commit, without the lock."""
        self._reached("after-commit")
        with self.changed:
            if lane.awaiting is outcome:
                self._free(lane)

    def _free(self, lane: Lane) -> None:
        lane.awaiting = None
        self._awaiting.discard(lane)
        lane.busy = False
        if lane.channel.removed and lane.waiting:
            self.give_up(lane, _AT_ONCE, "orphaned", _ORPHANED)
        else:
            self.ready(lane)

    def flush(self) -> None:
        """Hand over what has become of events, in order. Called without the lock."""
        if not self._outbound:
            return
        with self._outbound_order:
            while self._outbound:
                outcome, on_commit = self._outbound.popleft()
                self._reached("before-outcome")
                self._writer.put_outcome(outcome, on_commit)

    # --- what may be sent --------------------------------------------------------------------------------------------

    def sendable(self, lane: Lane) -> bool:
        """The head is on disk, or the disk is at fault and it goes from memory (W21)."""
        return bool(lane.waiting) and (lane.waiting[0].saved or self.degraded)

    def ready(self, lane: Lane) -> None:
        """Put a lane where the delivery threads find it, if it has something for them."""
        if self.sendable(lane):
            lane.channel.queue(lane, self.clock.monotonic())
            self.changed.notify()

    def saved(self, saved: Event) -> bool:
        """An event is on disk: its lanes may be served. False when that was known."""
        waiting = self.outbox.saved(saved)
        if waiting is None:
            return False
        if not waiting.lanes and waiting.type == RESULT:  # it had all its outcomes before it was written
            self._outbound.append((DeliveryOutcome(passed=((saved.stream, saved.seq),)), _nothing))
            self.changed.notify()
        for lane in self.outbox.lanes_of(saved):
            self.ready(lane)
        return True

    def look_at_writer(self) -> bool:
        """Notice that the store went away or came back; True when something changed. Called without the lock."""
        degraded = self._writer.stats().degraded_since is not None
        with self.changed:
            if degraded == self.degraded:
                return False
            self.degraded = degraded
            if degraded:
                for lane in list(self._awaiting):
                    self._free(lane)
                for lane in self.outbox.lanes():
                    self.ready(lane)
            else:
                self._hand_over_remembered()
        self.flush()
        return True

    def hand_over(self) -> None:
        """Before the writer ends: give it what was remembered, whatever state it is in. Called without the lock."""
        with self.changed:
            self._hand_over_remembered()
        self.flush()

    def _hand_over_remembered(self) -> None:
        if self._letters:
            self._outbound.append((DeliveryOutcome(None, tuple(self._letters)), _nothing))
            self._letters.clear()
        self._outbound.extend((outcome, _nothing) for outcome in self._remembered.values())
        self._remembered.clear()


def too_old(endpoint: WebhookEndpoint, lane: Lane) -> str:
    """Why an event of this lane has expired."""
    last = f"; last error: {lane.last_error}" if lane.last_error else ""
    return f"it is older than maxAge ({endpoint.max_age_s:g} s){last}"
