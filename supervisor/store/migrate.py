"""Brings a database to this program's schema: Alembic's scripts, run from code in one transaction.

A file that already has tables is copied first (`checkvisor-before-0002.db` beside it). A script that fails leaves the
old schema, whole. Newer and foreign files are refused here.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from supervisor import logs
from supervisor.errors import StoreError
from supervisor.store import backup
from supervisor.store.connect import writer_engine

log = logging.getLogger(__name__)
SCRIPTS = Path(__file__).with_name("migrations")
_MOVE_AWAY = "move it away or choose another runtime.dataDir; Checkvisor never overwrites a file it does not know"


def revision(connection: sqlite3.Connection, path: Path) -> str | None:
    """The schema a file has, None of an empty one. A file with tables that are not ours is refused."""
    names = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()}
    if "alembic_version" in names and "check_results" in names:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        if row is not None:
            return str(row[0])
    if names:
        shown = ", ".join(sorted(names)[:3])
        raise StoreError(f"{path} is a database of another program (it has tables {shown}): {_MOVE_AWAY}")
    return None


def check(path: Path, found: str | None, scripts: Path = SCRIPTS) -> bool:
    """Whether the schema `found` must be migrated. Raises StoreError when this program does not know it."""
    directory = ScriptDirectory.from_config(_config(scripts))
    head = directory.get_current_head()
    if found is None or found == head:
        return found is None
    try:
        directory.get_revision(found)
    except CommandError as error:
        raise StoreError(
            f"{path} was written by a newer Checkvisor (schema {found}, this version knows up to {head}): "
            "install that version again, or restore the copy that its upgrade made"
        ) from error
    return True


def migrate(path: Path, found: str | None, scripts: Path = SCRIPTS) -> None:
    """Bring the file from schema `found` to the newest. Faults of the store come through as sqlite3 or OS errors."""
    config = _config(scripts)
    head = ScriptDirectory.from_config(config).get_current_head()
    engine = writer_engine(path, foreign_keys=False)
    with engine.connect() as connection:
        if found is not None:
            raw: Any = connection.connection.driver_connection
            copy = _copy(raw, path, str(head))
            logs.event(log, "store.migrating", path=path, from_schema=found, to_schema=head, copy=copy)
        with connection.begin():
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
            _check_references(connection, path)
    logs.event(log, "store.migrated", path=path, schema=head)


def _config(scripts: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _copy(raw: sqlite3.Connection, path: Path, head: str) -> Path:
    """The database as it was, under its own name. A copy of that name from an earlier try is replaced when whole."""
    to = path.with_name(f"{path.stem}-before-{head}{path.suffix}")
    part = to.with_name(f".{to.name}.part")
    part.unlink(missing_ok=True)
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
    backup.copy(raw, part)
    with closing(sqlite3.connect(part)) as made:
        made.execute("PRAGMA journal_mode=DELETE").fetchone()
    part.replace(to)
    return to


def _check_references(connection: Connection, path: Path) -> None:
    """foreign_keys is off while tables are rebuilt: look afterwards, before the commit."""
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
    if broken:
        raise StoreError(f"the migration of {path} would leave {len(broken)} rows without their target: not done")
