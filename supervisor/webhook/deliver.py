"""One attempt to deliver one event to one endpoint, whatever its format. Tells what came of it; decides nothing."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from supervisor.model import WebhookEndpoint
from supervisor.net.resolve import resolve
from supervisor.text import Masker, clean, cut
from supervisor.webhook.exchange import RESERVED_HEADERS, Connections, Request, Resolve, exchange, origin
from supervisor.webhook.payload import headline, native_body, parse, template_body
from supervisor.webhook.retries import Answer
from supervisor.webhook.services import Services
from supervisor.webhook.signature import signatures


@dataclass(frozen=True, slots=True)
class Parcel:
    """An event to send: its id and the stored envelope."""

    event_id: str
    body: bytes = field(repr=False)


def shown_url(endpoint: WebhookEndpoint) -> str:
    """What may be shown of where an endpoint is: an origin, or the scheme of an Apprise URL."""
    if endpoint.format == "apprise" and endpoint.apprise_url:
        return endpoint.apprise_url.partition("://")[0] + "://"
    return origin(endpoint.url)


class Sender:
    """Used by all delivery threads at once."""

    def __init__(self, look_up: Resolve = resolve) -> None:
        self._look_up = look_up
        self._connections = Connections()
        self._services = Services()

    def send(self, endpoint: WebhookEndpoint, parcel: Parcel, *, redelivery: bool = False) -> Answer:
        """Make one attempt. Raises UnreadableEventError when the stored bytes are no envelope."""
        envelope = parse(parcel.body)
        if endpoint.format == "apprise":
            title, text, severity = headline(envelope)
            answer = self._services.notify(endpoint, title, text, severity)
        else:
            if endpoint.format == "template" and endpoint.template_json is not None:
                body = template_body(endpoint.template_json, envelope, endpoint.metadata_json)
            else:
                body = native_body(envelope, endpoint.metadata_json)
            answer = self._post(
                endpoint, f"{envelope.get('source', '')}:{parcel.event_id}", body, redelivery=redelivery
            )
        message = cut(clean(Masker(endpoint.mask).mask(answer.message)), 500)
        return replace(answer, message=message)

    def _post(self, endpoint: WebhookEndpoint, message_id: str, body: bytes, *, redelivery: bool) -> Answer:
        timestamp_s = int(time.time())
        headers = [
            ("Content-Type", "application/json"),
            ("webhook-id", message_id),
            ("webhook-timestamp", str(timestamp_s)),
        ]
        try:
            if endpoint.secrets:
                headers.append(("webhook-signature", signatures(endpoint.secrets, message_id, timestamp_s, body)))
        except ValueError as error:
            return Answer("permanent", f"the event can't be signed: {error}", counts=False)
        if redelivery:
            headers.append(("webhook-redelivery", "true"))
        headers += [(name, value) for name, value in endpoint.headers if name.lower() not in RESERVED_HEADERS]
        if any(not _sendable(name) or not _sendable(value) for name, value in headers):
            return Answer("permanent", "a configured header holds a character that can't be sent", counts=False)
        request = Request(
            endpoint.url, tuple(headers), body, timeout_s=endpoint.timeout_s, allow_private=endpoint.allow_private
        )
        return exchange(request, self._connections, self._look_up)

    def cut(self) -> None:
        """End the attempts under way, and each that comes later."""
        self._connections.cut()
        self._services.close()

    def tidy(self) -> None:
        """Let go of what has been idle for long."""
        self._services.tidy()


def _sendable(text: str) -> bool:
    return all(char == "\t" or " " <= char <= "~" or "\xa0" <= char <= "\xff" for char in text)
