"""The queue in memory: which events wait for which endpoint, in order. The bodies of stored events stay on disk.

A *lane* is one endpoint in one stream; it has one event in flight at most (W9). Everything here is guarded by the
dispatcher's lock.
"""

from __future__ import annotations

import hashlib
import heapq
import time
import uuid
from collections import deque
from collections.abc import Iterator

from supervisor.model import Event, WebhookEndpoint
from supervisor.store.outbox import Cursor, DeadLetter, DeliveryOutcome, EndpointHealth, OutcomeName, StoredOutbox
from supervisor.webhook.breaker import Breaker
from supervisor.webhook.deliver import shown_url

_BODIES_KEPT = 2000
_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_RESTORED_AT_MOST_S = 3 * 3600.0
RESULT = "target.result"  # the one type of event that is not kept after its delivery
READY = float("-inf")
_SACRIFICED_LAST = frozenset({"target.down", "target.up"})


class Clock:
    """Both clocks, so that tests can move them."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class Waiting:
    """An accepted event without an outcome yet. `event` is kept while it is only in memory, and for a while after;
    `born` is when it was accepted (monotonic: a wall clock that jumps makes no event older)."""

    __slots__ = ("born", "event", "lanes", "saved", "seq", "type")

    def __init__(self, seq: int, kind: str, born: float, event: Event | None, *, saved: bool) -> None:
        self.seq = seq
        self.type = kind
        self.born = born
        self.event = event
        self.saved = saved
        self.lanes = 0


class Lane:
    """One endpoint in one stream. `due` is when its head may be sent (monotonic); `busy` while that is under way or its
    outcome is not stored; `queued_for` the time it waits for in its channel: READY in the ready row, None nowhere."""

    __slots__ = (
        "acked_seq", "attempts", "awaiting", "busy", "channel", "due", "last_error", "queued_for", "stream", "waiting",
    )  # fmt: skip

    def __init__(self, channel: Channel, stream: str, acked_seq: int) -> None:
        self.channel = channel
        self.stream = stream
        self.acked_seq = acked_seq
        self.attempts = 0
        self.due = 0.0
        self.last_error: str | None = None
        self.waiting: deque[Waiting] = deque()
        self.busy = False
        self.queued_for: float | None = None
        self.awaiting: DeliveryOutcome | None = None

    @property
    def name(self) -> str:
        """The endpoint's name."""
        return self.channel.endpoint.name

    def cursor(self, next_attempt_ms: int | None = None) -> Cursor:
        """The lane as it is to be stored."""
        return Cursor(self.stream, self.name, self.acked_seq, self.attempts, next_attempt_ms, self.last_error)


class Durations:
    """A histogram of seconds, with Prometheus's cumulative buckets."""

    __slots__ = ("counts", "total_s")
    bounds_s = _BUCKETS_S

    def __init__(self) -> None:
        self.counts = [0] * (len(_BUCKETS_S) + 1)
        self.total_s = 0.0

    def add(self, seconds: float) -> None:
        place = next((i for i, bound in enumerate(_BUCKETS_S) if seconds <= bound), len(_BUCKETS_S))
        self.counts[place] += 1
        self.total_s += seconds


class Channel:
    """One endpoint while the supervisor runs: its settings, its breaker, and the lanes that can be served."""

    def __init__(self, endpoint: WebhookEndpoint) -> None:
        self.endpoint = endpoint
        self.breaker = Breaker()
        self.in_flight = 0
        self.removed = False
        self.lanes: dict[str, Lane] = {}
        self.durations = Durations()
        self._ready: deque[Lane] = deque()
        self._timers: list[tuple[float, int, Lane]] = []
        self._count = 0

    def queue(self, lane: Lane, now: float) -> None:
        """Put a lane where it belongs: ready, or waiting for its time."""
        if lane.busy or not lane.waiting or lane.queued_for in (READY, lane.due):
            return
        if lane.due <= now:
            self._make_ready(lane)
        else:
            lane.queued_for = lane.due  # a timer for its former head, if there is one, no longer counts
            self._count += 1
            heapq.heappush(self._timers, (lane.due, self._count, lane))

    def wake(self, now: float) -> None:
        """Move lanes whose time has come to the ready row."""
        while self._timers and self._timers[0][0] <= now:
            due, _, lane = heapq.heappop(self._timers)
            if lane.queued_for == due:
                self._make_ready(lane)

    def _make_ready(self, lane: Lane) -> None:
        lane.queued_for = READY
        self._ready.append(lane)

    @property
    def has_ready(self) -> bool:
        return bool(self._ready)

    def pop(self) -> Lane:
        """The lane that has been ready for longest."""
        lane = self._ready.popleft()
        lane.queued_for = None
        return lane

    def next_wake(self) -> float | None:
        """When there is something to do, as far as timers and the breaker know."""
        if self._ready:
            return self.breaker.open_until if self.breaker.state == "open" and not self.breaker.probing else None
        return self._timers[0][0] if self._timers else None

    def health(self, clock: Clock) -> EndpointHealth:
        """The breaker as it is to be stored."""
        breaker = self.breaker
        until = None
        if breaker.state == "open":
            until = clock.now_ms() + int((breaker.open_until - clock.monotonic()) * 1000)
        return EndpointHealth(
            self.endpoint.name,
            breaker.state,
            breaker.reason,
            until,
            breaker.failures,
            breaker.last_success_ms,
            fingerprint(self.endpoint),
        )


