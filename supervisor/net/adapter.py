"""The connection layer as an adapter under `requests`: prepared request in, answer out, over a fresh connection."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any

import requests
from requests.adapters import BaseAdapter
from requests.cookies import RequestsCookieJar
from requests.structures import CaseInsensitiveDict

from supervisor.deadline import Deadline, DeadlineExpired
from supervisor.net.budget import left_s
from supervisor.net.dial import dial
from supervisor.net.failure import Blocked, NetFailure, sentence, timed_out
from supervisor.net.policy import AddressPolicy
from supervisor.net.request import Origin, Prepared, Proxy
from supervisor.net.resolve import Address, peer_name, resolve
from supervisor.net.tls import DefaultTls, TlsOptions, broke, context_for, handshake, tls_sentence
from supervisor.net.wire import BodyStream, Framing, Head, Reader, framing, read_head

_DEFAULT_TLS = DefaultTls()


@dataclass(frozen=True, slots=True)
class Route:
    """Which way to go to an origin. `connect_timeout_s` None: the deadline alone bounds connecting."""

    tls: TlsOptions = _DEFAULT_TLS
    proxy: Proxy | None = None
    ip_version: str = "any"
    connect_to: tuple[str, int] | None = None
    policy: AddressPolicy | None = None
    connect_timeout_s: float | None = None
    client_certificate: bool = True


class Watch:
    """Hears which step runs and what was seen. This one does nothing; a checker's writes the trace."""

    tracing = False

    def enter(self, place: str) -> None:
        """The step `place` (see failure.Place) begins."""

    def note(self, step: str, seen: str) -> None:
        """A step is done; called only if `tracing`."""


