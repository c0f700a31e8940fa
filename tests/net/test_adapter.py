"""The adapter as webhooks use it: in threads without SIGALRM, with a policy, and under a requests.Session."""

from __future__ import annotations

import select
import socket
import struct
import threading
import time
from typing import Any

import pytest
import requests

from supervisor.deadline import Deadline, DeadlineExpired
from supervisor.net import Adapter, AddressPolicy, Blocked, NetFailure, Prepared, Proxy, Route, Watch
from tests.servers import HOLD, OK, black_hole, closed_port, length, localhost, script_server


def in_thread(work: Any, seconds: float = 5) -> Any:
    """What `work` returns or raises, in a thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except (Exception, DeadlineExpired) as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), "the deadline did not end it"
    return found[0]


def post(url: str, route: Route | None = None, timeout_s: float = 1.0) -> tuple[int, bytes]:
    """As a delivery does it."""
    adapter = Adapter(route or Route())
    request = Prepared.make("POST", url, (("Content-Type", "application/json"),), b'{"a":1}')
    try:
        response = adapter.send(request, timeout=Deadline(timeout_s))
        return response.status_code, response.raw.read_at_most(65536)
    finally:
        adapter.close()


def test_a_post_and_its_answer() -> None:
    """The body goes out with its length, the answer comes back with status and bytes."""
    with script_server([OK + length(b"thanks")]) as server:
        assert in_thread(lambda: post(server.url)) == (200, b"thanks")
        assert server.requests[0].endswith(b'\r\n\r\n{"a":1}')
        assert server.headers()["content-length"] == "7"


def test_read_at_most() -> None:
    """Of a large or endless answer only the first bytes are read."""
    with script_server([OK + b"\r\n", *[b"x" * 65536] * 1000]) as server:
        assert in_thread(lambda: post(server.url)) == (200, b"x" * 65536)


@pytest.mark.parametrize(
    "steps",
    [[HOLD], [OK, *[b"X: y\r\n", 0.1] * 60], [OK + b"Content-Length: 90\r\n\r\n", *[b"x", 0.1] * 60]],
    ids=["silent", "header drip", "body drip"],
)
def test_the_deadline_holds_in_threads(steps: list[Any]) -> None:
    """Without SIGALRM, too, one byte at a time does not stretch the deadline."""
    with script_server(steps) as server:
        began = time.monotonic()
        assert isinstance(in_thread(lambda: post(server.url, timeout_s=0.5)), DeadlineExpired)
        assert time.monotonic() - began < 2


def test_the_connect_budget() -> None:
    """Connecting has a budget of its own, over all addresses."""
    with black_hole() as (host, port):
        began = time.monotonic()
        failure = in_thread(lambda: post(f"http://{host}:{port}/", Route(connect_timeout_s=0.3), timeout_s=4))
        assert isinstance(failure, NetFailure)
        assert failure.place == "connect"
        assert "within 0.3 s" in failure.message
        assert time.monotonic() - began < 2


def test_the_connect_budget_over_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two dead addresses share the budget."""
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        return [found for ip in ("127.0.0.2", "127.0.0.3") for found in real(ip, port, 0, socket.SOCK_STREAM)]

    with black_hole("127.0.0.2") as (_, port), black_hole("127.0.0.3", port):
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        began = time.monotonic()
        failure = in_thread(lambda: post(f"http://two.test:{port}/", Route(connect_timeout_s=0.5), timeout_s=4))
        assert isinstance(failure, NetFailure)
        assert "within 0.5 s: no answer from 127.0.0.2" in failure.message
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::ffff:127.0.0.1]", "localhost"])
def test_policy(host: str) -> None:
    """A forbidden address is refused before anything is sent, in every form."""
    if host == "localhost":
        localhost()  # skips where there is no such name
    with script_server([OK + length(b"")]) as server:
        route = Route(policy=AddressPolicy(allow_private=False))
        failure = in_thread(lambda: post(server.url_as(host), route))
        assert isinstance(failure, Blocked)
        assert "loopback" in failure.message
        assert server.connections == 0
        assert in_thread(lambda: post(server.url_as("127.0.0.1"), Route(policy=AddressPolicy())))[0] == 200


def test_one_look_up_and_one_forbidden_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the checked answer: no second look-up; a forbidden answer among good ones blocks."""
    asked: list[Any] = []
    answers = [["127.0.0.1"], ["169.254.169.254"]]
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        asked.append(host)
        ips = answers[min(len(asked), len(answers)) - 1]
        return [found for ip in ips for found in real(ip, port, 0, socket.SOCK_STREAM)]

    with script_server([OK + length(b"")]) as server:
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        route = Route(policy=AddressPolicy())
        assert in_thread(lambda: post(server.url_as("rebind.test"), route))[0] == 200
        assert asked == [b"rebind.test"]
        assert isinstance(in_thread(lambda: post(server.url_as("rebind.test"), route)), Blocked)
        answers.append(["127.0.0.1", "fe80::1"])
        failure = in_thread(lambda: post(server.url_as("rebind.test"), route))
        assert isinstance(failure, Blocked)
        assert "link-local" in failure.message
        assert server.connections == 1


def test_under_a_session() -> None:
    """Mounted on a requests.Session it serves requests' own API; faults are requests' exceptions."""
    with requests.Session() as session:
        session.trust_env = False
        session.mount("http://", Adapter())
        with script_server(
            [OK + length("größe".encode(), b"X-A: 1", b"x-a: 2", b"Content-Type: text/plain; charset=utf-8")]
        ) as server:
            response = session.post(server.url, json={"a": 1}, timeout=5)
            assert response.ok
            assert response.text == "größe"
            assert response.headers["x-a"] == "1, 2"
            assert not response.cookies
            assert server.requests[0].endswith(b'{"a": 1}')
        with pytest.raises(requests.exceptions.ConnectionError, match=r"connection refused by 127\.0\.0\.1"):
            session.get(f"http://127.0.0.1:{closed_port()}/", timeout=5)


def test_a_proxy_that_resets_before_the_tunnel_is_asked_for() -> None:
    """The proxy is at fault and is named, however early its connection breaks."""

    class Late(Watch):
        """Goes on with CONNECT only once the reset is there."""

        entered = 0

        def enter(self, place: str) -> None:
            self.entered += 1
            if self.entered == 3:  # look-up, connecting, tunnel
                assert adapter.exchange is not None
                assert adapter.exchange.sock is not None
                connected.set()
                select.select([adapter.exchange.sock], [], [], 2)

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            connection, _ = listener.accept()
            connected.wait(2)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()

        connected = threading.Event()
        thread = threading.Thread(target=accept)
        thread.start()
        adapter = Adapter(Route(proxy=Proxy("127.0.0.1", listener.getsockname()[1])), Late())
        with pytest.raises(NetFailure, match="proxy 127") as caught:
            adapter.send(Prepared.make("GET", "https://example.invalid/"), timeout=Deadline(3))
        thread.join()
    assert caught.value.place == "proxy"
