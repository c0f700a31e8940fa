"""The cookies of one check: what a redirecting answer sets goes with the next hop, and is forgotten with the check."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import format_datetime
from http.cookiejar import CookieJar
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.cookies import MockRequest, MockResponse, get_cookie_header

from supervisor.net.wire import Head

_MOST_COOKIES = 300
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BETWEEN = re.compile(r"[\t\x20-\x2f\x3b-\x40\x5b-\x60\x7b-\x7e]+")
_TIME = re.compile(r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})(?![0-9])", re.ASCII)
_DAY = re.compile(r"([0-9]{1,2})(?![0-9])", re.ASCII)
_YEAR = re.compile(r"([0-9]{2,4})(?![0-9])", re.ASCII)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class _Message:
    """What http.cookiejar asks of a response's headers: one cookie, as it sets all of one response at once and so
    would not delete what another line of the same response has set."""

    def __init__(self, cookie: str) -> None:
        self._cookie = cookie

    def get_all(self, name: str, default: Any = None) -> Any:
        return [self._cookie] if name == "Set-Cookie" else default


def _lenient(cookie: str, host: str) -> str:
    """A cookie as browsers read it (RFC 6265, 5.2): an attribute that is unknown or malformed does not count, while
    http.cookiejar refuses the whole cookie for it. Of several of one name the last counts."""
    pair, *attributes = cookie.split(";")
    kept: dict[str, str] = {}
    for attribute in attributes:
        name, _, value = attribute.partition("=")
        name, value = name.strip().lower(), value.strip(" \t").strip('"')
        match name:
            case "path":
                kept["path"] = f"Path={value}" if value.startswith("/") else ""
            case "domain" if value.strip(".") and (value.lower().strip(".") != host or "." in host):
                kept["domain"] = f"Domain={value}"
            case "max-age" if re.fullmatch(r"-?[0-9]+", value, re.ASCII):
                kept["max-age"] = f"Max-Age={value}"
            case "expires" if (at := _date(value)) is not None:
                kept["expires"] = f"Expires={format_datetime(max(at, _EPOCH), usegmt=True)}"
            case "secure":
                kept["secure"] = "Secure"
            case _:
                pass
    return "; ".join([pair, *filter(None, kept.values())])


def _date(text: str) -> datetime | None:
    """A date as browsers read it, in any order and with a year of two digits (RFC 6265, 5.1.1); None for no date."""
    time: tuple[int, int, int] | None = None
    day = month = year = None
    for token in _BETWEEN.split(text):
        if time is None and (found := _TIME.match(token)):
            time = int(found[1]), int(found[2]), int(found[3])
        elif day is None and (found := _DAY.match(token)):
            day = int(found[1])
        elif month is None and token[:3].lower() in _MONTHS:
            month = _MONTHS.index(token[:3].lower()) + 1
        elif year is None and (found := _YEAR.match(token)):
            year = int(found[1])
    if time is None or day is None or month is None or year is None:
        return None
    if year < 100:
        year += 1900 if year >= 70 else 2000
    try:
        return datetime(year, month, day, *time, tzinfo=UTC) if year >= 1601 else None
    except ValueError:
        return None


class Cookies:
    """A jar that exists only if a cookie was set."""

    __slots__ = ("_jar",)

    def __init__(self) -> None:
        self._jar: CookieJar | None = None

    def take(self, request: requests.PreparedRequest, head: Head) -> None:
        """Keep what this answer sets."""
        lines = head.all("set-cookie")[:_MOST_COOKIES]
        if not lines:
            return
        if self._jar is None:
            self._jar = CookieJar()
        host = urlsplit(request.url or "").hostname or ""
        for line in lines:
            message: Any = _Message(_lenient(line, host))
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
