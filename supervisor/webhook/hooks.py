"""The facade: what the loop, the writer and the control socket ask of the webhooks."""

from __future__ import annotations

import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from supervisor.logs import event as log_event
from supervisor.model import Event, EventDraft, EventType, Item, JsonValue, ResolvedTarget, WebhookEndpoint
from supervisor.net.resolve import resolve
from supervisor.store.connect import NoDatabaseError, Reader, ReadError
from supervisor.store.outbox import StoredOutbox, read_outbox, read_source
from supervisor.webhook.commands import Attempt, redeliver, send_test, skip
from supervisor.webhook.deliver import Sender
from supervisor.webhook.dispatch import Dispatcher
from supervisor.webhook.exchange import Resolve
from supervisor.webhook.fallback import EVENTS_IN_MEMORY, HighWater, Room
from supervisor.webhook.filters import reminder_interval_ms, wanting
from supervisor.webhook.outbox import Channel, Clock, Durations, Lane, Outbox, fingerprint
from supervisor.webhook.payload import SUPERVISOR_STREAM, Envelope, error_of, target_data
from supervisor.webhook.settle import OutcomeWriter, Settlement

log = logging.getLogger(__name__)

_THREADS = 8
_MOST_THREADS = 32
_LOAD_AGAIN_S = 5.0


