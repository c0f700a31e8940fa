"""What a user can say of an HTTP check (design section 4.1), as the worker gets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Hashable: it is the key under which a worker keeps the SSLContext."""

    verify: bool = True
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    min_version: Literal["1.2", "1.3"] | None = None


@dataclass(frozen=True, slots=True)
class BasicAuth:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class BearerAuth:
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """`body` holds the bytes to send, `content_type` what goes with them (json and form are encoded at load)."""

    url: str = field(repr=False)
    method: str = "GET"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes | None = field(default=None, repr=False)
    content_type: str | None = None
    auth: BasicAuth | BearerAuth | None = None
    follow_redirects: bool = True
    max_redirects: int = 10
    max_body_bytes: int = 104857600
    proxy: str | None = field(default=None, repr=False)
    ip_version: Literal["any", "4", "6"] = "any"
    connect_to: tuple[str, int] | None = None
    tls: TlsSettings = TlsSettings()
