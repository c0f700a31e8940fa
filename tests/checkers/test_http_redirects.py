"""Redirects, cookies, and what must not travel to another origin (cases H05 to H15, H53, H55)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.checkers.http.cookies import Cookies
from supervisor.checkers.http.plan import make_plan
from supervisor.checkers.http.redirect import Hop, RedirectError, next_hop
from supervisor.checkers.http.settings import BasicAuth, BearerAuth, HttpSettings
from supervisor.net.wire import Head
from tests.checkers.probe import assert_error, assert_mismatch, assert_ok, check, statuses, traced
from tests.servers import HOLD, OK, RST, length, localhost, redirect, script_server

PAGE = OK + length(b"ok")


def site(pages: dict[str, Any]) -> Any:
    """A script that plays a step or steps per path, and 404 elsewhere."""

    def script(request: bytes, _number: int) -> Sequence[Any]:
        path = request.split(b" ")[1].decode("latin-1")
        steps = pages.get(path, b"HTTP/1.1 404 No\r\n" + length(b""))
        return steps if isinstance(steps, list) else [steps]

    return script


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(status: int) -> None:
    """Each redirect status with a Location leads on; a relative one is resolved."""
    with script_server(site({"/": redirect(b"a/b?q=1#f", status), "/a/b?q=1": PAGE})) as server:
        result = check(server.url)
        assert_ok(result)
        assert server.lines() == ["GET / HTTP/1.1", "GET /a/b?q=1 HTTP/1.1"]


@pytest.mark.parametrize("status", [300, 304, 305, 306, 310])
def test_other_3xx_are_judged(status: int) -> None:
    """Statuses that ask for no other request are judged as they are."""
    with script_server([redirect(b"/b", status)]) as server:
        assert_ok(check(server.url, status=statuses(status), body=()))


def test_h05_redirect_hop_with_endless_body() -> None:
    """A hop's body is never read."""
    endless = [b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n", *[b"x" * 65536] * 1600]
    with script_server(site({"/": endless, "/b": PAGE})) as server:
        began = time.monotonic()
        assert_ok(check(server.url))
        assert time.monotonic() - began < 2
        assert server.sent_bytes < 20_000_000


def test_h06_redirect_without_length_kept_open() -> None:
    """Headers are enough to follow."""
    with script_server(site({"/": [b"HTTP/1.1 302 Found\r\nLocation: /b\r\n\r\n", HOLD], "/b": PAGE})) as server:
        began = time.monotonic()
        assert_ok(check(server.url))
        assert time.monotonic() - began < 2


def test_h07_slow_hops() -> None:
    """The deadline spans all hops, and the place is the redirect."""
    with script_server([0.3, redirect(b"/")]) as server:
        result = check(server.url, timeout_s=1)
    assert_error(result, "http.redirect", "within 1 s", "redirects")
    with script_server(lambda _request, number: [0.3, redirect(b"/%d" % number)]) as server:
        assert_error(check(server.url, timeout_s=1), "http.redirect", "within 1 s")


def test_one_redirect_to_a_page_that_hangs() -> None:
    """Behind a single redirect the place of the hanging step says more."""
    with script_server(site({"/": redirect(b"/b"), "/b": [HOLD]})) as server:
        assert_error(check(server.url, timeout_s=0.7), "http.headers", "after 1 redirect")


def test_a_circle_is_an_error() -> None:
    """More redirects than maxRedirects are an error that says so."""
    with script_server([redirect(b"/")]) as server:
        assert_error(check(server.url, max_redirects=3), "http.redirect", "more than 3 redirects", "circle")
        assert server.connections == 4
    with script_server(lambda _request, number: [redirect(b"/%d" % number)]) as server:
        assert_error(check(server.url), "http.redirect", "more than 10 redirects")
        assert_error(check(server.url, max_redirects=1), "http.redirect", "more than 1 redirect:")
    with script_server([redirect(b"/")]) as server:
        assert_error(check(server.url, max_redirects=0), "http.redirect", "more than 0")


def test_exactly_max_redirects_are_followed() -> None:
    """The limit counts redirects, not requests."""
    with script_server(lambda _request, number: [redirect(b"/x") if number < 3 else PAGE]) as server:
        assert_ok(check(server.url, max_redirects=3))


def test_h09_loop_only_because_a_cookie_was_dropped() -> None:
    """Cookies of a hop go with the next one."""

    def script(request: bytes, _number: int) -> Sequence[Any]:
        return [PAGE] if b"Cookie: sid=1" in request else [redirect(b"/", 302, b"Set-Cookie: sid=1; Path=/")]

    with script_server(script) as server:
        assert_ok(check(server.url))
        assert server.connections == 2


@pytest.mark.parametrize(
    "attributes",
    [b'Path="/"', b'Version="1"; Path="/"; HttpOnly', b"Domain=localhost", b"Domain=", b"Path=", b"Path=here",
     b"Max-Age=soon", b"Expires=never", b'Port="1"', b"Partitioned; SameSite=None; Priority=High", b""],
)  # fmt: skip
def test_h09_attributes_that_browsers_skip(attributes: bytes) -> None:
    """A malformed or unknown attribute does not cost the cookie (RFC 6265, 5.2)."""

    def script(request: bytes, _number: int) -> list[Any]:
        return [PAGE] if b"sid=1" in request else [redirect(b"/", 302, b"Set-Cookie: sid=1; " + attributes)]

    with script_server(script) as server:
        assert_ok(check(server.url_as(localhost())))


def test_h09_with_a_configured_cookie() -> None:
    """A cookie that is set goes beside the configured ones, and replaces one of its name."""

    def script(request: bytes, _number: int) -> Sequence[Any]:
        return [PAGE] if b"sid=1" in request else [redirect(b"/", 302, b"Set-Cookie: sid=1", b"Set-Cookie: b=2")]

    with script_server(script) as server:
        assert_ok(check(server.url, headers=(("cookie", "lang=de; sid=old"),)))
        assert server.headers(0)["cookie"] == "lang=de; sid=old"
        assert server.headers(1)["cookie"] == "lang=de; sid=1; b=2"


def test_h53_no_state_between_checks() -> None:
    """A cookie is forgotten with its check, for the same target and for others."""
    with script_server(
        lambda request, _number: [PAGE if b" /b " in request else redirect(b"/b", 302, b"Set-Cookie: sid=1; Path=/")]
    ) as server:
        for name in ("one", "one", "two"):
            assert_ok(check(server.url, id=name))
        assert ["cookie" in server.headers(index) for index in range(6)] == [False, True] * 3


def test_cookies_stay_with_their_host_and_path() -> None:
    """Cookies follow the rules of RFC 6265: not to another host, not to another path, secure ones not in clear."""
    with script_server([PAGE]) as other:
        cookies = (b"Set-Cookie: host=1; Path=/", b"Set-Cookie: far=1; Domain=localhost; Path=/")
        with script_server([redirect(other.url_as(localhost()).encode(), 302, *cookies)]) as server:
            assert_ok(check(server.url))
        assert "cookie" not in other.headers()
    cookies = (b"Set-Cookie: p=1; Path=/other", b"Set-Cookie: s=1; Path=/; Secure", b"Set-Cookie: gone=1; Max-Age=0")
    with script_server(site({"/": redirect(b"/b", 302, *cookies), "/b": PAGE})) as server:
        assert_ok(check(server.url))
        assert "cookie" not in server.headers(1)


SECRET_HEADERS = (
    ("Authorization", "Bearer topsecret"), ("X-Api-Key", "topsecret"), ("Cookie", "sid=topsecret"),
    ("User-Agent", "topsecret"), ("Referer", "topsecret"),
)  # fmt: skip


@pytest.mark.parametrize("other_host", ["127.0.0.1", "localhost"], ids=["other port", "other host and port"])
def test_h10_secrets_across_hosts(other_host: str) -> None:
    """No configured header reaches another origin."""
    if other_host == "localhost":
        localhost()  # skips where there is no such name
    with (
        script_server([PAGE]) as other,
        script_server(lambda _request, _number: [redirect(other.url_as(other_host).encode())]) as server,
    ):
        assert_ok(check(server.url, headers=SECRET_HEADERS))
        assert b"topsecret" in server.requests[0]
        assert b"topsecret" not in other.requests[0]
        assert other.headers()["user-agent"].startswith("checkvisor/")


def test_h10_same_port_other_host() -> None:
    """Another name for the same server is another origin; coming back brings the headers back."""
    pages: dict[str, Any] = {"/b": PAGE}
    with script_server(lambda request, number: site(pages)(request, number)) as server:
        pages["/"] = redirect(server.url_as(localhost(), "/a").encode())
        pages["/a"] = redirect(server.url_as("127.0.0.1", "/b").encode())
        assert_ok(check(server.url, headers=SECRET_HEADERS))
        assert [b"topsecret" in request for request in server.requests] == [True, False, True]


@pytest.mark.parametrize("auth", [BasicAuth("user", "pässword"), BearerAuth("topsecret")], ids=["basic", "bearer"])
def test_auth_stays_at_its_origin(auth: BasicAuth | BearerAuth) -> None:
    """`auth` is sent at once (Basic in UTF-8), and to the configured origin only."""
    with (
        script_server([PAGE]) as other,
        script_server(lambda _request, _number: [redirect(other.url.encode())]) as server,
    ):
        assert_ok(check(server.url, auth=auth))
        expected = "Basic dXNlcjpww6Rzc3dvcmQ=" if isinstance(auth, BasicAuth) else "Bearer topsecret"
        assert server.headers()["authorization"] == expected
        assert "authorization" not in other.headers()


def test_user_info_of_urls() -> None:
    """`user:password@` in the target's URL is Basic; in a Location it is ignored; a lone user sends nothing."""
    with script_server(lambda request, _number: [PAGE]) as server:
        assert_ok(check(server.url.replace("//", "//us%40er:pw@")))
        assert server.headers(0)["authorization"] == "Basic dXNAZXI6cHc="
        assert_ok(check(server.url.replace("//", "//user@")))
        assert "authorization" not in server.headers(1)
        with script_server([redirect(server.url.replace("//", "//evil:pw@").encode())]) as first:
            assert_ok(check(first.url))
        assert "authorization" not in server.headers(2)
        assert all(b"@" not in request.split(b"\r\n")[0] for request in server.requests)


def test_h11_explicit_host_header() -> None:
    """A configured Host goes to the first origin only, on all its hops."""
    with script_server([PAGE]) as other:
        answers = [redirect(b"/next"), redirect(other.url_as(localhost()).encode())]
        with script_server(lambda _request, number: [answers[number]]) as server:
            assert_ok(check(server.url, headers=(("Host", "virtual.example"),)))
            assert [server.headers(index)["host"] for index in (0, 1)] == ["virtual.example"] * 2
        assert other.headers()["host"] == f"localhost:{other.port}"


MALFORMED = [
    b"http://[::1/", b"http://a..b/", b"http://127.0.0.1:-1/", b"http://127.0.0.1:99999/", b"http://127.0.0.1:0/",
    b"http://127.0.0.1:port/", b"http://", b"http:///", b"http:///path", b"https:", b"http:/x", b"//", b"http://.",
    b"http://exa mple/", b"http://" + b"a" * 70 + b".example/", b"http://" + b"a." * 200 + b"b/", b"/" + b"x" * 20000,
    b"http://\xff\xfe/", b"http://xn--/", b"http://[fe80::1%25lo%0d%0aX: y]/", b"http://user:pw@/", b"http://?x",
    b"http://[]/", b"http://[1]/", b"http://%00/", b"http://a:1:2/",
]  # fmt: skip


@pytest.mark.parametrize("location", MALFORMED, ids=lambda value: repr(value[:30])[2:-1])
def test_h13_malformed_location(location: bytes) -> None:
    """A Location that can't be requested is an error, whatever exception the libraries raise for it."""
    with script_server([redirect(location)]) as server:
        result = check(server.url)
    failure = result.failure
    assert failure is not None
    assert failure.kind == "error"
    # a name that is only unusual may get as far as the look-up
    assert failure.path in ("http.redirect", "http.dns"), failure
    if location in (*MALFORMED[:5], b"//"):
        assert failure.path == "http.redirect", failure
        assert "malformed" in failure.message


@pytest.mark.parametrize(
    "location",
    [b"file:///etc/passwd", b"ftp://127.0.0.1/x", b"javascript:alert(1)", b"data:,ok", b"mailto:a@b", b"ws://h/"],
)
def test_h14_location_with_another_scheme(location: bytes) -> None:
    """Only http and https are followed."""
    with script_server([redirect(location)]) as server:
        assert_error(check(server.url), "http.redirect", "not allowed")


def test_h15_two_locations() -> None:
    """Two different Locations are an error, twice the same is one."""
    with script_server([b"HTTP/1.1 302 X\r\nLocation: /1\r\nLocation: /2\r\n\r\n"]) as server:
        assert_error(check(server.url), "http.redirect", "different Location")
    twice = b"HTTP/1.1 302 X\r\nLocation: /b\r\nlocation: /b\r\n\r\n"
    with script_server(site({"/": twice, "/b": PAGE})) as server:
        assert_ok(check(server.url))


@pytest.mark.parametrize(
    "rest", [b"\r\n", b"Location:\r\n\r\n", b"Location:   \r\n\r\n"], ids=["none", "empty", "blank"]
)
def test_h15_redirect_without_location(rest: bytes) -> None:
    """A 302 that names no place is judged by its status."""
    with script_server([b"HTTP/1.1 302 Found\r\n" + rest]) as server:
        assert_mismatch(check(server.url), "status")
        assert_ok(check(server.url, status=statuses(302), body=()))


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("?q=1", "/dir/page?q=1"),
        ("x", "/dir/x"),
        ("../x", "/x"),
        ("../../../x", "/x"),
        ("/", "/"),
        ("//{host}/y", "/y"),
        ("/a b", "/a%20b"),
        ("/ä", "/%C3%A4"),
        ("/%zz", "/%25zz"),
        ("#top", "/dir/page"),
        ("HTTP://{host}/up", "/up"),
        ("/x?a=b&c=ü", "/x?a=b&c=%C3%BC"),
        ("http://{host}", "/"),
        ("http://{host}?q", "/?q"),
    ],
)
def test_h15_forms_of_location(location: str, path: str) -> None:
    """Relative, scheme-relative and unescaped Locations resolve as in browsers; fragments are not sent."""
    pages: dict[str, Any] = {}

    def script(_request: bytes, number: int) -> Sequence[Any]:
        return [pages["first"] if number == 0 else PAGE]

    with script_server(script) as server:
        pages["first"] = redirect(location.format(host=f"127.0.0.1:{server.port}").encode())
        assert_ok(check(server.url + "dir/page"))
        assert server.lines()[1] == f"GET {path} HTTP/1.1"


