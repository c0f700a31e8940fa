"""One request against servers that misbehave: the deadline holds, the status line is enough, nothing is followed."""

from __future__ import annotations

import ssl
import time
from typing import Any

import pytest
import trustme

from supervisor.webhook.exchange import Connections, Request, exchange
from supervisor.webhook.retries import Answer
from tests.servers import HOLD, OK, RST, black_hole, closed_port, length, script_server, server_context

NO_CONTENT = b"HTTP/1.1 204 No Content\r\n\r\n"


def ask(url: str, **fields: Any) -> Answer:
    fields.setdefault("timeout_s", 3.0)
    fields.setdefault("body", b"{}")
    return exchange(Request(url, **fields), Connections())


@pytest.mark.parametrize(
    ("script", "kind", "message"),
    [
        ([OK + length(b"fine")], "delivered", "HTTP 200"),
        ([NO_CONTENT], "delivered", "HTTP 204"),
        ([b"HTTP/1.1 200\r\n\r\n"], "delivered", "HTTP 200"),
        ([b"HTTP/1.0 202 Accepted\r\n\r\n"], "delivered", "HTTP 202"),
        ([OK], "delivered", "HTTP 200"),
        ([OK + b"broken head\r\n", RST], "delivered", "HTTP 200"),
        ([OK + length(b"")[:-2] + b"X: \0\r\n\r\n"], "delivered", "HTTP 200"),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK + length(b"")], "delivered", "HTTP 200"),
        ([b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 500 No\r\n" + length(b"")], "retryable", "HTTP 500"),
        ([b"HTTP/1.1 500 No\r\n", RST], "retryable", "HTTP 500"),
        ([b"HTTP/1.1 404 No\r\n" + length(b"x" * 1000)], "permanent", "HTTP 404"),
        ([b"HTTP/1.1 410 Gone\r\n" + length(b"")], "gone", "HTTP 410 Gone"),
        ([], "retryable", "closed the connection without an answer"),
        ([RST], "retryable", "connection reset"),
        ([b"HTTP/1.1 2"], "retryable", "closed the connection within the headers"),
        ([b"SSH-2.0-OpenSSH_9\r\n"], "retryable", "did not answer with HTTP/1"),
        ([b"HTTP/1.1 20x OK\r\n\r\n"], "retryable", "the status line is"),
        ([b"\x15\x03\x01\x00\x02\x02\x16"], "retryable", "speaks TLS on this port"),
    ],
)  # fmt: skip
def test_answers_of_every_kind(script: Any, kind: str, message: str) -> None:
    """The status line decides as soon as it is in; without one it is a failure."""
    with script_server(script) as server:
        answer = ask(server.url)
    assert answer.kind == kind, answer
    assert message in answer.message


def test_a_success_does_not_wait_for_its_body() -> None:
    """A 200 whose body never ends is a success, soon."""
    with script_server([OK + b"Content-Length: 100000\r\n\r\n", b"x", HOLD]) as server:
        started = time.monotonic()
        assert ask(server.url, timeout_s=10.0).kind == "delivered"
        assert time.monotonic() - started < 3


def test_only_a_little_of_an_answer_is_read() -> None:
    """Not 100 MB of it."""
    with script_server([OK + b"\r\n", *[b"x" * 65536] * 1600]) as server:
        assert ask(server.url).kind == "delivered"
    assert server.sent_bytes < 30_000_000


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 2"], ids=["silent", "half a status line"])
def test_the_deadline_ends_a_silent_receiver(start: bytes) -> None:
    """A receiver that takes the request and says nothing."""
    with script_server([start, HOLD]) as server:
        started = time.monotonic()
        answer = ask(server.url, timeout_s=0.5)
        assert 0.4 < time.monotonic() - started < 1.5
    assert answer.kind == "retryable"
    assert answer.message == "no answer within 0.5 s"


@pytest.mark.parametrize("head", [b"HTTP/1.1 2", b"HTTP/1.1 500 No\r\nX: "])
def test_the_deadline_ends_one_byte_at_a_time(head: bytes) -> None:
    """Bytes that keep coming do not move the deadline."""
    with script_server([head, *[0.05, b"0"] * 200]) as server:
        started = time.monotonic()
        answer = ask(server.url, timeout_s=0.6)
        assert time.monotonic() - started < 1.8
    assert answer.kind == "retryable"