def fingerprint(endpoint: WebhookEndpoint) -> str:
    """Tells whether the settings changed. Too short to say what they are."""
    settings = (
        endpoint.url,
        endpoint.headers,
        endpoint.secrets,
        endpoint.format,
        endpoint.template_json,
        endpoint.apprise_url,
        endpoint.metadata_json,
        endpoint.enabled,
    )
    return hashlib.sha256(repr(settings).encode("utf-8", "backslashreplace")).hexdigest()[:8]


def dead_letter(lane: Lane, waiting: Waiting, outcome: OutcomeName, reason: str, now_ms: int) -> DeadLetter:
    """The record of an event that this endpoint does not get."""
    error = f"webhook event {lane.stream}:{waiting.seq} ({waiting.type}) was not delivered: {reason}"
    url = shown_url(lane.channel.endpoint)
    return DeadLetter(str(uuid.uuid4()), lane.stream, lane.name, waiting.seq, waiting.type, now_ms, outcome, error, url)


class Outbox:
    """Numbers, lanes and channels. Knows what waits; whether and when it is sent is the dispatcher's matter."""

    def __init__(self, endpoints: tuple[WebhookEndpoint, ...]) -> None:
        self.channels = {endpoint.name: Channel(endpoint) for endpoint in endpoints}
        self.last_seq: dict[str, int] = {}
        self.floor = 0
        self.unsaved: dict[tuple[str, int], Waiting] = {}
        self._bodies = 0

    # --- numbers and events

    def next_seq(self, stream: str) -> int:
        """The number the stream's next event gets: above everything the database and the files know (W17, W22)."""
        return max(self.last_seq.get(stream, 0), self.floor) + 1

    def untried(self, now: float) -> bool:
        """Whether an event waits that could be sent at once, such as the one that tells of the stop."""
        return any(
            lane.waiting and lane.attempts == 0 and (lane.busy or lane.due <= now)
            for channel in self.channels.values()
            if channel.endpoint.enabled and channel.breaker.state == "closed"
            for lane in channel.lanes.values()
        )

    def add(self, event: Event, now: float) -> list[Lane]:
        """Queue an accepted event; the lanes it now waits in."""
        self.last_seq[event.stream] = event.seq
        waiting = Waiting(event.seq, event.type, now, event, saved=False)
        self.unsaved[event.stream, event.seq] = waiting
        self._bodies += 1
        lanes = []
        for name in event.endpoints:
            channel = self.channels.get(name)
            if channel is None:
                continue
            lane = channel.lanes.get(event.stream)
            if lane is None:
                lane = channel.lanes[event.stream] = Lane(channel, event.stream, event.seq - 1)
            lane.waiting.append(waiting)
            waiting.lanes += 1
            if lane.waiting[0] is waiting:
                lane.due = first_due(lane)
            lanes.append(lane)
        return lanes

    def saved(self, event: Event) -> Waiting | None:
        """The event is on disk now; None when that was known."""
        waiting = self.unsaved.pop((event.stream, event.seq), None)
        if waiting is not None:
            waiting.saved = True
            if self._bodies > _BODIES_KEPT or not waiting.lanes:
                self._drop_body(waiting)
        return waiting

    def lanes_of(self, event: Event) -> Iterator[Lane]:
        """The lanes of the endpoints that wanted the event."""
        for name in event.endpoints:
            channel = self.channels.get(name)
            lane = None if channel is None else channel.lanes.get(event.stream)
            if lane is not None:
                yield lane

    def lanes(self) -> Iterator[Lane]:
        """All lanes of all configured endpoints."""
        for channel in self.channels.values():
            yield from channel.lanes.values()

    # --- taking events off a lane

    def pass_head(self, lane: Lane) -> tuple[tuple[str, int], ...]:
        """The head has its outcome: move on. The event, if nobody waits for it any more and it need not be kept."""
        waiting = lane.waiting.popleft()
        lane.acked_seq = waiting.seq
        lane.attempts, lane.last_error = 0, None
        lane.due = first_due(lane)
        return self._let_go(lane, waiting)

    def take_out(self, lane: Lane, waiting: Waiting) -> tuple[tuple[str, int], ...]:
        """Remove an event that is not the head; the cursor stays where it is (W4b)."""
        lane.waiting.remove(waiting)
        return self._let_go(lane, waiting)

    def _let_go(self, lane: Lane, waiting: Waiting) -> tuple[tuple[str, int], ...]:
        waiting.lanes -= 1
        if waiting.lanes or not waiting.saved:  # what is not on disk yet is looked at again when it is
            return ()
        self._drop_body(waiting)
        return ((lane.stream, waiting.seq),) if waiting.type == RESULT else ()

    def _drop_body(self, waiting: Waiting) -> None:
        if waiting.event is not None:
            waiting.event = None
            self._bodies -= 1

    def victim(self, lane: Lane) -> Waiting:
        """What goes when a lane is too full: the oldest result, then the oldest of the rest, down and up last (W16).
        The head is spared while it is under way."""
        spared = 1 if lane.busy else 0
        candidates = list(lane.waiting)[spared:]
        for kind in (RESULT, None):
            for waiting in candidates:
                if waiting.type == kind or (kind is None and waiting.type not in _SACRIFICED_LAST):
                    return waiting
        return candidates[0]

    # --- start

    def restore(self, stored: StoredOutbox, floor: int, clock: Clock) -> list[Channel]:
        """Take in what was found on disk; the endpoints that have events waiting and are no longer configured."""
        self.floor = floor
        self.last_seq = dict(stored.last_seq)
        cursors = {(cursor.stream, cursor.endpoint): cursor for cursor in stored.cursors}
        events: dict[tuple[str, int], Waiting] = {}
        gone: dict[str, Channel] = {}
        for found in stored.pending:
            waiting = events.get((found.stream, found.seq))
            if waiting is None:
                age_s = max(clock.now_ms() - found.timestamp_ms, 0) / 1000
                waiting = Waiting(found.seq, found.type, clock.monotonic() - age_s, None, saved=True)
                events[found.stream, found.seq] = waiting
            channel = self.channels.get(found.endpoint) or gone.get(found.endpoint)
            if channel is None:
                channel = gone[found.endpoint] = Channel(WebhookEndpoint(found.endpoint, ""))
            lane = channel.lanes.get(found.stream)
            if lane is None:
                lane = _restored_lane(channel, cursors[found.stream, found.endpoint], clock)
                channel.lanes[found.stream] = lane
            lane.waiting.append(waiting)
            waiting.lanes += 1
        for health in stored.health:
            if health.name in self.channels:
                _restore_breaker(self.channels[health.name], health, clock)
        return list(gone.values())