@pytest.mark.parametrize(
    ("status", "method", "then", "body"),
    [
        (301, "POST", "GET", False),
        (302, "POST", "GET", False),
        (303, "POST", "GET", False),
        (303, "PUT", "GET", False),
        (303, "HEAD", "HEAD", False),
        (301, "PUT", "PUT", True),
        (302, "DELETE", "DELETE", False),
        (307, "POST", "POST", True),
        (308, "POST", "POST", True),
        (308, "PATCH", "PATCH", True),
        (301, "HEAD", "HEAD", False),
    ],
)
def test_methods_and_bodies(status: int, method: str, then: str, body: bool) -> None:
    """301 and 302 turn POST into GET, 303 turns all but HEAD; 307 and 308 repeat method and body."""
    send = b'{"a":1}' if method in ("POST", "PUT", "PATCH") else None
    with script_server(site({"/": redirect(b"/b", status), "/b": PAGE})) as server:
        fields: dict[str, Any] = {"send": send, "content_type": "application/json"} if send else {}
        assert_ok(check(server.url, method=method, body=(), **fields))
        assert server.lines()[1] == f"{then} /b HTTP/1.1"
        assert (b'{"a":1}' in server.requests[1]) == body
        assert ("content-type" in server.headers(1)) == body
        assert (server.headers(1).get("content-length") == "7") == body


