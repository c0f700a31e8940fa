"""One short read transaction a request, with what every answer needs to know about the supervisor."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from sqlalchemy import Connection

from supervisor.logs import event
from supervisor.store import read
from supervisor.store.connect import Reader, ReadError, TooSlowError
from webui.view import Supervisor, supervisor

log = logging.getLogger(__name__)


def wall_clock_ms() -> int:
    """Now in UTC milliseconds."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The database as one request sees it."""

    connection: Connection
    now_ms: int
    supervisor: Supervisor
    meta_hash: str  # changes when what is shown of `meta` does, the heartbeat aside

    @property
    def stale(self) -> bool:
        """No state in this database can be trusted to be the present one."""
        return self.supervisor.stale


def _digest(meta: dict[str, str], known: Supervisor) -> str:
    shown = (
        *(meta.get(name) for name in ("page", "version")),
        known.reload_error,
        known.degraded,
        known.source,
        known.started_ms,
    )
    return blake2b(repr(shown).encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()


class Database:
    """The reader of one database file; raises connect.ReadError, which errors.py makes an answer of."""

    def __init__(self, path: Path, now_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._reader = Reader(path)
        self._trouble: str | None = None  # what was logged last; None: readable
        self.now_ms = now_ms

    @contextmanager
    def snapshot(self, deadline_s: float | None = None) -> Iterator[Snapshot]:
        """Read within one transaction, by default for at most the reader's deadline; fetch all within the block."""
        try:
            with self._reader.read(deadline_s=deadline_s) as reading:
                meta = read.all_meta(reading.connection)
                now_ms = self.now_ms()
                known = supervisor(meta, now_ms, unattended=reading.stale)
                yield Snapshot(reading.connection, now_ms, known, _digest(meta, known))
        except ReadError as error:
            self._tell(error)
            raise
        if self._trouble is not None:
            self._trouble = None
            event(log, "store.readable")

    def _tell(self, error: ReadError) -> None:
        """Log what is wrong when it begins or changes: requests that meet the same trouble add nothing. A query that
        took too long is that request's trouble, not the store's."""
        text = str(error)
        if isinstance(error, TooSlowError) or text != self._trouble:
            event(log, "store.unreadable", level=logging.WARNING, error=text)
        if not isinstance(error, TooSlowError):
            self._trouble = text

    def close(self) -> None:
        """Close the connections of all threads."""
        self._reader.close()
