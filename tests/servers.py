"""Real servers on loopback for every test: byte scripts, TLS, a black hole, proxies. Nothing is simulated.

    with script_server([OK, length(b"ok")]) as server:
        server.url            # http://127.0.0.1:PORT/
        server.requests       # the bytes of each request head (and what came with it), in order

A script is a list of steps, or a function `(request: bytes, connection: int) -> steps`. A step is bytes to send,
seconds to wait (a number), RST (reset the connection), HOLD (keep it open until the test ends), HALF (close our sending
side), a function called with the socket, or a tuple of steps. The end of the list closes the connection.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

OK = b"HTTP/1.1 200 OK\r\n"
RST = "rst"
HOLD = "hold"
HALF = "half"

Step = Any
Script = Sequence[Step] | Callable[[bytes, int], Sequence[Step]]


def length(body: bytes, *headers: bytes) -> bytes:
    """The rest of an answer after its status line: these headers, an honest Content-Length, the body."""
    return b"".join(line + b"\r\n" for line in headers) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def chunked(*chunks: bytes) -> bytes:
    """The rest of an answer in chunked coding."""
    coded = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return b"Transfer-Encoding: chunked\r\n\r\n" + coded + b"0\r\n\r\n"


def redirect(location: bytes, status: int = 302, *headers: bytes) -> bytes:
    """A whole redirecting answer."""
    return b"HTTP/1.1 %d Found\r\nLocation: %s\r\n" % (status, location) + length(b"", *headers)


@dataclass
class Server:
    """A running script server and what it has seen."""

    host: str
    port: int
    secure: bool = False
    requests: list[bytes] = field(default_factory=list)
    connections: int = 0
    handshake_errors: list[str] = field(default_factory=list)
    sockets: list[socket.socket] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)
    server_names: list[str | None] = field(default_factory=list)
    sent_bytes: int = 0

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}/"

    def url_as(self, host: str, path: str = "/") -> str:
        """The URL under another name for the host."""
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{path}"

    def headers(self, index: int = 0) -> dict[str, str]:
        """The header fields of a request, names in lower case."""
        head = self.requests[index].split(b"\r\n\r\n")[0].decode("latin-1")
        pairs = [line.partition(": ") for line in head.split("\r\n")[1:]]
        return {name.lower(): value for name, _, value in pairs}

    def lines(self) -> list[str]:
        """The request line of each request."""
        return [request.split(b"\r\n")[0].decode("latin-1") for request in self.requests]


@contextlib.contextmanager
def script_server(
    script: Script,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    tls: ssl.SSLContext | None = None,
    greet: bool = False,
) -> Iterator[Server]:
    """Serve the script on each connection; with `greet` its steps run before any request is read."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((host, port))
    listener.listen(128)
    server = Server(host, listener.getsockname()[1], secure=tls is not None)
    threads: list[threading.Thread] = []
    acceptor = threading.Thread(target=_accept, args=(listener, server, script, tls, greet, threads), daemon=True)
    acceptor.start()
    try:
        yield server
    finally:
        server.done.set()
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        acceptor.join(5)
        listener.close()
        for sock in list(server.sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join(5)


def _accept(
    listener: socket.socket,
    server: Server,
    script: Script,
    tls: ssl.SSLContext | None,
    greet: bool,
    threads: list[threading.Thread],
) -> None:
    while not server.done.is_set():
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        number = server.connections
        server.connections += 1
        server.sockets.append(sock)
        thread = threading.Thread(target=_serve, args=(sock, server, script, tls, greet, number), daemon=True)
        threads.append(thread)
        thread.start()


def _serve(
    sock: socket.socket, server: Server, script: Script, tls: ssl.SSLContext | None, greet: bool, number: int
) -> None:
    try:
        sock.settimeout(30)
        if tls is not None:
            plain, sock = sock, tls.wrap_socket(sock, server_side=True, suppress_ragged_eofs=True)
            server.sockets[server.sockets.index(plain)] = sock
        request = b"" if greet else _read_request(sock)
        if not greet:
            if not request:
                return
            server.requests.append(request)
        steps = script(request, number) if callable(script) else script
        _play(sock, server, steps)
    except ssl.SSLError as error:
        server.handshake_errors.append(str(error))
    except OSError:
        pass  # the client went away, or the test is over
    finally:
        with contextlib.suppress(ValueError):
            server.sockets.remove(sock)
        if isinstance(sock, ssl.SSLSocket) and tls is not None and not server.done.is_set():
            with contextlib.suppress(OSError, ValueError):
                sock.settimeout(1)
                sock.unwrap()
        sock.close()


def _read_request(sock: socket.socket) -> bytes:
    """One request with its body, if it has a Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = sock.recv(65536)
        if not piece:
            return b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            while len(body) < int(value):
                piece = sock.recv(65536)
                if not piece:
                    break
                body += piece
    return head + b"\r\n\r\n" + body


def _play(sock: socket.socket, server: Server, steps: Sequence[Step]) -> None:
    for step in steps:
        if isinstance(step, bytes):
            sock.sendall(step)
            server.sent_bytes += len(step)
        elif isinstance(step, int | float):
            server.done.wait(step)
        elif step == RST:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            socket.close(sock.detach())
            return
        elif step == HOLD:
            server.done.wait(60)
        elif step == HALF:
            sock.shutdown(socket.SHUT_WR)
        elif callable(step):
            step(sock)
        else:
            _play(sock, server, step)


# --- names -----------------------------------------------------------------------------------------------------------


def localhost() -> str:
    """The name `localhost`. Skips the test where it leads nowhere, as in a root that debootstrap has just made."""
    try:
        socket.getaddrinfo("localhost", None)
    except socket.gaierror:
        pytest.skip("the name localhost does not exist: it stands in /etc/hosts (Debian package netbase makes one)")
    return "localhost"


# --- other peers -----------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def black_hole(host: str = "127.0.0.2", port: int = 0) -> Iterator[tuple[str, int]]:
    """An address that never completes a connection: its accept queue is full."""
    listener = socket.socket()
    listener.bind((host, port))
    listener.listen(0)
    address = listener.getsockname()
    fillers: list[socket.socket] = []
    try:
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            filler = socket.socket()
            filler.setblocking(False)
            fillers.append(filler)
            filler.connect_ex(address)
            if not select.select([], [filler], [], 0.2)[1]:
                break  # this one got no place: the queue is full
        yield address
    finally:
        for filler in fillers:
            filler.close()
        listener.close()


def closed_port(host: str = "127.0.0.1") -> int:
    """A port on which nothing listens (it was free a moment ago)."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as sock:
        sock.bind((host, 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def forward_proxy(*, refuse: int | None = None, user: str | None = None) -> Iterator[Server]:
    """An HTTP proxy: absolute requests and CONNECT. `refuse` answers each with this status; `user` is the value of
    Proxy-Authorization it asks for."""

    def script(request: bytes, _number: int) -> Sequence[Step]:
        line = request.split(b"\r\n")[0]
        method, target, _version = line.split(b" ")
        if refuse is not None:
            return [b"HTTP/1.1 %d No\r\n" % refuse + length(b"refused")]
        if user is not None and b"Proxy-Authorization: " + user.encode() not in request:
            return [b"HTTP/1.1 407 Who\r\nProxy-Authenticate: Basic\r\n" + length(b"")]
        if method == b"CONNECT":
            host, _, port = target.rpartition(b":")
            upstream = socket.create_connection((host.strip(b"[]").decode(), int(port)), 5)
            return [b"HTTP/1.1 200 Connected\r\n\r\n", lambda sock: _relay(sock, upstream)]
        host, _, port = target.split(b"/")[2].rpartition(b":")
        upstream = socket.create_connection((host.strip(b"[]").decode(), int(port)), 5)
        path = b"/" + target.split(b"/", 3)[3]
        upstream.sendall(request.replace(target, path, 1))
        return [lambda sock: _relay(sock, upstream)]

    with script_server(script) as server:
        yield server


def _relay(client: socket.socket, upstream: socket.socket) -> None:
    with upstream:
        other = {client: upstream, upstream: client}
        while True:
            ready, _, _ = select.select([client, upstream], [], [], 10)
            if not ready:
                return
            for sock in ready:
                data = sock.recv(65536)
                if not data:
                    return
                other[sock].sendall(data)


# --- TLS -------------------------------------------------------------------------------------------------------------


def server_context(issued: Any, *, client_ca: Any = None, versions: tuple[Any, Any] | None = None) -> ssl.SSLContext:
    """A server's context for a trustme leaf; `client_ca` (a trustme CA) makes it ask for a client certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued.configure_cert(context)
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        client_ca.configure_trust(context)
    if versions is not None:
        context.minimum_version, context.maximum_version = versions
    return context