class LoadedOutbox(Protocol):
    """What is needed of `store.load.Loaded`. With `readable` false, `outbox` is not what the database holds."""

    @property
    def source(self) -> str: ...
    @property
    def outbox(self) -> StoredOutbox: ...
    @property
    def readable(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class EndpointStats:
    """One endpoint. `state` is closed, open, disabled (410) or paused (`enabled: false`)."""

    name: str
    state: str
    pending: int
    oldest_pending_s: float
    in_flight: int
    durations: Durations


@dataclass(frozen=True, slots=True)
class WebhookStats:
    """Numbers since the start. `events` is by accepted, degraded, dropped; `deliveries` by (endpoint, outcome)."""

    events: dict[str, int]
    deliveries: dict[tuple[str, str], int]
    endpoints: tuple[EndpointStats, ...]
    degraded_streams: int
    memory_events: int
    waiting_streams: int
    waited_s: float


class Webhooks:
    """One per supervisor. Who calls what stands in the package's docstring."""

    def __init__(
        self,
        endpoints: tuple[WebhookEndpoint, ...],
        writer: OutcomeWriter,
        reader: Reader,
        loaded: LoadedOutbox,
        *,
        data_dir: Path,
        runtime_dir: Path | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
        look_up: Resolve = resolve,
        reached: Callable[[str], None] = lambda point: None,
        memory: int = EVENTS_IN_MEMORY,
    ) -> None:
        self._reader = reader
        self._clock = clock or Clock()
        self._outbox = Outbox(endpoints)
        self._settlement = Settlement(self._outbox, writer, self._clock, reached)
        self._changed = self._settlement.changed
        self._high_water = HighWater(data_dir, runtime_dir)
        self._room = Room(memory)
        self._sender = Sender(look_up)
        self._dispatcher = Dispatcher(
            self._settlement, reader, self._high_water, self._sender,
            chance=chance, reached=reached, every_second=self._load_again,
        )  # fmt: skip
        self._events: Counter[str] = Counter()
        self._degraded_streams: set[str] = set()
        self._full_since: dict[str, float] = {}
        self._waited_s = 0.0
        self._source = loaded.source
        self._loaded = False
        self._load_at = 0.0
        self._settlement.degraded = writer.stats().degraded_since is not None
        self._high_water.load()
        if loaded.readable:
            self._restore(loaded.outbox)
        else:
            self._load_again()

    # --- life --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the delivery threads: 8, or one for each endpoint if there are more."""
        self._dispatcher.start(self._threads())

    def _threads(self) -> int:
        return min(max(_THREADS, len(self._outbox.channels)), _MOST_THREADS)

    def _restore(self, stored: StoredOutbox) -> None:
        with self._changed:
            gone = self._outbox.restore(stored, self._high_water.value, self._clock)
            self._loaded = True
            for channel in gone:
                self._settlement.orphan(channel)
            for lane in self._outbox.lanes():
                self._settlement.ready(lane)

    def _load_again(self) -> None:
        """Until it works: what could not be read at start. No event takes a number before (`full`)."""
        if self._loaded or time.monotonic() < self._load_at:
            return
        self._load_at = time.monotonic() + _LOAD_AGAIN_S
        try:
            with self._reader.read(deadline_s=_LOAD_AGAIN_S) as reading:
                stored = read_outbox(reading.connection)
                self._source = read_source(reading.connection) or self._source
        except NoDatabaseError:
            stored = StoredOutbox((), (), {}, ())
        except ReadError as error:
            log_event(log, "webhook.load_failed", level=logging.ERROR, error=error)
            return
        self._restore(stored)

    def reload(self, endpoints: tuple[WebhookEndpoint, ...]) -> None:
        """Use these endpoints from now on. Waiting events go to an endpoint as it is at their next attempt."""
        with self._changed:
            channels = self._outbox.channels
            for endpoint in endpoints:
                channel = channels.get(endpoint.name)
                if channel is None:
                    channels[endpoint.name] = Channel(endpoint)
                    continue
                if fingerprint(endpoint) != fingerprint(channel.endpoint):
                    channel.breaker.enable()
                channel.endpoint = endpoint
            for name in set(channels) - {endpoint.name for endpoint in endpoints}:
                self._settlement.orphan(channels.pop(name))
            self._changed.notify_all()
        self._settlement.flush()
        self._dispatcher.start(self._threads())

    def stop(self, grace_s: float) -> None:
        """Send what was never tried, within the grace; then everything known of deliveries is with the writer."""
        self._dispatcher.stop(grace_s)
        self._settlement.hand_over()

    def close(self) -> int:
        """After the writer has ended: log and count the events that are lost with this process (W24)."""
        with self._changed:
            lost = [f"{stream}:{seq}" for (stream, seq), waiting in self._outbox.unsaved.items() if waiting.lanes > 0]
        self._events["dropped"] += len(lost)
        for event_id in lost:
            log_event(log, "webhook.dropped", level=logging.ERROR, event_id=event_id)
        return len(lost)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def wants(self, target: ResolvedTarget, kind: EventType, reminder: int = 0) -> tuple[str, ...]:
        """The endpoints of the target that want this type of event (W4). `reminder` is the number of a reminder."""
        with self._changed:
            endpoints = tuple(channel.endpoint for channel in self._outbox.channels.values())
        return wanting(endpoints, target, kind, reminder)

    def reminder_interval_ms(self, target: ResolvedTarget) -> int | None:
        """How often the state machine is to remind of a target that is down."""
        with self._changed:
            endpoints = tuple(channel.endpoint for channel in self._outbox.channels.values())
        return reminder_interval_ms(endpoints, target)

    def full(self, stream: str) -> bool:
        """True while the stream's next event can't be accepted (W19, W22): ask again, and do not check meanwhile."""
        with self._changed:
            full = self._full(stream)
            since = self._full_since.get(stream)
            now = self._clock.monotonic()
            if full and since is None:
                self._full_since[stream] = now
                log_event(log, "webhook.waiting", level=logging.ERROR, stream=stream)
            elif not full and since is not None:
                del self._full_since[stream]
                self._waited_s += now - since
            return full

    def _full(self, stream: str) -> bool:
        if not self._loaded or self._room.full(stream, len(self._outbox.last_seq)):
            return True
        return self._settlement.degraded and not self._high_water.cover(self._outbox.next_seq(stream))

    def accept(self, target: ResolvedTarget, drafts: Iterable[EventDraft]) -> tuple[Event, ...]:
        """Filter, number and queue what a result brought. The caller hands the events to the writer at once."""
        events = []
        for draft in drafts:
            endpoints = self.wants(target, draft.type, draft.reminder)
            if endpoints:
                data = target_data(target, draft)
                events.append(self.number(target.id, draft.type, draft.timestamp_ms, data, endpoints, error_of(draft)))
        return tuple(events)

    def supervisor_event(
        self, kind: EventType, data: dict[str, JsonValue], error: str | None = None
    ) -> tuple[Event, ...]:
        """An event of the supervisor's own stream, if an endpoint wants it and there is room."""
        with self._changed:
            endpoints = tuple(channel.endpoint for channel in self._outbox.channels.values())
            names = wanting(endpoints, None, kind)
        if not names or self.full(SUPERVISOR_STREAM):
            return ()
        return (self.number(SUPERVISOR_STREAM, kind, self._clock.now_ms(), data, names, error),)

    def number(
        self,
        stream: str,
        kind: EventType,
        timestamp_ms: int,
        data: dict[str, JsonValue],
        endpoints: tuple[str, ...],
        error: str | None = None,
    ) -> Event:
        """Give an event its number and queue it: one step (W3)."""
        with self._changed:
            seq = self._outbox.next_seq(stream)
            envelope = Envelope(stream, f"{stream}:{seq}", seq, kind, self._source, timestamp_ms, (data,), error)
            accepted = Event(stream, seq, kind, timestamp_ms, envelope.json(), endpoints)
            self._room.take(stream)
            self._events["accepted"] += 1
            lanes = self._outbox.add(accepted, self._clock.monotonic())
            if self._settlement.degraded:
                self._note_degraded(stream)
            for lane in lanes:
                self._make_room(lane)
                self._settlement.ready(lane)
        self._settlement.flush()
        return accepted

    def _make_room(self, lane: Lane) -> None:
        limit = lane.channel.endpoint.max_pending
        while len(lane.waiting) > max(limit, 1):
            reason = f"more than maxPending ({limit}) events of its stream waited for the endpoint"
            self._settlement.take_out(lane, self._outbox.victim(lane), "overflow", reason)

    # --- the writer --------------------------------------------------------------------------------------------------

    def committed(self, item: Item) -> None:
        """The item's events are on disk (called by the writer's thread)."""
        if not item.events:
            return
        with self._changed:
            for accepted in item.events:
                if self._settlement.saved(accepted):
                    self._room.give_back(accepted.stream)
            if not self._settlement.degraded:
                self._degraded_streams.clear()

    def _note_degraded(self, stream: str) -> None:
        """Count a stream that has events only in memory, once per fault."""
        if stream not in self._degraded_streams:
            self._degraded_streams.add(stream)
            self._events["degraded"] += 1
            log_event(
                log, "webhook.degraded", level=logging.ERROR, stream=stream, cause="the database can't be written"
            )

    # --- what is told ------------------------------------------------------------------------------------------------

    def stats(self) -> WebhookStats:
        """Numbers for metrics."""
        with self._changed:
            now = self._clock.monotonic()
            if self._settlement.degraded:
                for stream in {stream for stream, _seq in self._outbox.unsaved}:
                    self._note_degraded(stream)
            waiting = sum(now - since for since in self._full_since.values())
            return WebhookStats(
                {name: self._events[name] for name in ("accepted", "degraded", "dropped")},
                dict(self._settlement.deliveries),
                tuple(_endpoint_stats(channel, now) for channel in self._outbox.channels.values()),
                len(self._degraded_streams) if self._settlement.degraded else 0,
                self._room.count,
                len(self._full_since),
                self._waited_s + waiting,
            )

    # --- the control socket ------------------------------------------------------------------------------------------

    def redeliver(self, event_id: str, endpoint: str | None = None) -> tuple[Attempt, ...]:
        """Send a stored event again, outside the ordered lane. Raises CommandError."""
        return redeliver(self._endpoints(), self._reader, self._sender, event_id, endpoint)

    def test(self, target: ResolvedTarget, endpoint: str | None = None) -> tuple[Attempt, ...]:
        """Send a sample to the target's endpoints, or to one. Raises CommandError."""
        return send_test(self._endpoints(), self._sender, self._source, self._clock.now_ms(), target, endpoint)

    def skip(self, event_id: str, endpoint: str | None = None) -> tuple[str, ...]:
        """Give up a waiting event at one endpoint or at all. Raises CommandError."""
        names = skip(self._settlement, event_id, endpoint)
        self._settlement.flush()
        return names

    def _endpoints(self) -> dict[str, WebhookEndpoint]:
        with self._changed:
            return {name: channel.endpoint for name, channel in self._outbox.channels.items()}


def _endpoint_stats(channel: Channel, now: float) -> EndpointStats:
    lanes = [lane for lane in channel.lanes.values() if lane.waiting]
    return EndpointStats(
        channel.endpoint.name,
        channel.breaker.state if channel.endpoint.enabled else "paused",
        sum(len(lane.waiting) for lane in lanes),
        max((now - lane.waiting[0].born for lane in lanes), default=0.0),
        channel.in_flight,
        channel.durations,
    )
