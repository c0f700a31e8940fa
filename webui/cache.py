"""Answers kept until what they show changes, and the way every answer is sent: ETag, 304, gzip."""

from __future__ import annotations

import gzip
import hashlib
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path

from flask import Response, request

from supervisor import __version__

_SMALL = 600  # bytes below which compressing costs more than it saves
PAGE_LEVEL, LIGHT_LEVEL = 7, 2  # gzip levels: of what is kept, of what is made for one answer


def build_hash() -> str:
    """A short digest of this version's templates and static files: part of every ETag and of every static address."""
    digest = hashlib.blake2b(__version__.encode(), digest_size=6)
    here = Path(__file__).parent
    for path in sorted([*here.glob("templates/*"), *here.glob("static/*"), *here.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


BUILD = build_hash()


@dataclass(frozen=True, slots=True)
class Body:
    """One answer, ready to send in both forms."""

    etag: str
    plain: bytes
    packed: bytes | None


def body(text: str, etag: str | None = None, level: int = LIGHT_LEVEL) -> Body:
    """Encode and compress; without `etag` the text itself makes it."""
    plain = text.encode("utf-8", "backslashreplace")
    packed = gzip.compress(plain, level, mtime=0) if len(plain) > _SMALL else None
    return Body(etag or tag(plain), plain, packed)


def tag(*parts: object) -> str:
    """An ETag of anything with a stable text form."""
    digest = hashlib.blake2b(BUILD.encode(), digest_size=12)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else str(part).encode("utf-8", "backslashreplace"))
        digest.update(b"\0")
    return digest.hexdigest()


class Cache:
    """The latest answer of each name. Filled under a lock: many requests at once build it once."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Hashable, Body]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, name: str, key: Hashable, build: Callable[[], str], level: int = LIGHT_LEVEL) -> Body:
        """The answer for `key`; `build` makes its text when another one, or none, is kept."""
        kept = self._kept.get(name)
        if kept is not None and kept[0] == key:
            return kept[1]
        with self._lock:
            lock = self._locks.setdefault(name, threading.Lock())
        with lock:
            kept = self._kept.get(name)
            if kept is None or kept[0] != key:
                kept = self._kept[name] = (key, body(build(), tag(name, key), level))
            return kept[1]


def send(answer: Body, content_type: str, *, cache_control: str = "no-cache", status: int = 200) -> Response:
    """304 if the client has it, else the answer, compressed if the client can read that."""
    response = Response(status=status, content_type=content_type)
    response.set_etag(answer.etag, weak=True)
    response.headers["Cache-Control"] = cache_control
    response.headers["Vary"] = "Accept-Encoding"
    if status == 200 and request.if_none_match.contains_weak(answer.etag):
        response.status_code = 304
        del response.headers["Content-Type"]
        return response
    if answer.packed is not None and request.accept_encodings.quality("gzip") > 0:
        response.headers["Content-Encoding"] = "gzip"
        response.set_data(answer.packed)
    else:
        response.set_data(answer.plain)
    return response
