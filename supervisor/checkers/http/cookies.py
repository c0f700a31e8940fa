"""The cookies of one check: what a redirecting answer sets goes with the next hop, and is forgotten with the check."""

from __future__ import annotations

from http.cookiejar import CookieJar
from typing import Any

import requests
from requests.cookies import MockRequest, MockResponse, get_cookie_header

from supervisor.net.wire import Head

_MOST_COOKIES = 300


class _Message:
    """What http.cookiejar asks of a response's headers."""

    def __init__(self, head: Head) -> None:
        self._head = head

    def get_all(self, name: str, default: Any = None) -> Any:
        return self._head.all(name.lower())[:_MOST_COOKIES] or default


class Cookies:
    """A jar that exists only if a cookie was set."""

    __slots__ = ("_jar",)

    def __init__(self) -> None:
        self._jar: CookieJar | None = None

    def take(self, request: requests.PreparedRequest, head: Head) -> None:
        """Keep what this answer sets."""
        if not head.all("set-cookie"):
            return
        if self._jar is None:
            self._jar = CookieJar()
        message: Any = _Message(head)
        self._jar.extract_cookies(MockResponse(message), MockRequest(request))  # type: ignore[arg-type]

    def header_for(self, request: requests.PreparedRequest) -> str | None:
        """The value of the Cookie header for this request, if any cookie fits."""
        if self._jar is None:
            return None
        bare = requests.PreparedRequest()
        bare.url, bare.method, bare.headers = request.url, request.method, request.headers.copy()
        bare.headers.pop("Cookie", None)  # the jar adds none where one stands
        header: str | None = get_cookie_header(self._jar, bare)  # type: ignore[no-untyped-call]
        return header
