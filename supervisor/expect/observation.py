"""What checkers let `judge` look at. Protocols only: the real ones live in the worker and never leave it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from supervisor.model import Certificate, CheckFailure


@dataclass(slots=True)
class Body:
    """A whole decoded body. `content` is the bytes after content-coding; `content_type` the header's value or ""."""

    content: bytes
    content_type: str = ""


class HttpObservation(Protocol):
    """An answer whose body has not been read yet."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """In order of arrival, latin-1 text, outer blanks removed."""
        ...

    @property
    def headers_ms(self) -> float:
        """Time from the check's start until the headers were in."""
        ...

    @property
    def certificate(self) -> Certificate | None: ...
    def body(self) -> Body | CheckFailure:
        """Read the body, once: an error (cap, decode, broken, cut) is the check's failure."""
        ...

    @property
    def duration_ms(self) -> float:
        """Time from the start until the last byte read so far."""
        ...


class CommandObservation(Protocol):
    @property
    def exit_code(self) -> int: ...
    @property
    def duration_ms(self) -> float: ...
    @property
    def stdout(self) -> bytes: ...
    @property
    def stderr(self) -> bytes: ...
