"""One HTTP request of a webhook, from URL to `Answer`: a checked address, a fresh connection, a total deadline.

The connection goes to an address that the policy has seen, so a name that resolves otherwise a moment later changes
nothing. Redirects are not followed. An answer counts as soon as its status line is in. Nothing of the environment
(proxies, netrc, CA bundles) has a say.
"""

from __future__ import annotations

import base64
import contextlib
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

import requests

from supervisor import __version__
from supervisor.deadline import Deadline, DeadlineExpired
from supervisor.net.dial import dial
from supervisor.net.failure import CertificateFailure, NetFailure, sentence, timed_out
from supervisor.net.policy import AddressPolicy
from supervisor.net.resolve import Address, peer_name, resolve
from supervisor.net.tls import DefaultTls, context_for, handshake
from supervisor.net.wire import Head, Reader, framing, read_head
from supervisor.text import clean, cut
from supervisor.webhook.retries import Answer, kind_of_status, retry_after_s

USER_AGENT = f"checkvisor/{__version__}"
RESERVED_HEADERS = frozenset(
    {
        "connection", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding", "upgrade",
        "user-agent", "webhook-id", "webhook-redelivery", "webhook-signature", "webhook-timestamp",
    }
)  # fmt: skip
_CONNECT_S = 3.0
_DRAIN_S = 0.5
_DRAIN_BYTES = 64 * 1024
_STATUS = re.compile(rb"HTTP/1\.[0-9] ([1-9][0-9][0-9])(?: |\r?$)")

Resolve = Callable[[str, int, str, Deadline], tuple[Address, ...]]


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `headers` come after Host and Connection, as they are."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    method: str = "POST"
    timeout_s: float = 10.0
    allow_private: bool = True


class Blocked(Exception):  # noqa: N818 - an outcome, not a fault
    """The address policy allows none of the addresses."""


class BadUrl(Exception):  # noqa: N818 - as above
    """The URL has no host or port that could be dialled."""


class Connections:
    """The sockets of requests under way, so that a stop can end them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._cut = False

    @contextlib.contextmanager
    def holding(self, sock: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(sock)
            if self._cut:
                _shut(sock)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(sock)

    def cut(self) -> None:
        """End every request under way, and each that comes later."""
        with self._lock:
            self._cut = True
            for sock in self._open:
                _shut(sock)


def _shut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):  # not connected any more: what is wanted
        sock.shutdown(socket.SHUT_RDWR)


def origin(url: str) -> str:
    """Scheme, host and port of a URL: what may be shown of it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return ""
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")


def exchange(request: Request, connections: Connections, look_up: Resolve = resolve) -> Answer:
    """Send the request and tell what came of it; never raises for what goes wrong on the way."""
    started = time.monotonic()
    deadline = Deadline(request.timeout_s)
    try:
        answer = _attempt(request, deadline, connections, look_up)
    except DeadlineExpired:
        answer = Answer("retryable", f"no answer within {request.timeout_s:g} s")
    except Blocked as error:
        answer = Answer("blocked", str(error), counts=False)
    except BadUrl as error:
        answer = Answer("permanent", str(error), counts=False)
    except CertificateFailure as error:
        answer = Answer("permanent", error.message)
    except NetFailure as error:
        answer = Answer("retryable", error.message)
    return Answer(
        answer.kind, answer.message, answer.status, answer.retry_after_s, answer.counts, time.monotonic() - started
    )


def _attempt(request: Request, deadline: Deadline, connections: Connections, look_up: Resolve) -> Answer:
    parts = _parts(request.url)
    host, port = _host_and_port(parts)
    addresses = _allowed(look_up(host, port, "any", deadline), host, AddressPolicy(request.allow_private))
    sock, address = dial(addresses, deadline, _CONNECT_S)
    try:
        with connections.holding(sock):
            if parts.scheme == "https":
                sock = handshake(sock, context_for(DefaultTls()), host, address.peer, deadline)
            with connections.holding(sock):
                return _converse(sock, _wire_bytes(request, parts), address.peer, request.method, deadline)
    finally:
        sock.close()


def _parts(url: str) -> SplitResult:
    """The URL's parts, escaped and in ASCII as they go on the wire."""
    prepared = requests.PreparedRequest()
    try:
        if urlsplit(url).port == 0:  # requests would leave it out
            raise BadUrl("port 0 can't be dialled")
        prepared.prepare_url(url, None)
        parts = urlsplit(str(prepared.url))
    except (requests.RequestException, ValueError) as error:
        raise BadUrl("the URL can't be used: it has no valid host and port") from error
    return parts


