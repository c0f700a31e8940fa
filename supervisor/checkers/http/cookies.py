"""The cookies of one check: what a redirecting answer sets goes with the next hop, and is forgotten with the check."""

from __future__ import annotations

import re
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.cookies import MockRequest, MockResponse, get_cookie_header

from supervisor.net.wire import Head

_MOST_COOKIES = 300


class _Message:
    """What http.cookiejar asks of a response's headers."""

    def __init__(self, head: Head, host: str) -> None:
        self._head = head
        self._host = host

    def get_all(self, name: str, default: Any = None) -> Any:
        values = self._head.all(name.lower())[:_MOST_COOKIES]
        return [_lenient(value, self._host) for value in values] or default


def _lenient(cookie: str, host: str) -> str:
    """A cookie as browsers read it (RFC 6265, 5.2): an attribute that is unknown or malformed does not count, while
    http.cookiejar refuses the whole cookie for it."""
    pair, *attributes = cookie.split(";")
    kept = [pair]
    for attribute in attributes:
        name, _, value = attribute.partition("=")
        name, value = name.strip().lower(), value.strip(" \t").strip('"')
        match name:
            case "path" if value.startswith("/"):
                kept.append(f"Path={value}")
            case "domain" if value.strip(".") and (value.lower().strip(".") != host or "." in host):
                kept.append(f"Domain={value}")
            case "max-age" if re.fullmatch(r"-?[0-9]+", value, re.ASCII):
                kept.append(f"Max-Age={value}")
            case "expires":
                kept.append(f"Expires={value}")
            case "secure":
                kept.append("Secure")
            case _:
                pass
    return "; ".join(kept)


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
        message: Any = _Message(head, urlsplit(request.url or "").hostname or "")
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