def _restored_lane(channel: Channel, cursor: Cursor, clock: Clock) -> Lane:
    lane = Lane(channel, cursor.stream, cursor.acked_seq)
    lane.attempts, lane.last_error = cursor.attempts, cursor.last_error
    if cursor.next_attempt_ms is not None:
        lane.due = clock.monotonic() + _seconds_until(cursor.next_attempt_ms, clock)
    return lane


def first_due(lane: Lane) -> float:
    """When the head is due for the first time: at once, unless `retries` begins with a wait."""
    return lane.waiting[0].born + lane.channel.endpoint.retries_s[0] if lane.waiting else 0.0


def _restore_breaker(channel: Channel, health: EndpointHealth, clock: Clock) -> None:
    channel.breaker.last_success_ms = health.last_success_ms
    if health.state == "disabled" and health.fingerprint == fingerprint(channel.endpoint):
        channel.breaker.state, channel.breaker.reason = "disabled", health.reason
    elif health.state == "open":
        now = clock.monotonic()
        until = now + (0.0 if health.open_until_ms is None else _seconds_until(health.open_until_ms, clock))
        channel.breaker.restore(now, until, health.consecutive_failures, health.reason)
    elif health.state == "closed":
        channel.breaker.failures = health.consecutive_failures


def _seconds_until(moment_ms: int, clock: Clock) -> float:
    """A stored time from now on; a wall clock that was set back in between must not mean waiting for days."""
    return min(max((moment_ms - clock.now_ms()) / 1000, 0.0), _RESTORED_AT_MOST_S)
