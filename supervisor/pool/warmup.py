"""A few checks before the workers are forked: what Python makes at first use is made once, in memory they all share.

The server is a thread of this process on a loopback port, gone when this is over. Measured: 1.5 MB less in a worker.
"""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress

from supervisor.checkers.http.settings import HttpSettings, TlsSettings
from supervisor.expect.spec import Contains, Equals, HttpExpect, JsonRule, Match, StatusRange, TextRule
from supervisor.model import ResolvedTarget
from supervisor.net import NetFailure
from supervisor.net.tls import context_for
from supervisor.worker import run_check

_CHECKS = 3
_TIMEOUT_S = 1.0
_BODY = b'{"status": "up"}'
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nServer: warmup\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_BODY), _BODY)
)
_EXPECT = HttpExpect(
    status=(StatusRange(200, 200, "200"),),
    max_duration_ms=1000,
    body=(
        TextRule("contains", (Contains("status"),)),
        TextRule("regex", (Match('"up"'),)),
        JsonRule("$.status", (Equals("up"),)),
    ),
)


def warm_up() -> int:
    """Check a server of our own; how many checks matched. None can without a loopback interface or a thread: workers
    then make all of it themselves. For the main thread of a process that has no other one."""
    with suppress(NetFailure):  # no trust store: the first HTTPS check says so
        context_for(TlsSettings())
    try:
        listener = socket.create_server(("127.0.0.1", 0))
    except OSError:
        return 0
    before = signal.getsignal(signal.SIGALRM)
    with listener:
        listener.settimeout(_TIMEOUT_S)
        server = threading.Thread(target=_serve, args=(listener,), daemon=True)
        try:
            server.start()
        except RuntimeError:  # no more threads: workers do without, or their own start says why
            return 0
        matched = 0
        while matched < _CHECKS and _check(listener.getsockname()[1]):  # not one timeout after the other
            matched += 1
        server.join(2 * _TIMEOUT_S)
    signal.signal(signal.SIGALRM, before)
    return matched


def _check(port: int) -> bool:
    target = ResolvedTarget(
        id="warmup",
        name="warmup",
        type="http",
        settings=HttpSettings(f"http://127.0.0.1:{port}/"),
        expect=_EXPECT,
        warn=None,
        interval_s=60.0,
        timeout_s=_TIMEOUT_S,
        retry_interval_s=60.0,
        failure_threshold=1,
        success_threshold=1,
    )
    return run_check(target, keep=False)[0].matched


def _serve(listener: socket.socket) -> None:
    """Answer as often as we ask, then end. A client that has given up is no reason to end before."""
    for _ in range(_CHECKS):
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.settimeout(_TIMEOUT_S)
            connection.recv(4096)
            connection.sendall(_ANSWER)