def test_the_deadline_ends_a_receiver_that_does_not_read() -> None:
    """A body larger than all buffers, and nobody who takes it."""
    with script_server([HOLD], greet=True) as server:
        started = time.monotonic()
        answer = ask(server.url, timeout_s=0.6, body=b"x" * 30_000_000)
        assert time.monotonic() - started < 1.8
    assert answer.message == "no answer within 0.6 s"


def test_an_early_answer_counts_although_the_body_was_not_read() -> None:
    """413 and a closed connection before the body was through."""
    with script_server([b"HTTP/1.1 413 Large\r\n" + length(b""), RST], greet=True) as server:
        answer = ask(server.url, body=b"x" * 20_000_000)
    assert answer.status == 413 or "reset" in answer.message


def test_nobody_listens() -> None:
    """Connection refused, in words."""
    port = closed_port()
    answer = ask(f"http://127.0.0.1:{port}/secret/path")
    assert (answer.kind, answer.message) == ("retryable", f"connection refused by 127.0.0.1:{port}")


def test_connecting_has_a_limit_of_its_own() -> None:
    """3 s of a longer total."""
    with black_hole() as (host, port):
        started = time.monotonic()
        answer = ask(f"http://{host}:{port}/", timeout_s=9.0)
        assert 2.5 < time.monotonic() - started < 5
    assert answer.kind == "retryable"
    assert "within 3 s" in answer.message


def test_an_unknown_certificate_is_refused() -> None:
    """Permanent-looking, and it counts towards the breaker."""
    with script_server([NO_CONTENT], tls=server_context(trustme.CA().issue_cert("127.0.0.1"))) as server:
        answer = ask(server.url)
    assert (answer.kind, answer.counts) == ("permanent", True)
    assert "unknown CA" in answer.message or "not trusted" in answer.message or "does not verify" in answer.message
    assert server.requests == []


def test_plain_http_on_a_tls_port_is_said() -> None:
    """https:// towards a server without TLS."""
    with script_server([b"HTTP/1.1 400 Bad\r\n\r\n"], greet=True) as server:
        answer = ask(server.url.replace("http:", "https:"))
    assert answer.kind == "retryable"
    assert "TLS" in answer.message


def test_a_trusted_certificate_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """The system's store decides (here: one of ours, chosen before the first context is made)."""
    from supervisor.net import tls

    authority = trustme.CA()
    file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(file))
    monkeypatch.setattr(tls, "SYSTEM_STORES", (str(file),))
    context: ssl.SSLContext = server_context(authority.issue_cert("127.0.0.1"))
    with script_server([NO_CONTENT], tls=context) as server:
        assert ask(server.url).message == "HTTP 204"


def test_the_request_on_the_wire() -> None:
    """Host with its port, own User-Agent, Content-Length, credentials of the URL, path and query escaped."""
    with script_server([NO_CONTENT]) as server:
        url = f"http://us%C3%A9r:p%40ss@127.0.0.1:{server.port}/a b/ü?q=1 2#fragment"
        ask(url, headers=(("X-Own", "é"),), body="ü".encode())
        (request,) = server.requests
        headers = server.headers()
    line = server.lines()[0]
    assert line == "POST /a%20b/%C3%BC?q=1%202 HTTP/1.1"
    assert headers["host"] == f"127.0.0.1:{server.port}"
    assert headers["user-agent"].startswith("checkvisor/")
    assert headers["content-length"] == "2"
    assert headers["connection"] == "close"
    assert headers["authorization"] == "Basic dXPDqXI6cEBzcw=="
    assert headers["x-own"] == "é"
    assert request.endswith(b"\r\n\r\n\xc3\xbc")


def test_an_ipv6_receiver() -> None:
    """Brackets in the URL and in Host."""
    with script_server([NO_CONTENT], host="::1") as server:
        assert ask(server.url).kind == "delivered"
        assert server.headers()["host"] == f"[::1]:{server.port}"


def test_a_stop_ends_requests_under_way() -> None:
    """The connections are shut down, at once."""
    import threading

    connections = Connections()
    found: list[Answer] = []
    with script_server([HOLD]) as server:
        request = Request(server.url, body=b"{}", timeout_s=20.0)
        thread = threading.Thread(target=lambda: found.append(exchange(request, connections)))
        thread.start()
        deadline = time.monotonic() + 5
        while not server.requests and time.monotonic() < deadline:
            time.sleep(0.01)  # the poll of a condition with a deadline
        connections.cut()
        thread.join(3)
        assert not thread.is_alive()
    assert found[0].kind == "retryable"
    assert exchange(Request("http://127.0.0.1:9/"), connections).kind == "retryable"
