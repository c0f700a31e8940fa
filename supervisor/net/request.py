"""A prepared request of `requests` together with its bytes for the wire: made once a target and process, sent often."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

import requests
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from supervisor.net.resolve import peer_name

_NO_HOOKS: dict[str, list[Any]] = {"response": []}
PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Origin:
    """Scheme, host and port (RFC 6454). `host` is without brackets, with its zone."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """As the Host header has it: no default port, no zone (RFC 6874)."""
        host = self.host.partition("%")[0]
        shown = f"[{host}]" if ":" in host else host
        return shown if self.port == PORTS[self.scheme] else f"{shown}:{self.port}"

    def __str__(self) -> str:
        return f"{self.scheme}://{peer_name(self.host, self.port)}"


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy; `authorization` is the value of Proxy-Authorization or None."""

    host: str
    port: int
    authorization: str | None = None

    @classmethod
    def of(cls, url: str) -> Proxy:
        """From `http://user:password@host:port`. Raises ValueError with a sentence that has nothing of the URL."""
        try:
            parts = parse_url(url if "://" in url else f"http://{url}")
        except LocationParseError as error:
            raise ValueError("the proxy's URL is malformed") from error
        if parts.scheme != "http" or not parts.host:
            raise ValueError("the proxy's URL must be http://host:port")
        authorization = None
        if parts.auth:
            user, _, password = parts.auth.partition(":")
            authorization = basic(unquote_to_bytes(user), unquote_to_bytes(password))
        return cls(_bare(parts.host), parts.port or PORTS["http"], authorization)


def basic(user: bytes, password: bytes) -> str:
    """The value of an Authorization header (RFC 7617)."""
    return "Basic " + base64.b64encode(user + b":" + password).decode("ascii")


def _bare(host: str) -> str:
    """Without brackets; `%25` before a zone is `%`."""
    return host[1:-1].replace("%25", "%", 1) if host.startswith("[") else host


class Prepared(requests.PreparedRequest):
    """A prepared request that knows its origin and its bytes."""

    origin: Origin
    wire: bytes
    _cookies: Any

    @classmethod
    def make(
        cls, method: str, url: str, headers: Iterable[tuple[str, str]] = (), body: bytes | None = None
    ) -> Prepared:
        """Prepared by `requests`: the URL normalised, Content-Length set. Credentials in the URL become Basic.

        Raises what requests raises for a URL or header that can't be sent (RequestException, ValueError)."""
        if urlsplit(url).port == 0:  # requests leaves it out, and so asks port 80
            raise ValueError("port 0 can't be connected to")
        prepared = cls()
        prepared.prepare(method=method, url=url, headers=dict(headers), data=body)
        prepared.complete()
        # A worker keeps one of these for each of its targets: no empty jar and hooks for each.
        prepared._cookies = None
        prepared.hooks = _NO_HOOKS
        return prepared

    @classmethod
    def of(cls, request: requests.PreparedRequest) -> Prepared:
        """Any prepared request, completed. Its body must be bytes or text."""
        if isinstance(request, cls):
            return request
        prepared = cls()
        prepared.__dict__.update(request.__dict__)
        prepared.complete()
        return prepared

    def complete(self) -> None:
        """Work out `origin` and `wire`. Raises ValueError for what can't stand in a request."""
        if self.url is None or self.method is None:
            raise ValueError("the request has no URL or method")
        try:
            parts = parse_url(self.url)
        except LocationParseError as error:
            raise ValueError("the URL is malformed") from error
        scheme = (parts.scheme or "").lower()
        if scheme not in PORTS or not parts.host:
            raise ValueError("the URL has no host, or is neither http nor https")
        self.origin = Origin(scheme, _bare(parts.host), parts.port or PORTS[scheme])
        if any(not label for label in self.origin.host.removesuffix(".").split(".")):
            raise ValueError("the host name has an empty label")
        self.wire = self._bytes(self.path_url)

    def proxied(self) -> bytes:
        """The same with the absolute form of the target, for a proxy (RFC 9112, 3.2.2)."""
        return self._bytes(f"{self.origin.scheme}://{self.origin.authority}{self.path_url}")

    def _bytes(self, target: str) -> bytes:
        headers = {str(name): _text(value) for name, value in self.headers.items()}
        host = next((value for name, value in headers.items() if name.lower() == "host"), self.origin.authority)
        lines = [f"{self.method} {target} HTTP/1.1", f"Host: {host}"]
        lines += [f"{name}: {value}" for name, value in headers.items() if name.lower() != "host"]
        if not any(name.lower() == "connection" for name in headers):
            lines.append("Connection: close")
        if any("\r" in line or "\n" in line for line in lines) or not target.isascii() or " " in target:
            raise ValueError("a line of the request holds a line end, or its target a blank")
        body = self.body or b""
        if not isinstance(body, bytes | str):
            raise TypeError("the body must be bytes or text")
        head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        return head + (body.encode() if isinstance(body, str) else body)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value