def test_the_framing_of_the_request_is_ours() -> None:
    """Configured Content-Length and Transfer-Encoding would make the server wait for what never comes."""
    with script_server([PAGE]) as server:
        wrong = (("content-length", "500"), ("Transfer-Encoding", "chunked"))
        assert_ok(check(server.url, headers=wrong))
        assert_ok(check(server.url, headers=wrong, method="POST", send=b"abc"))
        assert "content-length" not in server.headers(0)
        assert server.headers(1)["content-length"] == "3"
        assert all(b"chunked" not in request for request in server.requests)


@pytest.mark.parametrize("status", [307, 308])
def test_bodies_never_go_to_another_origin(status: int) -> None:
    """307 and 308 to another origin are an error where they would repeat a body or a method that changes things."""
    with (
        script_server([PAGE]) as other,
        script_server(lambda _request, _number: [redirect(other.url.encode(), status)]) as server,
    ):
        result = check(server.url, method="POST", send=b"topsecret")
        assert_error(result, "http.redirect", "another origin", "POST")
        assert_error(check(server.url, method="DELETE"), "http.redirect", "another origin")
        assert other.connections == 0
        assert_ok(check(server.url, method="GET"))
        assert "content-length" not in other.headers()


def test_h55_the_3xx_is_wanted() -> None:
    """With followRedirects: false the redirect itself is judged, and its Location may be."""
    with script_server([redirect(b"/b", 301)]) as server:
        assert_ok(check(server.url, follow_redirects=False, status=statuses(301), body=()))
        assert server.connections == 1


