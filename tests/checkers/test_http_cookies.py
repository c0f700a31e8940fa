"""What a redirecting answer sets goes with the next request exactly as long as a browser would send it (RFC 6265)."""

from __future__ import annotations

import pytest

from tests.checkers.probe import assert_ok, check
from tests.servers import OK, length, redirect, script_server

PAGE = OK + length(b"ok")


@pytest.mark.parametrize(
    ("lines", "sent"),
    [
        ([b"a=1", b"a=; Max-Age=0"], None),
        ([b"a=1; Path=/", b"a=; Path=/; Expires=Thu, 01 Jan 1970 00:00:00 GMT"], None),
        ([b"a=; Max-Age=0", b"a=1"], "a=1"),
        ([b"a=1; Expires=Thu, 01-Jan-70 00:00:00 GMT"], None),
        ([b"a=1; Expires=Wednesday, 09-Nov-94 08:49:37 GMT"], None),
        ([b"a=1; Expires=Thu Jan  1 00:00:00 1970"], None),
        ([b"a=1; Expires=1 jan 1601 0:0:1"], None),
        ([b"a=1; Expires=01-Jan-69 00:00:00 GMT"], "a=1"),
        ([b"a=1; Expires=Thu, 31 Feb 1999 00:00:00 GMT"], "a=1"),
        ([b"a=1; Expires=Thu, 01 Jan 1600 00:00:00 GMT"], "a=1"),
        ([b"a=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT"], "a=1"),
        ([b"a=1; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60"], "a=1"),
        ([b"a=1; Path=/x; Path=/"], "a=1"),
        ([b"a=1; Path=/x; Path"], "a=1"),
        ([b"a=1; Path=/; Path=/x"], None),
        ([b"a=1; Max-Age=0; Max-Age=9"], "a=1"),
    ],
    ids=repr,
)
def test_h09_cookies_that_end(lines: list[bytes], sent: str | None) -> None:
    """Each line counts in its order, the last attribute of a name too, and dates have any form (RFC 6265, 5)."""
    cookies = [b"Set-Cookie: " + line for line in lines]
    with script_server(
        lambda request, _number: [PAGE] if b" /b " in request else [redirect(b"/b", 302, *cookies)]
    ) as server:
        assert_ok(check(server.url))
        assert server.headers(1).get("cookie") == sent
