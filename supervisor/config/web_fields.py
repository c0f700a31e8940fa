"""Fields for what goes over the network: URLs, addresses, headers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlsplit

import idna
from marshmallow import ValidationError

from supervisor.config.fields import Typed, found
from supervisor.config.problems import AtKey

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_ADDRESS = re.compile(r"(?:\[(?P<six>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^\s:/\[\]@]*)):(?P<port>[0-9]{1,5})")
_HOST_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_BRACKETS = re.compile(r"\[[^\[\]]*\](?::[0-9]+)?")
_IPV6 = re.compile(r"[0-9A-Fa-f:.]+(?:%25[A-Za-z0-9._~-]+|%[A-Za-z][A-Za-z0-9._~-]*)?")
# What the sender sets itself, or what would break the framing of the message.
FRAMING_HEADERS = frozenset({"content-length", "transfer-encoding", "connection", "te", "trailer", "upgrade", "expect"})
WEBHOOK_HEADERS = FRAMING_HEADERS | {"content-type", "content-encoding", "host", "user-agent", "accept-encoding"}


class Url(Typed):
    """An http or https URL. Single-label hosts, underscores, non-ASCII names and IPv6 literals are fine."""

    expected = "a URL such as https://example.org/health"
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "minLength": 1}

    def __init__(self, *, user_info: bool = False, **kwargs: Any) -> None:
        self.user_info = user_info
        super().__init__(**kwargs)

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise self.wrong(value)
        problem = url_problem(str(value), self.user_info)
        if problem:
            shown = found(value, self.secret or "@" in value or "?" in value)  # what follows may be a secret
            raise ValidationError(f"{problem}: expected {self.expected}, found {shown}")
        return str(value).strip()


def url_problem(text: str, user_info: bool = False) -> str:
    """What is wrong with an http URL, or nothing."""
    text = text.strip()
    if not text:
        return "the URL is empty"
    if any(ord(char) < 32 or ord(char) == 127 for char in text):
        return "the URL holds a control character or a line end"
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", text)
    if scheme is None:
        other = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(?![0-9/]|$)", text)
        if other is not None and "." not in other[1] and "@" not in text:
            return f"the scheme {other[1]} is not http or https"
        return "the scheme is missing (http:// or https://)"
    if scheme[1].lower() not in ("http", "https"):
        return f"the scheme {scheme[1]} is not http or https"
    try:
        parts = urlsplit(text)
        if parts.netloc.rpartition("@")[2].count(":") > 1 and "[" not in parts.netloc:
            return "an IPv6 address stands in brackets, as in http://[::1]:8080/"
        port = parts.port
    except ValueError as exc:
        return _split_problem(str(exc))
    if port == 0 or parts.netloc.endswith(":"):
        return "the port must be from 1 to 65535" if port == 0 else "the port behind the colon is missing"
    if "@" in parts.netloc and not user_info:
        return "user and password do not belong in this URL"
    if "\\" in parts.netloc:
        return "the URL holds a backslash"
    return _host_problem(parts.netloc.rpartition("@")[2], parts.hostname or "")


def _split_problem(text: str) -> str:
    if "port" in text.lower():
        return "the port must be a number from 1 to 65535"
    if "IPv6" in text or "IPv4" in text or "address" in text:
        return "the IPv6 address is not valid"
    return "the URL is not valid"


def _host_problem(netloc: str, host: str) -> str:
    if not host:
        return "the host is missing"
    if netloc.startswith("["):
        return "" if _IPV6.fullmatch(host) and _BRACKETS.fullmatch(netloc) else "the IPv6 address is not valid"
    if len(host) > 253:
        return "the host name is longer than 253 characters"
    if host.isascii():
        labels = host.removesuffix(".").split(".")
        if not all(_HOST_LABEL.fullmatch(label) for label in labels):
            return "the host name is not valid"
        return ""
    try:
        idna.encode(host, uts46=True)
    except (idna.IDNAError, UnicodeError):
        return "the host name is not valid (it has no IDNA form)"
    return ""


class HostPort(Typed):
    """`host:port`, `[::1]:port`: a pair. `listen` allows an empty host, port 0 and "" (off)."""

    expected = "an address such as 127.0.0.1:8080"
    schema: ClassVar[Mapping[str, Any]] = {"type": "string"}

    def __init__(self, *, listen: bool = False, **kwargs: Any) -> None:
        self.listen = listen
        super().__init__(**kwargs)

    def read(self, value: Any) -> Any:
        if self.listen and value == "" and isinstance(value, str):
            return ""
        match = _ADDRESS.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            raise self.wrong(value)
        port = int(match["port"])
        host = match["six"] or match["host"]
        if port > 65535 or (port == 0 and not self.listen):
            raise ValidationError(f"the port must be from {0 if self.listen else 1} to 65535, found {port}")
        if not host and not self.listen:
            raise ValidationError(f"the host is missing: expected {self.expected}, found {found(value)}")
        return str(value) if self.listen else (str(host), port)


class Headers(Typed):
    """Header names and values. Errors name the key, never the value. `reserved` are names the sender sets itself."""

    expected = "a mapping of header names to texts"

    def __init__(self, *, reserved: frozenset[str] = FRAMING_HEADERS, prefix: str = "", **kwargs: Any) -> None:
        self.reserved, self.prefix = reserved, prefix
        super().__init__(secret=True, **kwargs)

    def read(self, value: Any) -> tuple[tuple[str, str], ...]:
        if not isinstance(value, dict):
            raise self.wrong(value)
        errors: dict[int | str, Any] = {}
        headers: list[tuple[str, str]] = []
        seen: dict[str, str] = {}
        for name, text in value.items():
            lower = name.lower()
            problem = header_name_problem(name) or header_value_problem(text)
            if lower in self.reserved or (self.prefix and lower.startswith(self.prefix)):
                problem = AtKey("this header is set by Checkvisor itself: remove it")
            elif lower in seen:
                problem = AtKey(f"the header stands twice: {seen[lower]} and {name} are one name")
            if problem:
                errors[name] = [problem]
                continue
            seen[lower] = name
            headers.append((str(name), str(text).strip(" \t")))
        if errors:
            raise ValidationError(errors)
        return tuple(headers)

    def json_schema(self) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{_TOKEN.pattern}$"},
            "additionalProperties": {"type": "string"},
        }


def header_name_problem(name: str) -> str:
    if _TOKEN.fullmatch(name):
        return ""
    return AtKey("not a header name: expected letters, digits and -, without spaces (an RFC 9110 token)")


def header_value_problem(value: Any) -> str:
    if isinstance(value, bool | int | float):
        kind = "a boolean" if isinstance(value, bool) else "a number"
        return f"expected a text, found {kind}: quote it"
    if not isinstance(value, str):
        return f"expected a text, found {found(value, sensitive=True)}"
    if "\n" in value or "\r" in value:
        return "the value holds a line end: a header value is one line"
    if not _HEADER_VALUE.fullmatch(value):
        return "the value holds a character that a header can't carry: expected visible ASCII or latin-1, space and tab"
    return ""


class Method(Typed):
    expected = "an HTTP method in capital letters, such as GET, HEAD or POST"
    schema: ClassVar[Mapping[str, Any]] = {"type": "string", "pattern": "^[A-Z][A-Z-]{0,31}$"}

    def read(self, value: Any) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[A-Z][A-Z-]{0,31}", value):
            upper = isinstance(value, str) and value.upper() in (
                "GET",
                "HEAD",
                "POST",
                "PUT",
                "PATCH",
                "DELETE",
                "OPTIONS",
                "TRACE",
            )
            raise self.wrong(value, f"write {str(value).upper()}" if upper else "")
        if value in ("CONNECT", "TRACE"):
            raise ValidationError(f"{value} can't be used for a check: use GET, HEAD or POST")
        return str(value)