def test_h55_the_trace_names_the_final_url() -> None:
    """The trace shows every hop and the final URL, without queries."""
    with script_server(site({"/": redirect(b"/b?token=canary"), "/b?token=canary": PAGE})) as server:
        result, steps = traced(server.url)
    assert_ok(result)
    names = [step.step for step in steps]
    assert names.index("redirect") < names.index("finalUrl")
    final = next(step for step in steps if step.step == "finalUrl")
    assert final.seen == f"{server.url}b?… (after 1 redirect)"
    assert "canary" not in repr(steps)


def test_errors_behind_redirects() -> None:
    """A fault behind a redirect keeps its own place and says how far it was."""
    with script_server(site({"/": redirect(b"/b"), "/b": [RST]})) as server:
        assert_error(check(server.url), "http.headers", "after 1 redirect")


def test_messages_have_no_path_and_no_query() -> None:
    """No message shows path, query or user info of any URL."""
    scripts: list[list[Any]] = [
        [RST], [b"nope"], [HOLD], [redirect(b"/canary?canary")], [redirect(b"ftp://canary:canary@h/canary?canary")],
        [redirect(b"http://canary:canary@[::1/canary")], [OK + b"Content-Length: 9\r\n\r\nx"],
        [b"HTTP/1.1 500 X\r\n\r\n"],
    ]  # fmt: skip
    for script in scripts:
        with script_server(script) as server:
            url = server.url.replace("//", "//canary:canary@") + "canary?canary=canary"
            result = check(url, timeout_s=0.5)
        assert not result.matched
        assert "canary" not in repr(result), result