class Exchange:
    """One request and its answer: the connection, the time of each step in ms, how far it got."""

    __slots__ = (
        "connect_ms", "deadline", "dns_ms", "first_byte_ms", "framing", "head", "leaf", "peer", "reader", "sent_at",
        "sock", "stream", "tls_ms", "tls_version", "transfer_ms", "watch",
    )  # fmt: skip

    def __init__(self, deadline: Deadline, watch: Watch) -> None:
        self.deadline = deadline
        self.watch = watch
        self.sock: socket.socket | None = None
        self.reader: Reader | None = None
        self.head: Head | None = None
        self.framing: Framing | None = None
        self.stream: BodyStream | None = None
        self.peer = ""
        self.leaf: bytes | None = None
        self.tls_version = ""
        self.sent_at = 0.0
        self.dns_ms: float | None = None
        self.connect_ms: float | None = None
        self.tls_ms: float | None = None
        self.first_byte_ms: float | None = None
        self.transfer_ms: float | None = None

    # --- the way there

    def open(self, origin: Origin, route: Route) -> None:
        """Connect, through the proxy if there is one, and begin TLS. Raises NetFailure and DeadlineExpired."""
        host, port = route.connect_to or (origin.host, origin.port)
        proxy = route.proxy
        tunnel = proxy is not None and (origin.scheme == "https" or route.connect_to is not None)
        if proxy is None:
            self._connect(host, port, route)
        else:
            self._connect_proxy(proxy, route)
            if tunnel:
                self._tunnel(proxy, host, port)
        if origin.scheme == "https":
            self._secure(origin, route)
        if self.sock is not None:
            self.reader = Reader(self.sock, self.deadline, self.peer)

    def _connect(self, host: str, port: int, route: Route, places: tuple[str, str] = ("dns", "connect")) -> None:
        self.watch.enter(places[0])
        began = time.monotonic()
        addresses = resolve(host, port, route.ip_version, self.deadline)
        resolved = time.monotonic()
        self.dns_ms = (resolved - began) * 1000
        self.peer = peer_name(host, port)
        if self.watch.tracing:
            self.watch.note("resolve", f"{host} is {', '.join(address.ip for address in addresses)}")
        if route.policy is not None:
            _permit(addresses, route.policy, host)
        self.watch.enter(places[1])
        self.sock, address = dial(addresses, self.deadline, route.connect_timeout_s)
        self.connect_ms = (time.monotonic() - resolved) * 1000
        self.peer = address.peer if host == address.ip else f"{self.peer} ({address.ip})"
        if self.watch.tracing:
            self.watch.note("connect", f"connected to {self.peer}")

    def _connect_proxy(self, proxy: Proxy, route: Route) -> None:
        try:
            self._connect(proxy.host, proxy.port, route, ("proxy", "proxy"))
        except NetFailure as failure:
            raise NetFailure("proxy", f"proxy: {failure.message}") from failure
        self.peer = f"proxy {self.peer}"

    def _tunnel(self, proxy: Proxy, host: str, port: int) -> None:
        """CONNECT (RFC 9110, 9.3.6)."""
        self.watch.enter("proxy")
        target = peer_name(host.partition("%")[0], port)
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        if proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        assert self.sock is not None
        try:
            self._send_all(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace"))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise NetFailure("proxy", f"{sentence(error, self.peer)} before it was asked for the tunnel") from error
        reader = Reader(self.sock, self.deadline, self.peer)
        try:
            head = read_head(reader)
        except NetFailure as failure:
            raise NetFailure("proxy", failure.message) from failure
        if not 200 <= head.status < 300:
            why = " (it asks for credentials)" if head.status == 407 else ""
            told = f"the {self.peer} refused the tunnel to {target} with status {head.status}{why}"
            raise NetFailure("proxy", told, actual=str(head.status), expected="200")
        if reader.buffer:
            raise NetFailure("proxy", f"the {self.peer} sent data before the tunnel was used")
        if self.watch.tracing:
            self.watch.note("proxy", f"tunnel to {target}")
        self.peer = f"{target} (through the {self.peer})"

    def _secure(self, origin: Origin, route: Route) -> None:
        self.watch.enter("tls")
        began = time.monotonic()
        context = context_for(route.tls, with_client_certificate=route.client_certificate)
        name = route.tls.server_name or origin.host.partition("%")[0].removesuffix(".")
        assert self.sock is not None
        secured = handshake(self.sock, context, name, self.peer, self.deadline)
        self.sock = secured
        self.tls_ms = (time.monotonic() - began) * 1000
        self.leaf = secured.getpeercert(binary_form=True)
        self.tls_version = secured.version() or ""
        if self.watch.tracing:
            cipher = secured.cipher()
            self.watch.note("tls", f"{self.tls_version}, {cipher[0] if cipher else 'no cipher'}")

    # --- request and answer

    def send(self, data: bytes, method: str) -> None:
        """Send the whole request. A server may answer and close before it has read it all: then its answer counts."""
        self.watch.enter("send")
        try:
            self._send_all(data)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError) as error:
            self._answer_to_part(method, error)
        self.sent_at = self.sent_at or time.monotonic()

    def _answer_to_part(self, method: str, error: OSError) -> None:
        """The connection broke while we sent: an answer may lie there all the same, or a TLS alert that says why."""
        try:
            self.receive_head(method, keep_101=False)
        except NetFailure as failure:
            if failure.place == "tls":
                raise
            told = f"{sentence(error, self.peer)} while the request was being sent"
            raise NetFailure("send", told) from error

    def _send_all(self, data: bytes) -> None:
        assert self.sock is not None
        view = memoryview(data)
        try:
            while view:
                self.sock.settimeout(left_s(self.deadline))
                view = view[self.sock.send(view) :]
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            raise  # see _answer_to_part
        except OSError as error:
            if timed_out(error):
                raise DeadlineExpired from error
            if broke(error):
                raise NetFailure("tls", tls_sentence(error, self.peer)) from error
            raise NetFailure("send", f"{sentence(error, self.peer)} while the request was being sent") from error

    def receive_head(self, method: str, *, keep_101: bool) -> None:
        """Read until the final headers are in."""
        if self.head is not None:
            return
        assert self.reader is not None
        self.watch.enter("headers")
        began = self.sent_at = self.sent_at or time.monotonic()
        self.reader.fill()
        self.first_byte_ms = (time.monotonic() - began) * 1000
        head = read_head(self.reader, keep_101=keep_101)
        self.framing = framing(head, method)
        self.stream = BodyStream(self.reader, self.framing)
        self.head = head

    def close(self) -> None:
        """Close the connection; whatever is still unread stays unread."""
        if self.sock is not None:
            with contextlib.suppress(OSError):  # closing is best effort: the verdict is made
                self.sock.close()
            self.sock = None  # last: SIGALRM may strike between, and then it is closed once more


def _permit(addresses: tuple[Address, ...], policy: AddressPolicy, host: str) -> None:
    """Every answer counts: one forbidden address among good ones is no accident."""
    for address in addresses:
        reason = policy.refuse(address.ip)
        if reason is not None:
            shown = address.ip if host == address.ip else f"{host} is {address.ip}, which"
            raise Blocked("connect", f"{shown} is a {reason} address: not allowed")


