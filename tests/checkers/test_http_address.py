"""Names, addresses, ports (cases H33 to H36, H45), connectTo, ipVersion, proxies (H43), the environment (H41, H42)."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from supervisor.net import Origin
from supervisor.net import resolve as resolve_module
from tests.checkers.probe import assert_error, assert_ok, check, statuses, traced
from tests.servers import HOLD, OK, black_hole, closed_port, forward_proxy, length, localhost, redirect, script_server

PAGE = OK + length(b"ok")
Answer = Callable[[str], Any]


def _has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as sock:
            sock.bind(("::1", 0))
    except OSError:
        return False
    return True


needs_ipv6 = pytest.mark.skipif(not _has_ipv6(), reason="this machine has no IPv6 loopback")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A name service for this test: name -> addresses, an exception, or a function to call first."""
    table: dict[str, Any] = {}
    real = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name not in table:
            return real(host, port, *arguments, **options)
        answer = table[name]
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        return [found for ip in answer for found in real(ip, port, 0, socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


@needs_ipv6
def test_h33_ipv6_literal() -> None:
    """An IPv6 literal is connected to, and stands in brackets in Host."""
    with script_server([PAGE], host="::1") as server:
        assert_ok(check(server.url))
        assert server.headers()["host"] == f"[::1]:{server.port}"


def test_h33_zone() -> None:
    """A zone reaches the system as a zone, not as a name; Host has none (RFC 6874)."""
    result = check("http://[fe80::1%25lo]:9/", timeout_s=1)
    assert result.failure is not None
    assert result.failure.path == "http.connect", result.failure
    assert Origin("http", "fe80::1%lo", 9).authority == "[fe80::1]:9"


def test_h34_one_of_several_addresses_is_dead(names: dict[str, Any]) -> None:
    """A dead first address costs a moment, not the timeout; so do four."""
    with script_server([PAGE]) as server:
        with black_hole("127.0.0.2", server.port):
            names["two.test"] = ["127.0.0.2", "127.0.0.1"]
            began = time.monotonic()
            result, steps = traced(server.url_as("two.test"))
            assert time.monotonic() - began < 2
        assert_ok(result)
        assert any("127.0.0.2, 127.0.0.1" in step.seen for step in steps if step.step == "resolve")
        assert any("(127.0.0.1)" in step.seen for step in steps if step.step == "connect")
        with (
            black_hole("127.0.0.2", server.port), black_hole("127.0.0.3", server.port),
            black_hole("127.0.0.4", server.port), black_hole("127.0.0.5", server.port),
        ):  # fmt: skip
            names["five.test"] = [f"127.0.0.{number}" for number in (2, 3, 4, 5, 1)]
            assert_ok(check(server.url_as("five.test"), timeout_s=2))


def test_h34_refused_addresses_go_on_to_the_next_at_once(names: dict[str, Any]) -> None:
    """A refused address is followed by the next without a pause."""
    with script_server([PAGE]) as server:
        names["three.test"] = ["127.0.0.7", "127.0.0.8", "127.0.0.1"]
        began = time.monotonic()
        assert_ok(check(server.url_as("three.test")))
        assert time.monotonic() - began < 1


def test_h34_all_addresses_refuse(names: dict[str, Any]) -> None:
    """When none answers, each address is named with its reason."""
    port = closed_port()
    names["three.test"] = ["127.0.0.7", "127.0.0.8", "127.0.0.1"]
    result = check(f"http://three.test:{port}/")
    assert_error(result, "http.connect", "no address answers", f"127.0.0.7:{port}", f"127.0.0.1:{port}")


def test_h34_all_addresses_are_dead(names: dict[str, Any]) -> None:
    """When all are silent the deadline ends it, at the place of connecting."""
    with black_hole("127.0.0.2") as (_, port), black_hole("127.0.0.3", port):
        names["two.test"] = ["127.0.0.2", "127.0.0.3"]
        assert_error(check(f"http://two.test:{port}/", timeout_s=1), "http.connect", "within 1 s")
        assert_error(check(f"http://127.0.0.2:{port}/", timeout_s=1), "http.connect", "within 1 s")


def test_connection_refused() -> None:
    """A refused connection is an error that names the address."""
    port = closed_port()
    assert_error(check(f"http://127.0.0.1:{port}/x"), "http.connect", f"connection refused by 127.0.0.1:{port}")


def test_h35_name_that_does_not_exist(names: dict[str, Any]) -> None:
    """NXDOMAIN and a silent name server have different messages."""
    names["nosuch.invalid"] = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    assert_error(check("http://nosuch.invalid/"), "http.dns", "nosuch.invalid does not exist")
    names["again.invalid"] = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
    assert_error(check("http://again.invalid/"), "http.dns", "no answer for again.invalid", "temporary")
    names["fail.invalid"] = socket.gaierror(socket.EAI_FAIL, "x")
    assert_error(check("http://fail.invalid/"), "http.dns", "name server failed")
    names["nodata.invalid"] = socket.gaierror(socket.EAI_NODATA, "x")
    assert_error(check("http://nodata.invalid/", ip_version="6"), "http.dns", "no IPv6 address")
    names["none.invalid"] = []
    assert_error(check("http://none.invalid/"), "http.dns", "none.invalid has no IP address")


def test_h35_resolver_that_hangs(names: dict[str, Any]) -> None:
    """A look-up that hangs ends by the deadline, and the next check is not held up by it."""
    release = threading.Event()
    names["slow.test"] = lambda: release.wait(10) and ["127.0.0.1"]
    names["fast.test"] = ["127.0.0.1"]
    try:
        with script_server([PAGE]) as server:
            assert_error(check(server.url_as("slow.test"), timeout_s=0.6), "http.dns", "name server", "within 0.6 s")
            assert_ok(check(server.url_as("fast.test")))
    finally:
        release.set()


def test_h35_hanging_look_ups_are_limited(names: dict[str, Any]) -> None:
    """A resolver that never answers does not get an endless row of threads."""
    release = threading.Event()
    names["slow.test"] = lambda: release.wait(20) and ["127.0.0.1"]
    try:
        before = threading.active_count()
        for _ in range(3 * resolve_module._MOST_HANGING):
            result = check("http://slow.test:9/", timeout_s=0.05)
            if "earlier look-ups" in str(result.failure):
                break
        assert_error(result, "http.dns", "earlier look-ups")
        assert threading.active_count() <= before + resolve_module._MOST_HANGING
    finally:
        release.set()


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1"])
def test_odd_numeric_hosts(host: str) -> None:
    """Decimal, hexadecimal, octal and short hosts mean what the system says they mean."""
    with script_server([PAGE]) as server:
        assert_ok(check(server.url_as(host)))


@pytest.mark.parametrize("host", ["nas", "my_app", "a-b.c_d", "xn--bcher-kva.invalid", "bücher.invalid", "nas."])
def test_h45_names(host: str, names: dict[str, Any]) -> None:
    """Single labels, underscores, IDNA and trailing dots are names like any other."""
    encoded = "xn--bcher-kva.invalid" if host.startswith("b") else host
    names[encoded] = ["127.0.0.1"]
    with script_server([PAGE]) as server:
        assert_ok(check(server.url_as(host)))
        assert server.headers()["host"] == f"{encoded}:{server.port}"


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("", "/"), ("/a b", "/a%20b"), ("/%zz", "/%25zz"), ("/é?q=ü#f", "/%C3%A9?q=%C3%BC"), ("?x", "/?x"),
        ("/a/../b", "/a/../b"), ("/a%2Fb", "/a%2Fb"), ("/#f", "/"), ("//x", "//x"),
        ("/a;b=1?c=[1]", "/a;b=1?c=%5B1%5D"),
    ],
)  # fmt: skip
def test_h45_paths(path: str, sent: str) -> None:
    """Paths are normalised as browsers do; fragments are not sent."""
    with script_server([PAGE]) as server:
        assert_ok(check(server.url.removesuffix("/") + path))
        assert server.lines()[0] in (f"GET {sent} HTTP/1.1", f"GET {sent.replace('/a/../b', '/b')} HTTP/1.1")