@pytest.mark.parametrize(
    "steps",
    [
        [PAGE],
        [RST],
        [HOLD],
        [b"HTTP/1.1 500 X\r\n\r\n"],
        [redirect(b"/"), RST],
        [redirect(b"http://127.0.0.1:1/", 307)],
    ],
    ids=["ok", "reset", "deadline", "status", "circle", "other origin"],
)
def test_secrets_show_nowhere(steps: list[Any]) -> None:
    """Whatever comes of a check: its header values, credentials, body and query are in no result and no trace."""
    with script_server(steps) as server:
        url = server.url.replace("//", "//u:canary1@") + "?key=canary2"
        fields: dict[str, Any] = {"headers": (("X-Key", "canary3"), ("Cookie", "a=canary4")), "send": b"canary5"}
        result = traced(url, method="POST", auth=BearerAuth("canary6"), timeout_s=0.5, **fields)
    assert "canary" not in repr(result)


LATIN = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\0"), max_size=60)
URLISH = st.lists(
    st.sampled_from(
        [
            "http",
            "https",
            ":",
            "//",
            "/",
            "[",
            "]",
            "@",
            "%",
            "%00",
            "a",
            "..",
            ".",
            "?",
            "#",
            "127.0.0.1",
            "::1",
            "99999",
            "\\",
        ]
    ),
    max_size=10,
).map("".join)


@settings(max_examples=400, deadline=None)
@given(st.one_of(LATIN, URLISH), LATIN, st.sampled_from([301, 303, 308]))
def test_h13_arbitrary_locations_and_cookies(location: str, cookie: str, status: int) -> None:
    """Whatever Location and Set-Cookie say, it is a hop, none, or a RedirectError."""
    plan = make_plan(HttpSettings(url="http://127.0.0.1:9/dir/page?q=1"))
    head = Head(1, status, "X", (("Location", location), ("Set-Cookie", cookie)))
    hop = None
    with contextlib.suppress(RedirectError):
        hop = next_hop(plan, Hop(plan.first, None), head, Cookies())
    if hop is not None:
        assert hop.request.origin.scheme in ("http", "https")
        assert hop.request.wire.count(b"\r\n\r\n") == 1
        assert 0 < hop.request.origin.port < 65536