class Answer:
    """`Response.raw`: the fields as they came and the body as a stream."""

    def __init__(self, exchange: Exchange, head: Head, stream: BodyStream) -> None:
        self.exchange = exchange
        self.head = head
        self.body = stream
        self._rest: BytesIO | None = None

    def stream(self, _amount: int = 65536, decode_content: bool | None = None) -> Iterator[bytes]:
        """The body without its framing, never decoded: who needs it decoded does that under a cap of its own."""
        yield from self.body.chunks()
        self.close()

    def read(self, amount: int | None = None, decode_content: bool | None = None) -> bytes:
        """Like a file's read; reads the whole body first."""
        if self._rest is None:
            self._rest = BytesIO(b"".join(self.stream()))
        return self._rest.read(amount)

    def read_at_most(self, limit_bytes: int) -> bytes:
        """The first bytes of the body, at most so many, undecoded."""
        parts: list[bytes] = []
        left = limit_bytes
        for chunk in self.body.chunks():
            parts.append(chunk[:left])
            left -= len(parts[-1])
            if left <= 0:
                break
        return b"".join(parts)

    def close(self) -> None:
        self.exchange.close()

    def release_conn(self) -> None:
        self.exchange.close()


class _Response(requests.Response):
    """A requests.Response that makes its header map and cookie jar when someone asks: a check does not, and they cost
    a tenth of it."""

    def __init__(self, prepared: Prepared, exchange: Exchange) -> None:
        head, stream = exchange.head, exchange.stream
        assert head is not None
        assert stream is not None
        self._head = head
        # From here on what requests.Response sets itself; False is its "not read yet".
        self._content = False  # type: ignore[assignment]
        self._content_consumed = False
        self._next = None
        self.history = []
        self.encoding = None
        self.elapsed = datetime.timedelta(milliseconds=exchange.first_byte_ms or 0.0)
        self.status_code = head.status
        self.reason = head.reason
        self.url = prepared.url or ""
        self.request = prepared
        self.raw = Answer(exchange, head, stream)

    @cached_property
    def headers(self) -> CaseInsensitiveDict[str]:  # type: ignore[override]
        return _joined(self._head)

    @cached_property
    def cookies(self) -> RequestsCookieJar:  # type: ignore[override]
        return RequestsCookieJar()


class Adapter(BaseAdapter):
    """Sends each request over a fresh connection that ends by its deadline. Redirects, cookies and decoding are the
    caller's. Use `send` itself: a Session would read the whole body of a redirect, past every cap.

    `exchange` is the latest one: its times and its peer are there also when `send` raised."""

    def __init__(self, route: Route | None = None, watch: Watch | None = None) -> None:
        super().__init__()
        self.route = route or Route()
        self.watch = watch or Watch()
        self.exchange: Exchange | None = None

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: Any = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """The answer once its headers are in. `timeout` is a Deadline, or the seconds for everything until the body's
        end; TLS and proxy come from the route, and what the session says of them does not count.

        Raises NetFailure (a requests.ConnectionError) and DeadlineExpired; closes the connection when it does."""
        deadline = timeout if isinstance(timeout, Deadline) else Deadline(_seconds(timeout))
        prepared = Prepared.of(request)
        exchange = self.exchange = Exchange(deadline, self.watch)
        route = self.route
        try:
            exchange.open(prepared.origin, route)
            plain_proxy = route.proxy is not None and prepared.origin.scheme == "http" and route.connect_to is None
            data = self._proxied(prepared) if plain_proxy else prepared.wire
            method = prepared.method or "GET"
            exchange.send(data, method)
            exchange.receive_head(method, keep_101="Upgrade" in prepared.headers)
        except BaseException:
            exchange.close()
            raise
        return _Response(prepared, exchange)

    def _proxied(self, prepared: Prepared) -> bytes:
        authorization = self.route.proxy.authorization if self.route.proxy else None
        if authorization is None:
            return prepared.proxied()
        line, _, rest = prepared.proxied().partition(b"\r\n")
        return b"\r\n".join((line, b"Proxy-Authorization: " + authorization.encode("ascii"), rest))

    def close(self) -> None:
        if self.exchange is not None:
            self.exchange.close()


def _joined(head: Head) -> CaseInsensitiveDict[str]:
    """Repeated fields joined with `, ` (RFC 9110, 5.3)."""
    joined: CaseInsensitiveDict[str] = CaseInsensitiveDict()
    for name, value in head.fields:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


def _seconds(timeout: Any) -> float:
    if isinstance(timeout, tuple):
        timeout = timeout[1]
    return float(timeout) if timeout is not None else 30.0
