"""What an operator asks for: send again, send a test, skip. Outside the ordered lanes, so nothing waits for it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from supervisor.errors import CheckvisorError
from supervisor.model import ResolvedTarget, WebhookEndpoint
from supervisor.store.connect import Reader, ReadError
from supervisor.store.outbox import StoredEvent, read_event
from supervisor.webhook.deliver import Parcel, Sender
from supervisor.webhook.payload import Envelope, UnreadableEventError
from supervisor.webhook.settle import Settlement

_EVENT_ID = re.compile(r"(.+):([1-9][0-9]{0,18})")


class CommandError(CheckvisorError):
    """The command can't be done; `str()` says why."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What one endpoint said."""

    endpoint: str
    event_id: str
    delivered: bool
    message: str


def parse_event_id(event_id: str) -> tuple[str, int]:
    """Stream and number of `shop-api:17`."""
    found = _EVENT_ID.fullmatch(event_id)
    if found is None:
        raise CommandError(f"{event_id!r} is no event id; one looks like shop-api:17 (see: checkvisor events list)")
    return found[1], int(found[2])


def redeliver(
    endpoints: Mapping[str, WebhookEndpoint], reader: Reader, sender: Sender, event_id: str, only: str | None
) -> tuple[Attempt, ...]:
    """The same event id and bytes again, to the endpoints that wanted it or to one that did."""
    stream, seq = parse_event_id(event_id)
    try:
        with reader.read() as reading:
            stored = read_event(reading.connection, stream, seq)
    except ReadError as error:
        raise CommandError(str(error)) from error
    if stored is None:
        raise CommandError(f"there is no event {event_id}: it never existed, or retention has deleted it")
    parcel = Parcel(event_id, stored.body)
    try:
        return tuple(
            _sent(sender, endpoint, parcel, redelivery=True) for endpoint in _receivers(endpoints, stored, only)
        )
    except UnreadableEventError as error:
        raise CommandError(f"event {event_id} can't be sent: {error}") from error


def _receivers(
    endpoints: Mapping[str, WebhookEndpoint], stored: StoredEvent, only: str | None
) -> list[WebhookEndpoint]:
    if only is not None:
        return [_named(endpoints, only)]
    found = [endpoints[name] for name in stored.endpoints if name in endpoints]
    if not found:
        names = ", ".join(stored.endpoints)
        raise CommandError(f"none of the event's endpoints ({names}) is configured any more; name one with --endpoint")
    return found


def _named(endpoints: Mapping[str, WebhookEndpoint], name: str) -> WebhookEndpoint:
    if name not in endpoints:
        known = ", ".join(endpoints) or "none"
        raise CommandError(f"there is no webhook {name!r}; configured are: {known}")
    return endpoints[name]


def send_test(
    endpoints: Mapping[str, WebhookEndpoint],
    sender: Sender,
    source: str,
    now_ms: int,
    target: ResolvedTarget,
    only: str | None,
) -> tuple[Attempt, ...]:
    """A `target.test` to the target's endpoints or to one; it has no number and is stored nowhere."""
    names = target.notify if only is None else (only,)
    if not names:
        raise CommandError(f"target {target.id} notifies no webhook; name one with --endpoint")
    event_id = f"{target.id}:test-{uuid.uuid4()}"
    data = {"targetId": target.id, "name": target.name, "group": target.group, "checkType": target.type}
    envelope = Envelope(target.id, event_id, None, "target.test", source, now_ms, (data,))
    parcel = Parcel(event_id, envelope.json().encode())
    return tuple(_sent(sender, _named(endpoints, name), parcel, redelivery=False) for name in names)


def _sent(sender: Sender, endpoint: WebhookEndpoint, parcel: Parcel, *, redelivery: bool) -> Attempt:
    answer = sender.send(endpoint, parcel, redelivery=redelivery)
    return Attempt(endpoint.name, parcel.event_id, answer.kind == "delivered", answer.message)


def skip(settlement: Settlement, event_id: str, only: str | None) -> tuple[str, ...]:
    """A dead letter for an event that still waits; the names of the endpoints where it did."""
    stream, seq = parse_event_id(event_id)
    skipped = []
    with settlement.changed:
        for lane in list(settlement.outbox.lanes()):
            if lane.stream != stream or (only is not None and lane.name != only):
                continue
            waiting = next((one for one in lane.waiting if one.seq == seq), None)
            if waiting is None:
                continue
            if lane.waiting[0] is not waiting:
                settlement.take_out(lane, waiting, "failed", "skipped by `checkvisor events skip`")
            elif lane.busy:
                raise CommandError(f"event {event_id} is just being sent to {lane.name}; try again in a moment")
            else:
                settlement.give_up(lane, 1, "failed", "skipped by `checkvisor events skip`")
            skipped.append(lane.name)
    if not skipped:
        where = "" if only is None else f" for {only}"
        raise CommandError(
            f"event {event_id} does not wait{where}: it was delivered, is a dead letter, or never existed"
        )
    return tuple(skipped)
