"""The database file as the one writer has it: opened, checked, migrated, watched for being removed or replaced."""

from __future__ import annotations

import logging
import os
import sqlite3
import time
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from supervisor import logs
from supervisor.errors import StoreError
from supervisor.store import adopt, backup, catalog, load, migrate, rollup
from supervisor.store.apply import Writing, write_meta
from supervisor.store.connect import BUSY_TIMEOUT_S, error_code, open_readonly, sqlite_error, writer_engine
from supervisor.store.load import Loaded
from supervisor.store.memory import Op, Snapshot

log = logging.getLogger(__name__)
_QUICK_CHECK_S = 0.5
_KEEP_OPEN = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL})
_NOT_WAL = b"\x01\x01"  # bytes 18 and 19 of a database's header (file format, 1.3.2); 2 means WAL
WRITE_ERRORS = (sqlite3.Error, SQLAlchemyError, OSError, ValueError, TypeError, ArithmeticError, LookupError)


class StoreFault(OSError):  # noqa: N818 - a fault of the store, not an error of what was to be written
    """The store can't be used now; tried again later. `str()` is the reason."""


def reason_of(error: BaseException) -> str:
    """The cause in one line, with SQLite's name of it."""
    found = sqlite_error(error)
    if found is None:
        return str(error)
    name = getattr(found, "sqlite_errorname", "")
    return f"{found} ({name})" if name else str(found)


