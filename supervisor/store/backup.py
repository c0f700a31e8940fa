"""`checkvisor backup FILE`: a consistent copy of a database that is in use, in one step."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from supervisor.errors import StoreError
from supervisor.store.connect import open_readonly
from supervisor.store.lock import HOLDER

_OWN = (HOLDER, "checkvisor.seq", "control.sock")  # what else the supervisor keeps beside its database


def copy(source: sqlite3.Connection, to: Path) -> None:
    """Copy a database into a new file, in one step: small steps never end beside a writer."""
    with closing(sqlite3.connect(to)) as target:
        source.backup(target, pages=-1)


def backup(database: Path, to: Path) -> None:
    """Copy `database` to `to`, checked, without `meta.source`: a restored copy gets a new source and so never uses an
    event id twice. The copy appears under its name only when it is whole. Raises StoreError with a sentence."""
    part = to.parent / f".backup.{os.getpid()}.part"  # not made of the name, which may be as long as a name can be
    try:
        _check(database, to)
        _fill(part, database)
        part.replace(to)
        _sync_directory(to.parent)
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise StoreError(f"the backup of {database} to {to} failed: {reason}") from error
    finally:
        for leftover in (part, Path(f"{part}-wal"), Path(f"{part}-shm"), Path(f"{part}-journal")):
            with suppress(OSError):  # it is not there when all went well, nor where nothing can be written
                leftover.unlink()


def _check(database: Path, to: Path) -> None:
    """Refuse what can't be copied, and places where a copy would do harm."""
    if not database.exists():
        raise StoreError(f"there is no database {database}: nothing to back up")
    if to.is_dir():
        raise StoreError(f"{to} is a directory: name the file to write")
    if to.exists() and to.samefile(database):
        raise StoreError(f"{to} is the database itself: name another file")
    if to.exists() and not to.is_file():
        raise StoreError(f"{to} is no regular file: name the file to write")
    beside = to.parent.is_dir() and to.parent.samefile(database.parent)
    if beside and to.name in (*_OWN, *(f"{database.name}-{suffix}" for suffix in ("wal", "shm", "journal"))):
        raise StoreError(f"{to} belongs to the database: name another file")


def _fill(part: Path, database: Path) -> None:
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
    with closing(open_readonly(database)) as source:
        copy(source, part)
    with closing(sqlite3.connect(part, isolation_level=None)) as made:
        found = made.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise StoreError(f"{database} is damaged: {found}; the backup was not kept")
        made.execute("PRAGMA journal_mode=DELETE").fetchone()  # one file, complete in itself
        made.execute("DELETE FROM meta WHERE key = 'source'")
    with part.open("rb") as file:
        os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