@pytest.mark.parametrize(
    "url", ["http://", "127.0.0.1:8080", "http://127.0.0.1:0/", "http://[::1/", "ftp://h/", "http://a..b/"]
)
def test_h45_urls_that_no_loader_should_pass(url: str) -> None:
    """Even an unusable URL is a failure with a sentence, never a crash."""
    result = check(url)
    assert result.failure is not None
    assert result.failure.kind == "error"
    assert result.failure.path == "http.send", result.failure
    assert "url" in result.failure.message.lower()


@pytest.mark.parametrize("header", [("X Y", "a"), ("X", "a\nb"), ("X", "ключ"), ("", "a")])
def test_h46_headers_that_no_loader_should_pass(header: tuple[str, str]) -> None:
    """Even an unusable header is a failure that does not show its value."""
    with script_server([PAGE]) as server:
        result = check(server.url, headers=(header,))
    if header[0] != "X Y":
        assert result.failure is not None
        assert result.failure.path == "http.send", result.failure
        assert "ключ" not in result.failure.message


def test_ip_version(names: dict[str, Any]) -> None:
    """ipVersion asks for one family only."""
    with script_server([PAGE]) as server:
        assert_ok(check(server.url_as(localhost()), ip_version="4"))
        assert_error(check(server.url, ip_version="6"), "http.dns", "IPv6")
        names["v6.test"] = socket.gaierror(socket.EAI_NONAME, "x")
        assert_error(check(server.url_as("v6.test"), ip_version="6"), "http.dns", "IPv6")