class Session:
    """One open database, or none. Every method may raise StoreFault; `open` also StoreError."""

    def __init__(self, path: Path, scripts: Path = migrate.SCRIPTS, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self.path = path
        self._busy_timeout_s = busy_timeout_s
        self.known: dict[str, catalog.Known] = {}
        self.version = 0
        self.last_batch = ""
        self._rollups = rollup.Rollups()
        self._memory_is_true = True  # `known` and the rollups say what is on disk
        self.source = str(uuid.uuid4())
        self.snapshot: Snapshot | None = None  # the running set as last written
        self._scripts = scripts
        self._engine: Engine | None = None
        self._connection: Connection | None = None
        self._inode: tuple[int, int] | None = None
        self._side: dict[str, tuple[int, int] | None] = {}  # the side files of the connection

    # --- open and close ----------------------------------------------------------------------------------------------

    def open(self) -> Loaded:
        """Check, migrate and load. Raises StoreError for a file that must not be used, StoreFault for a store that
        can't be used now (then `look` may still be able to read it)."""
        try:
            found = self._inspect()
            if migrate.check(self.path, found, self._scripts):
                migrate.migrate(self.path, found, self._scripts)
            connection = self._connect()
            with connection.begin():
                loaded = self._take_over(connection)
        except WRITE_ERRORS as error:
            self.disconnect()
            self._refuse_damaged(error)
            raise StoreFault(reason_of(error)) from error
        return loaded

    def look(self, problem: str) -> Loaded:
        """What can be read of a database that can't be written: at best everything, else nothing."""
        try:
            if not self.path.exists():
                return Loaded(self.source, problem=problem)
            engine = create_engine("sqlite://", creator=lambda: open_readonly(self.path), poolclass=NullPool)
            with engine.connect() as connection:
                loaded = load.load(connection, self.source)
                self.known = catalog.load(connection)
        except WRITE_ERRORS as error:
            self._refuse_damaged(error)
            # ids above any that was given before: milliseconds are more than incidents
            return Loaded(self.source, max_incident_id=time.time_ns() // 1_000_000, readable=False, problem=problem)
        self.source = loaded.source
        return replace(loaded, problem=problem)

    def hurry(self, busy_timeout_s: float) -> None:
        """Wait no longer than this for a lock from now on: the supervisor is stopping."""
        self._busy_timeout_s = min(self._busy_timeout_s, busy_timeout_s)
        if self._connection is not None:
            with suppress(SQLAlchemyError, sqlite3.Error):  # then it waits longer
                _raw(self._connection).execute(f"PRAGMA busy_timeout={round(self._busy_timeout_s * 1000)}").fetchall()

    def disconnect(self) -> None:
        """Close without any ado."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(SQLAlchemyError, sqlite3.Error):  # a broken store may fail once more; we are done with it
                connection.close()

    def close(self) -> None:
        """A clean stop: everything into the file, and side files that a reader of another user needs."""
        if self._connection is None:
            return
        with suppress(SQLAlchemyError, sqlite3.Error):  # the log stays then, and is read at the next start
            _raw(self._connection).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        moved = self._moved()
        self.disconnect()
        if not moved:
            for suffix in ("-wal", "-shm"):
                with suppress(OSError):  # there already, or the disk is read-only: the unit's ExecStopPost tries again
                    os.close(os.open(f"{self.path}{suffix}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))

    def _inspect(self) -> str | None:
        """The schema of the file, None if there is none yet. Reads only: a foreign file is not touched."""
        self.path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        if not self.path.exists() or self.path.stat().st_size == 0:
            return None
        self._set_foreign_log_aside()
        with closing(open_readonly(self.path)) as raw:
            found = migrate.revision(raw, self.path)
            end = time.monotonic() + _QUICK_CHECK_S
            raw.set_progress_handler(lambda: time.monotonic() > end, 10_000)
            try:
                state = raw.execute("PRAGMA quick_check(1)").fetchone()[0]
            except sqlite3.OperationalError as error:
                if error_code(error) != sqlite3.SQLITE_INTERRUPT:
                    raise
                state = "ok"  # as far as half a second goes; the rest shows when it is read
        if state != "ok":
            raise StoreError(self._damaged(state))
        return found

    def _set_foreign_log_aside(self) -> None:
        """A log beside a file that is not in WAL mode belongs to another file: a backup was put in the place of a
        database whose supervisor was killed. SQLite would write the log's pages into the copy."""
        with self.path.open("rb") as file:
            header = file.read(20)
        log_file = Path(f"{self.path}-wal")
        if header[18:] != _NOT_WAL or not log_file.exists() or log_file.stat().st_size == 0:
            return
        aside = Path(f"{log_file}.old")
        log_file.replace(aside)
        Path(f"{self.path}-shm").unlink(missing_ok=True)
        logs.event(log, "store.foreign_log", level=logging.WARNING, path=log_file, moved_to=aside)

    def _refuse_damaged(self, error: BaseException) -> None:
        if error_code(error) == sqlite3.SQLITE_NOTADB:
            raise StoreError(
                f"{self.path} is not a SQLite database: move it away or choose another runtime.dataDir; "
                "Checkvisor never overwrites a file it does not know"
            ) from error
        if error_code(error) == sqlite3.SQLITE_CORRUPT:
            raise StoreError(self._damaged(reason_of(error))) from error

    def _damaged(self, what: str) -> str:
        return (
            f"{self.path} is damaged ({what}): restore a copy made by `checkvisor backup`, "
            "or move the file away to start with an empty history"
        )

    def _connect(self) -> Connection:
        self._engine = writer_engine(self.path, busy_timeout_s=self._busy_timeout_s)
        connection = self._connection = self._engine.connect()
        self._inode = self._stat()
        self._side = {suffix: self._stat(suffix) for suffix in ("-wal", "-shm")}
        return connection

    def _take_over(self, connection: Connection) -> Loaded:
        """Load what there is, and prove that the database can be written."""
        loaded = load.load(connection, self.source)
        self.source = loaded.source
        self._read_again(connection)
        self._memory_is_true = True
        values = {row[0]: row[1] for row in connection.exec_driver_sql("SELECT key, value FROM meta").fetchall()}
        stored = connection.exec_driver_sql("SELECT coalesce(max(version), 0) FROM target_states").scalar_one()
        self.version = max(int(values.get("version", "0")), stored)
        self.last_batch = values.get("batch", "")
        write_meta(connection, {"source": self.source, "opened_at": str(time.time_ns() // 1_000_000)})
        return loaded

    # --- write -------------------------------------------------------------------------------------------------------

    def write(self, ops: Sequence[Op], batch_id: str) -> None:
        """One transaction: everything in `ops`, or nothing. Errors of sqlite3 and of the values come through."""
        connection = self.ready()
        with connection.begin():
            if not self._memory_is_true:
                self._read_again(connection)
            self._memory_is_true = False
            writing = Writing(connection, self.known, self._rollups, self.version)
            self._rollups.begin(_raw(connection))
            if self.snapshot is not None and not writing.knows(self.snapshot):  # the file was lost and made anew
                writing.add(self.snapshot)
            for op in ops:
                writing.add(op)
            writing.finish(batch_id)
        self._memory_is_true = True
        self.known, self.version = writing.known, writing.version
        self.snapshot = writing.snapshot or self.snapshot

    def _read_again(self, connection: Connection) -> None:
        """After a rollback, or when retention dropped targets: what is on disk is true."""
        self.known = catalog.load(connection)
        self._rollups.clear()

    def forget(self) -> None:
        """Something else changed the database: read it again before the next batch."""
        self._memory_is_true = False

    # --- watch -------------------------------------------------------------------------------------------------------

    def _stat(self, suffix: str = "") -> tuple[int, int] | None:
        try:
            found = os.stat(f"{self.path}{suffix}")  # noqa: PTH116 - before every batch
        except FileNotFoundError:
            return None
        return found.st_dev, found.st_ino

    def _moved(self) -> bool:
        try:
            return self._inode is not None and self._stat() != self._inode
        except OSError:
            return True

    def ready(self) -> Connection:
        """The connection to write with: opened if need be, on the file that lies at the path now."""
        try:
            if self._connection is not None and self._stat() != self._inode:
                self._restore()
            if self._connection is None:
                self.open()
        except WRITE_ERRORS as error:
            raise StoreFault(reason_of(error)) from error
        except StoreError as error:
            raise StoreFault(str(error)) from error
        assert self._connection is not None
        return self._connection

    def failed(self, error: BaseException) -> None:
        """After a fault: give the connection up, unless it only has to wait, or holds the only copy of the data."""
        if error_code(error) not in _KEEP_OPEN and not self._moved():
            self.disconnect()

    def _restore(self) -> None:
        """The file was removed or replaced under us. What we have open is still whole: write it back to its place, or
        carry what must not be lost over to the new file."""
        assert self._connection is not None
        raw = _raw(self._connection)
        if self._stat() is None:
            logs.event(log, "store.removed", level=logging.ERROR, path=self.path, action="written back")
            part = self.path.with_name(f".{self.path.name}.part")
            part.unlink(missing_ok=True)
            backup.copy(raw, part)
            self._unlink_side_files()
            part.replace(self.path)
            self.disconnect()
            self.open()
            return
        logs.event(log, "store.replaced", level=logging.ERROR, path=self.path, action="states carried over")
        self._unlink_side_files()
        found = self._inspect()
        if found is None:
            raise StoreError(f"{self.path} was replaced by an empty file: remove it, and it is written back")
        if migrate.check(self.path, found, self._scripts):
            migrate.migrate(self.path, found, self._scripts)
        engine = writer_engine(self.path)
        with engine.connect() as connection, connection.begin():
            adopt.carry_over(raw, connection, self.source, self.path)
        self.disconnect()
        self.open()

    def _unlink_side_files(self) -> None:
        """Those of the file that was here: SQLite would take them for the new file's. What is open stays usable."""
        for suffix, inode in self._side.items():
            if inode is not None and self._stat(suffix) == inode:
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)


def _raw(connection: Connection) -> sqlite3.Connection:
    raw = connection.connection.driver_connection
    assert isinstance(raw, sqlite3.Connection)
    return raw
