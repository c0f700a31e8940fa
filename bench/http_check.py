"""CPU per HTTP and HTTPS check, beside floors of the same run: a raw-socket client, and `requests` as people use it.

    python bench/http_check.py [--checks 4000] [--repeat 8]

The server runs in another process. User plus system time of this process per check, median of the repeats, in us.
Nothing is stored: the verdict of `run_check` is thrown away (budgets B1 and B2 are with storage).
"""

from __future__ import annotations

import argparse
import os
import resource
import socket
import ssl
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import requests
import trustme

from supervisor.checkers.http import HttpChecker
from supervisor.checkers.http.settings import HttpSettings, TlsSettings
from supervisor.expect.spec import Contains, HttpExpect, TextRule
from supervisor.model import ResolvedTarget
from supervisor.worker import run_check

BODY = b"ready " * 16 + b"done"
ANSWER = b"HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Mon, 01 Jan 2024 00:00:00 GMT\r\nContent-Type: text/plain\r\n"
ANSWER += b"Content-Length: %d\r\nConnection: close\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n" % len(BODY)
ANSWER += b'ETag: "1-2-3"\r\nAccept-Ranges: bytes\r\n\r\n' + BODY
LARGE = b"x" * 1_000_000 + b"done"
LARGE_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(LARGE) + LARGE


def serve(context: ssl.SSLContext | None, answer: bytes = ANSWER) -> tuple[int, int]:
    """A server process for one answer per connection: its port and pid."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    port = int(listener.getsockname()[1])
    pid = os.fork()
    if pid:
        listener.close()
        return port, pid
    while True:
        sock, _ = listener.accept()
        try:
            if context is not None:
                sock = context.wrap_socket(sock, server_side=True)
            sock.recv(65536)
            sock.sendall(answer)
        except OSError:
            pass
        sock.close()


def cpu_us(work: Callable[[], object], count: int) -> float:
    """CPU time of one call."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(count):
        work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used / count * 1e6


def raw(port: int, context: ssl.SSLContext | None) -> None:
    """The least a Python client can do."""
    sock = socket.create_connection(("127.0.0.1", port))
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname="localhost")
    sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    data = b""
    while piece := sock.recv(65536):
        data += piece
    assert data.endswith(b"done")
    sock.close()


def target(url: str, tls: TlsSettings | None = None) -> ResolvedTarget:
    return ResolvedTarget(
        id="bench",
        name="bench",
        type="http",
        settings=HttpSettings(url=url, tls=tls or TlsSettings()),
        expect=HttpExpect(body=(TextRule("contains", (Contains("done"),)),)),
        warn=None,
        interval_s=30,
        timeout_s=10,
        retry_interval_s=30,
        failure_threshold=3,
        success_threshold=2,
    )


def checked(checkers: dict[str, HttpChecker], it: ResolvedTarget) -> None:
    result, _ = run_check(it, checkers=checkers)
    assert result.matched, result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=8)
    options = parser.parse_args()
    count, repeat = options.checks, options.repeat
    ca = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("localhost", "127.0.0.1").configure_cert(server_side)
    client_side = ssl.create_default_context()
    ca.configure_trust(client_side)
    checkers = {"http": HttpChecker()}
    servers = [serve(None), serve(server_side), serve(None, LARGE_ANSWER)]
    (plain, _), (secure, _), (large, _) = servers
    try:
        with tempfile.TemporaryDirectory() as folder:
            ca_file = str(Path(folder) / "ca.pem")
            ca.cert_pem.write_to_path(ca_file)
            tls = TlsSettings(ca_file=ca_file)
            http, named = target(f"http://127.0.0.1:{plain}/"), target(f"http://localhost:{plain}/")
            https, big = target(f"https://127.0.0.1:{secure}/", tls), target(f"http://127.0.0.1:{large}/")
            session = requests.Session()
            session.trust_env = False

            def plain_requests() -> None:
                assert session.get(http.settings.url, timeout=10, headers={"Connection": "close"}).text

            rows = (
                ("raw socket, HTTP", lambda: raw(plain, None), count),
                ("checkvisor, HTTP", lambda: checked(checkers, http), count),
                ("checkvisor, HTTP by name", lambda: checked(checkers, named), count),
                ("requests session, HTTP", plain_requests, count // 2),
                ("raw socket, HTTPS", lambda: raw(secure, client_side), count // 4),
                ("checkvisor, HTTPS", lambda: checked(checkers, https), count // 4),
                ("raw socket, 1 MB", lambda: raw(large, None), count // 10),
                ("checkvisor, 1 MB", lambda: checked(checkers, big), count // 10),
            )
            found: dict[str, list[float]] = {name: [] for name, _, _ in rows}
            for turn in range(repeat + 1):  # in turns, so that a busy moment strikes all rows; the first warms up
                for name, work, times in rows:
                    used = cpu_us(work, max(times // repeat, 10))
                    if turn:
                        found[name].append(used)
            for name, values in found.items():
                print(f"{name:<26} {statistics.median(values):8.0f} us   (least {min(values):.0f})")
    finally:
        for _, pid in servers:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