def test_connect_to() -> None:
    """connectTo changes what is dialled for the target's origin, and nothing else."""
    with script_server([PAGE]) as other:
        with script_server(lambda request, _number: [PAGE if b" /b " in request else redirect(b"/b")]) as server:
            assert_ok(check("http://shop.invalid/", connect_to=("127.0.0.1", server.port)))
            assert [server.headers(index)["host"] for index in (0, 1)] == ["shop.invalid"] * 2
        with script_server([redirect(other.url.encode())]) as server:
            assert_ok(check("http://shop.invalid/", connect_to=(localhost(), server.port)))
        assert other.connections == 1


# --- proxies and the environment -------------------------------------------------------------------------------------


def test_a_proxy_gets_the_absolute_url() -> None:
    """A plain request goes to the proxy with the whole URL; its credentials go to the proxy only."""
    with script_server([PAGE]) as server, forward_proxy(user="Basic dTpwQHc=") as proxy:
        result = check(server.url + "x?y", proxy=f"http://u:p%40w@127.0.0.1:{proxy.port}")
        assert_ok(result)
        assert proxy.lines() == [f"GET {server.url}x?y HTTP/1.1"]
        assert server.headers()["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize("refuse", [407])
def test_a_proxy_that_wants_credentials(refuse: int) -> None:
    """A 407 is the proxy's fault, not the target's status."""
    with script_server([PAGE]) as server, forward_proxy(refuse=refuse) as proxy:
        result = check(server.url, proxy=f"http://127.0.0.1:{proxy.port}", status=statuses(407), body=())
        assert_error(result, "http.proxy", "proxy", str(proxy.port), "credentials")
        assert server.connections == 0


def test_a_dead_proxy() -> None:
    """A proxy that refuses, does not exist or says nothing is named as the proxy."""
    port = closed_port()
    with script_server([PAGE]) as server:
        for url in (server.url, server.url.replace("http:", "https:")):
            assert_error(check(url, proxy=f"http://127.0.0.1:{port}"), "http.proxy", "proxy", str(port))
            with script_server([HOLD]) as silent:
                result = check(url, proxy=silent.url, timeout_s=0.6)
            if url.startswith("https"):
                assert_error(result, "http.proxy", "proxy 127.0.0.1", "within 0.6 s")
            else:
                assert_error(result, "http.headers", "proxy 127.0.0.1", "within 0.6 s")
        with black_hole() as (host, hole):
            assert_error(check(server.url, proxy=f"http://{host}:{hole}", timeout_s=0.6), "http.proxy", "proxy")


def test_a_proxy_refuses_the_tunnel() -> None:
    """What a proxy answers to CONNECT is its own fault; garbage too."""
    for script, word in (([b"HTTP/1.1 403 No\r\n\r\n"], "403"), ([b"nonsense\r\n"], "proxy"), ([], "closed")):
        with script_server(script) as proxy:
            assert_error(check("https://shop.invalid/x?y", proxy=proxy.url), "http.proxy", "proxy", word)
    with script_server([b"HTTP/1.1 407 Who\r\n\r\n"]) as proxy:
        assert_error(check("https://shop.invalid/", proxy=proxy.url), "http.proxy", "credentials")
        assert proxy.lines() == ["CONNECT shop.invalid:443 HTTP/1.1"]
    for url in ("https://127.0.0.1:1", "socks5://127.0.0.1:1", "http://"):
        assert_error(check("http://shop.invalid/", proxy=url), "http.proxy", "http://host:port")


def test_connect_to_through_a_proxy() -> None:
    """With connectTo the proxy is asked for a tunnel to that address."""
    with script_server([PAGE]) as server, forward_proxy() as proxy:
        assert_ok(check("http://shop.invalid/", proxy=proxy.url, connect_to=("127.0.0.1", server.port)))
        assert proxy.lines() == [f"CONNECT 127.0.0.1:{server.port} HTTP/1.1"]
        assert server.headers()["host"] == "shop.invalid"


def test_h41_h42_h43_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No proxy variable, no netrc and no CA bundle of the environment changes a check."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{closed_port()}")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login evil password evil\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "none.pem"))
    with script_server([PAGE]) as server:
        assert_ok(check(server.url, headers=(("Authorization", "Bearer t"),)))
        assert server.headers()["authorization"] == "Bearer t"
        assert_ok(check(server.url, id="no header"))
        assert "authorization" not in server.headers(1)
