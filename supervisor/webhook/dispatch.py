"""Who sends what next: the delivery threads take jobs fairly, make the attempt, and settle it."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from supervisor.logs import event
from supervisor.model import WebhookEndpoint
from supervisor.store.connect import Reader, ReadError
from supervisor.store.outbox import OutcomeName, read_next_event
from supervisor.webhook.deliver import Parcel, Sender
from supervisor.webhook.fallback import HighWater
from supervisor.webhook.outbox import Channel, Lane, Waiting
from supervisor.webhook.payload import UnreadableEventError
from supervisor.webhook.retries import Answer, next_delay_s
from supervisor.webhook.settle import Settlement, too_old

log = logging.getLogger(__name__)

_PER_ENDPOINT = 4
_POLL_S = 1.0
_STORE_LOOK_S = 0.25
_STORE_AGAIN_S = 5.0
_STOP_S = 1.0
_INTERNAL = Answer("permanent", "an error inside Checkvisor while delivering; see its log", counts=False)


@dataclass(slots=True)
class Job:
    """One attempt: the head of a lane, and the settings it is made with."""

    lane: Lane
    waiting: Waiting
    endpoint: WebhookEndpoint
    probe: bool
    done: bool = False


class Dispatcher:
    """The delivery threads. They share the settlement's lock, and hold it neither while sending nor while reading."""

    def __init__(
        self,
        settlement: Settlement,
        reader: Reader,
        high_water: HighWater,
        sender: Sender,
        *,
        chance: Callable[[], float] = random.random,
        reached: Callable[[str], None],
        every_second: Callable[[], None],
    ) -> None:
        self._settlement = settlement
        self._outbox = settlement.outbox
        self._clock = settlement.clock
        self._changed = settlement.changed
        self._reader = reader
        self._high_water = high_water
        self._sender = sender
        self._chance = chance
        self._reached = reached  # tests end the process at these points
        self._every_second = every_second
        self._threads: list[threading.Thread] = []
        self._free = 0
        self._turn = 0
        self._stopping = False
        self._cut = False
        self._looked = self._swept = float("-inf")

    # --- threads -----------------------------------------------------------------------------------------------------

    def start(self, threads: int) -> None:
        """Have this many delivery threads (never fewer than before)."""
        with self._changed:
            missing = threads - len(self._threads)
            self._free += max(missing, 0)
        for _ in range(missing):
            self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._serve, name="webhook", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _serve(self) -> None:
        ended = False
        try:
            while (job := self._take()) is not None:
                self._run(job)
            ended = True
        finally:
            if not ended and not self._stopping:  # an exception goes to threading.excepthook; its successor serves on
                self._threads.remove(threading.current_thread())
                self._start_thread()

    def stop(self, grace_s: float) -> None:
        """Within `grace_s`: what was never tried is sent, attempts under way end; then their connections are ended."""
        until = time.monotonic() + grace_s
        with self._changed:
            while self._outbox.untried(self._clock.monotonic()) and (left := until - time.monotonic()) > 0:
                self._changed.wait(min(left, 0.05))
            self._stopping = True
            self._changed.notify_all()
        self._join(max(until - time.monotonic(), 0.0))
        self._cut = True
        self._sender.cut()
        self._join(_STOP_S)

    def _join(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        for thread in list(self._threads):
            thread.join(max(until - time.monotonic(), 0))

    # --- choosing ----------------------------------------------------------------------------------------------------

    def _take(self) -> Job | None:
        """Wait for the next attempt to make; None when it is time to stop."""
        while True:
            self._look_around()
            self._settlement.flush()
            with self._changed:
                if self._stopping:
                    return None
                now = self._clock.monotonic()
                job = self._pick(now)
                if job is not None:
                    return job
                self._changed.wait(self._idle_s(now))

    def _look_around(self) -> None:
        """Watch the store, and once a second sweep and do what else is due. Real time, whatever the clock says."""
        now = time.monotonic()
        with self._changed:
            look, sweep = now - self._looked >= _STORE_LOOK_S, now - self._swept >= _POLL_S
            self._looked = now if look else self._looked
            self._swept = now if sweep else self._swept
            if sweep and not self._stopping:
                self._settlement.sweep()
        if look:
            self._settlement.look_at_writer()
        if sweep:
            self._sender.tidy()
            self._every_second()

    def _idle_s(self, now: float) -> float:
        wakes = [channel.next_wake() for channel in self._outbox.channels.values()]
        nearest = min((wake for wake in wakes if wake is not None), default=now + _POLL_S)
        return min(max(nearest - now, 0.001), _STORE_LOOK_S if self._settlement.degraded else _POLL_S)

    def _pick(self, now: float) -> Job | None:
        """The next lane of the next endpoint, in turns."""
        channels = list(self._outbox.channels.values())
        for offset in range(len(channels)):
            place = (self._turn + offset) % len(channels)
            channel = channels[place]
            channel.wake(now)
            while self._may_send(channel, channels, now):
                lane = channel.pop()
                if not lane.busy and self._settlement.sendable(lane):
                    self._turn = place + 1
                    return self._job(lane)
        return None

    def _may_send(self, channel: Channel, channels: list[Channel], now: float) -> bool:
        if not channel.has_ready or not channel.endpoint.enabled or channel.in_flight >= _PER_ENDPOINT:
            return False
        if channel.breaker.permission(now) == "wait":
            return False
        if channel.in_flight == 0:
            return True
        # one thread is kept free for every endpoint that has none: two slow receivers must not delay a third
        idle = sum(1 for other in channels if other is not channel and other.endpoint.enabled and not other.in_flight)
        return self._free > idle

    def _job(self, lane: Lane) -> Job:
        channel = lane.channel
        lane.busy = True
        channel.in_flight += 1
        self._free -= 1
        probe = channel.breaker.state == "open"
        channel.breaker.probing = channel.breaker.probing or probe
        return Job(lane, lane.waiting[0], channel.endpoint, probe)

    # --- one attempt -------------------------------------------------------------------------------------------------

    def _run(self, job: Job) -> None:
        """Make the attempt and settle it. Whatever happens in here, the event gets an outcome or stays in its place."""
        try:
            self._attempt(job)
        finally:
            if not job.done:  # an exception is on its way out: it ends this thread, not the event's lane
                self._settle(job, _INTERNAL)
            self._settlement.flush()

    def _attempt(self, job: Job) -> None:
        lane, waiting = job.lane, job.waiting
        if self._clock.monotonic() - waiting.born > job.endpoint.max_age_s:
            self._give_up(job, "expired", too_old(job.endpoint, lane))
            return
        try:
            parcel = self._parcel(lane, waiting)
            if parcel is None:
                self._put_back(job, _STORE_AGAIN_S)
                return
            self._reached("before-post")
            answer = self._sender.send(job.endpoint, parcel)
            self._reached("after-post")
        except UnreadableEventError as error:
            event(log, "webhook.unreadable", level=logging.ERROR, stream=lane.stream, seq=waiting.seq, error=error)
            self._give_up(job, "unreadable", str(error))
            return
        if self._cut and answer.kind != "delivered":  # our own stop ended it
            self._put_back(job, 0.0)
        else:
            self._settle(job, answer)

    def _parcel(self, lane: Lane, waiting: Waiting) -> Parcel | None:
        """The event to send, None when it can't be had now. Raises UnreadableEventError when it is not there at all."""
        event_id = f"{lane.stream}:{waiting.seq}"
        if not waiting.saved and not self._high_water.cover(waiting.seq):
            return None
        kept = waiting.event
        if kept is not None:
            return Parcel(event_id, kept.body_json.encode())
        try:
            with self._reader.read(deadline_s=_STORE_AGAIN_S) as reading:
                stored = read_next_event(reading.connection, lane.stream, lane.name, waiting.seq - 1)
        except ReadError as error:
            event(log, "webhook.read_failed", level=logging.WARNING, stream=lane.stream, seq=waiting.seq, error=error)
            return None
        if stored is None or stored.seq != waiting.seq:
            raise UnreadableEventError("it is not in the database any more")
        return Parcel(event_id, stored.body)

    # --- what came of it ---------------------------------------------------------------------------------------------

    def _release(self, job: Job) -> None:
        job.done = True
        job.lane.channel.in_flight -= 1
        self._free += 1
        if job.probe:
            job.lane.channel.breaker.probing = False

    def _put_back(self, job: Job, delay_s: float) -> None:
        """Nothing came of it: the event stays where it is and its turn comes again."""
        with self._changed:
            self._release(job)
            job.lane.busy = False
            job.lane.due = self._clock.monotonic() + delay_s
            self._settlement.ready(job.lane)

    def _give_up(self, job: Job, outcome: OutcomeName, reason: str) -> None:
        with self._changed:
            self._release(job)
            self._settlement.give_up(job.lane, 1, outcome, reason)

    def _settle(self, job: Job, answer: Answer) -> None:
        """Turn an answer into an outcome."""
        with self._changed:
            lane, channel, settlement = job.lane, job.lane.channel, self._settlement
            channel.durations.add(answer.duration_s)
            if answer.kind == "gone" and channel.endpoint != job.endpoint:  # said to settings that are gone themselves
                answer = Answer("retryable", answer.message, answer.status, counts=False)
            before, chance = channel.breaker.state, self._chance()
            spent = channel.breaker.told(answer, self._clock.monotonic(), self._clock.now_ms(), chance)
            self._release(job)
            _log_attempt(job, answer)
            _log_breaker(channel, before)
            match answer.kind:
                case "delivered":
                    settlement.delivered(lane)
                case "gone":
                    settlement.give_up(lane, 1, "disabled", answer.message)
                case "blocked":
                    settlement.give_up(lane, 1, "blocked", answer.message)
                case "retryable" | "permanent":
                    self._failed(lane, answer, spent=spent, chance=chance)

    def _failed(self, lane: Lane, answer: Answer, *, spent: bool, chance: float) -> None:
        lane.last_error = answer.message
        if not spent:
            self._settlement.retry(lane, 0.0)
            return
        lane.attempts += 1
        delay = next_delay_s(lane.channel.endpoint, lane.attempts, answer, chance)
        if delay is None:
            self._settlement.give_up(lane, 1, "failed", f"{answer.message} (attempt {lane.attempts}, the last)")
        else:
            self._settlement.retry(lane, delay)


def _log_attempt(job: Job, answer: Answer) -> None:
    name, level = (
        ("webhook.delivered", logging.INFO) if answer.kind == "delivered" else ("webhook.failed", logging.WARNING)
    )
    event(
        log, name, level=level, endpoint=job.lane.name, event_id=f"{job.lane.stream}:{job.waiting.seq}",
        type=job.waiting.type, attempt=job.lane.attempts + 1, duration_ms=answer.duration_s * 1000,
        answer=answer.message,
    )  # fmt: skip


def _log_breaker(channel: Channel, before: str) -> None:
    breaker = channel.breaker
    if breaker.state == before:
        return
    level = logging.INFO if breaker.state == "closed" else logging.ERROR
    event(
        log, "webhook.endpoint", level=level, endpoint=channel.endpoint.name, state=breaker.state, reason=breaker.reason
    )
