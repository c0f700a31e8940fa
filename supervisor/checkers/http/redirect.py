"""Where an answer sends us, and what may go there (RFC 9110, 15.4; design section 4.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urldefrag, urljoin, urlsplit, urlunsplit

import requests

from supervisor.checkers.http.cookies import Cookies
from supervisor.checkers.http.plan import Plan, request_for
from supervisor.net import Prepared
from supervisor.net.wire import Head

FOLLOWED = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
_LONGEST_LOCATION = 16384
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):", re.ASCII)
_WHOLE = re.compile(r"(?:https?:)?//[^/?#]", re.ASCII | re.IGNORECASE)


class RedirectError(Exception):
    """The redirect can't or must not be followed; the message has no path and no query."""


@dataclass(frozen=True, slots=True)
class Hop:
    """One request of the way."""

    request: Prepared
    body: bytes | None


def next_hop(plan: Plan, hop: Hop, head: Head, cookies: Cookies) -> Hop | None:
    """The request this answer asks for; None when it is not a redirect. Raises RedirectError."""
    if head.status not in FOLLOWED:
        return None
    location = _location(head)
    if location is None:
        return None
    url = _target(hop.request.url or "", location)
    method = hop.request.method or "GET"
    body = hop.body
    becomes_get = (head.status in (301, 302) and method == "POST") or (head.status == 303 and method != "HEAD")
    if becomes_get:
        method, body = "GET", None
    try:
        request = request_for(plan, method, url, body, None)
        cookies.take(hop.request, head)
        cookie = cookies.header_for(request)
        if cookie:
            request = request_for(plan, method, url, body, cookie)
    except (requests.RequestException, ValueError, TypeError) as error:
        raise RedirectError(f"status {head.status} has a Location that is malformed") from error
    if request.origin != hop.request.origin and (body is not None or method not in _SAFE):
        what = "with its body " if body is not None else ""
        raise RedirectError(
            f"status {head.status} would send the {method} request {what}to another origin, {request.origin}: "
            "that is never done; make it the target's url"
        )
    return Hop(request, body)


def _location(head: Head) -> str | None:
    """The one Location, as text; None where there is none or it is empty."""
    values = {value for value in head.all("location") if value}
    if not values:
        return None
    if len(values) > 1:
        raise RedirectError(f"status {head.status} has {len(values)} different Location headers, expected one")
    value = values.pop()
    if len(value) > _LONGEST_LOCATION:
        raise RedirectError(f"status {head.status} has a Location of {len(value):,} characters")
    raw = value.encode("latin-1")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _target(base: str, location: str) -> str:
    """The absolute URL, without fragment and user info."""
    scheme = _SCHEME.match(location)
    if scheme is not None and scheme[1].lower() not in ("http", "https"):
        raise RedirectError(f"the Location's scheme {scheme[1][:20]} is not allowed: only http and https are")
    if (scheme is not None or location.startswith("//")) and _WHOLE.match(location) is None:
        raise RedirectError("the Location is malformed: it has no host")
    try:
        parts = urlsplit(urldefrag(urljoin(base, location)).url)
        netloc = parts.netloc.rpartition("@")[2]
    except ValueError as error:
        raise RedirectError("the Location is malformed") from error
    return urlunsplit(parts._replace(netloc=netloc))