def _host_and_port(parts: SplitResult) -> tuple[str, int]:
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadUrl("the URL can't be used: it needs http:// or https:// and a host")
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


def _allowed(addresses: tuple[Address, ...], host: str, policy: AddressPolicy) -> tuple[Address, ...]:
    reasons = [policy.refuse(address.ip) for address in addresses]
    allowed = tuple(address for address, reason in zip(addresses, reasons, strict=True) if reason is None)
    if not allowed:
        why = reasons[0]
        shown = addresses[0].ip
        at = f"{host} ({shown})" if shown != host else host
        raise Blocked(f"{at} is a {why} address, which webhooks must not reach")
    return allowed


def _wire_bytes(request: Request, parts: SplitResult) -> bytes:
    host = parts.hostname or ""
    authority = peer_name(host, parts.port) if parts.port else (f"[{host}]" if ":" in host else host)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    headers = [("Host", authority), ("User-Agent", USER_AGENT), ("Accept", "*/*"), ("Connection", "close")]
    names = {name.lower() for name, _value in request.headers}
    if parts.username is not None and "authorization" not in names:
        pair = unquote_to_bytes(parts.username) + b":" + unquote_to_bytes(parts.password or "")
        headers.append(("Authorization", "Basic " + base64.b64encode(pair).decode()))
    headers += [(name, value) for name, value in request.headers if name.lower() not in ("host", "connection")]
    if request.body is not None:
        headers.append(("Content-Length", str(len(request.body))))
    lines = [f"{request.method} {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + (request.body or b"")


def _converse(sock: socket.socket, data: bytes, peer: str, method: str, deadline: Deadline) -> Answer:
    reader = Reader(sock, deadline, peer)
    try:
        sock.settimeout(deadline.remaining_s())
        sock.sendall(data)
    except OSError as error:
        if timed_out(error):
            raise DeadlineExpired from error
        # a receiver may answer and close before it has read everything: then the answer is what counts
        if not isinstance(error, BrokenPipeError | ConnectionResetError):
            raise NetFailure("send", sentence(error, peer)) from error
    status = _first_status(reader)
    if status is not None and 200 <= status <= 299:
        _drain(reader, method, deadline)
        return Answer("delivered", f"HTTP {status}", status, counts=False)
    try:
        head = read_head(reader)
    except (NetFailure, DeadlineExpired):
        if status is None or status < 200:
            raise
        head = Head(1, status, "", ())
    return _judged(head)


def _first_status(reader: Reader) -> int | None:
    """The status of the first line; None when it is none (reading the head says what is wrong)."""
    while b"\n" not in reader.buffer:
        if len(reader.buffer) > _DRAIN_BYTES or not reader.fill():
            return None
    found = _STATUS.match(bytes(reader.buffer[: reader.buffer.index(b"\n")]))
    return None if found is None else int(found[1])


def _judged(head: Head) -> Answer:
    kind, counts = kind_of_status(head.status)
    message = f"HTTP {head.status}"
    if 300 <= head.status <= 399:
        message += f": a redirect{_target(head)}, which is never followed"
    elif kind == "gone":
        message += " Gone: the receiver wants no more events"
    after = next(iter(head.all("retry-after")), None)
    return Answer(kind, message, head.status, retry_after_s(after, time.time()), counts)


def _target(head: Head) -> str:
    location = next(iter(head.all("location")), None)
    if location is None:
        return " without a Location"
    try:
        parts = urlsplit(location)
    except ValueError:
        return " to a malformed Location"
    if parts.hostname:
        return f" to {cut(clean(parts.hostname), 100)}"
    return " to a malformed Location" if parts.scheme else " within the same host"


def _drain(reader: Reader, method: str, deadline: Deadline) -> None:
    """Read a little of the answer, so that the receiver can finish writing it; what comes of it does not matter."""
    deadline.at = min(deadline.at, time.monotonic() + _DRAIN_S)
    with contextlib.suppress(NetFailure, DeadlineExpired, OSError):
        head = read_head(reader)
        how = framing(head, method)
        wanted = how.length if how.kind in ("length", "none") and how.length is not None else _DRAIN_BYTES
        while len(reader.buffer) < min(wanted, _DRAIN_BYTES) and reader.fill():
            pass
