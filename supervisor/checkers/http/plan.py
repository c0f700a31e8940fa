"""A target made ready once per worker: preparing a request costs more than sending it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import unquote_to_bytes, urlsplit, urlunsplit

import requests

from supervisor import __version__
from supervisor.checkers.http.settings import BasicAuth, BearerAuth, HttpSettings
from supervisor.net import NetFailure, Origin, Prepared, Proxy, Route
from supervisor.net.request import basic

_DEFAULT_HEADERS = (("User-Agent", f"checkvisor/{__version__}"), ("Accept", "*/*"), ("Accept-Encoding", "gzip"))

_FRAMING = frozenset({"content-length", "transfer-encoding"})  # ours: a wrong one makes the server wait


@dataclass(frozen=True, slots=True)
class Plan:
    """The first request of a target and the ways to its own and to other origins."""

    settings: HttpSettings
    first: Prepared
    route: Route
    headers: tuple[tuple[str, str], ...]

    @property
    def origin(self) -> Origin:
        return self.first.origin

    def foreign_route(self) -> Route:
        """To another origin: trust and proxy stay, what was meant for the target's own server does not."""
        tls = replace(self.settings.tls, server_name=None)
        return replace(self.route, tls=tls, connect_to=None, client_certificate=False)


def make_plan(settings: HttpSettings) -> Plan:
    """Raises NetFailure when the settings can't make a request; the loader refuses most of those before."""
    url, userinfo = _without_userinfo(settings.url)
    headers = _headers(settings, userinfo)
    try:
        first = Prepared.make(settings.method, url, headers, settings.body)
    except (requests.RequestException, ValueError, TypeError) as error:
        raise NetFailure("send", f"no request can be made of url and headers: {_why(error)}") from error
    try:
        proxy = Proxy.of(settings.proxy) if settings.proxy else None
    except ValueError as error:
        raise NetFailure("proxy", str(error)) from error
    route = Route(tls=settings.tls, proxy=proxy, ip_version=settings.ip_version, connect_to=settings.connect_to)
    return Plan(settings, first, route, headers)


def request_for(plan: Plan, method: str, url: str, body: bytes | None, cookie: str | None) -> Prepared:
    """A later hop's request: the configured headers go to the configured origin only.

    Raises requests.RequestException and ValueError for a URL that can't be requested."""
    prepared = Prepared.make(method, url, _DEFAULT_HEADERS, body)
    own = prepared.origin == plan.origin
    headers = dict(plan.headers if own else _DEFAULT_HEADERS)
    if body is None:
        headers = {name: value for name, value in headers.items() if not name.lower().startswith("content-")}
    if cookie:
        given = next((name for name in headers if name.lower() == "cookie"), None)
        headers[given or "Cookie"] = merged_cookies(headers[given], cookie) if given else cookie
    return Prepared.make(method, url, headers.items(), body)


def merged_cookies(configured: str, received: str) -> str:
    """Both as one Cookie header; what the server set replaces a configured cookie of the same name."""
    names = {pair.partition("=")[0].strip() for pair in received.split(";")}
    kept = [pair.strip() for pair in configured.split(";") if pair.partition("=")[0].strip() not in names]
    return "; ".join([*filter(None, kept), received])


def _without_userinfo(url: str) -> tuple[str, str]:
    """The URL without `user:password@`, and these."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise NetFailure("send", "no request can be made of url: it is malformed") from error
    userinfo, at, host = parts.netloc.rpartition("@")
    return (urlunsplit(parts._replace(netloc=host)), userinfo) if at else (url, "")


def _headers(settings: HttpSettings, userinfo: str) -> tuple[tuple[str, str], ...]:
    """Defaults, then what the target needs, then what the user wrote; a name stands once, whatever its case."""
    headers: dict[str, tuple[str, str]] = {name.lower(): (name, value) for name, value in _DEFAULT_HEADERS}
    if settings.body is not None and settings.content_type:
        headers["content-type"] = ("Content-Type", settings.content_type)
    if ":" in userinfo:
        user, _, password = userinfo.partition(":")
        headers["authorization"] = ("Authorization", basic(unquote_to_bytes(user), unquote_to_bytes(password)))
    for name, value in settings.headers:
        if name.lower() in _FRAMING:
            continue
        headers[name.lower()] = (name, value.strip(" \t"))
    match settings.auth:
        case BasicAuth(username, password):
            headers["authorization"] = ("Authorization", basic(username.encode(), password.encode()))
        case BearerAuth(token):
            headers["authorization"] = ("Authorization", f"Bearer {token}")
        case None:
            pass
    return tuple(headers.values())


def _why(error: Exception) -> str:
    """The kind of fault only: texts of requests and urllib3 quote the URL."""
    if isinstance(error, requests.exceptions.InvalidHeader):
        return "a header's name or value is not allowed"
    if isinstance(error, UnicodeError):
        return "a header or the host has characters that can't be sent"
    if isinstance(error, requests.exceptions.MissingSchema | requests.exceptions.InvalidSchema):
        return "the URL's scheme is missing or unknown"
    return "the URL is malformed"
