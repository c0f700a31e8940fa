"""A database file that was replaced under the supervisor by a copy of itself: what the copy does not know is kept.

States, incidents, counters, event numbers and the webhook queue come from the file that is still open, so nothing is
told twice and no event number is used twice. Results and rollups stay those of the copy: whoever put it there wants it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from supervisor.errors import StoreError

_WHOLE = ("webhook_streams", "webhook_events", "webhook_cursors", "webhook_endpoints", "webhook_dead_letters")


def carry_over(old: sqlite3.Connection, new: Connection, source: str, path: Path) -> None:
    """Copy into `new`, inside its transaction. A file with another source is refused."""
    found = new.exec_driver_sql("SELECT value FROM meta WHERE key = 'source'").scalar_one_or_none()
    if found is not None and found != source:
        raise StoreError(
            f"{path} was replaced by the database of another installation: restart the supervisor to work with it, "
            "or put the former file back"
        )
    _copy(old, new, "meta")
    for table in _WHOLE:
        _copy(old, new, table)
    ids = _targets(old, new)
    for table in ("target_states", "incidents"):
        _copy(old, new, table, ids)


def _rows(old: sqlite3.Connection, table: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    cursor = old.execute(f"SELECT * FROM {table}")  # noqa: S608 - constants
    return [column[0] for column in cursor.description], cursor.fetchall()


def _copy(old: sqlite3.Connection, new: Connection, table: str, ids: dict[int, int] | None = None) -> None:
    names, rows = _rows(old, table)
    if ids is not None:
        place = names.index("target_id")
        rows = [(*row[:place], ids[row[place]], *row[place + 1 :]) for row in rows]
    if rows:
        marks = ", ".join("?" * len(names))
        new.exec_driver_sql(f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)  # noqa: S608


def _targets(old: sqlite3.Connection, new: Connection) -> dict[int, int]:
    """Make every target of the old file known in the new one; old row id -> new row id."""
    names, rows = _rows(old, "targets")
    kept = [name for name in names if name != "id"]
    changes = ", ".join(f"{name} = excluded.{name}" for name in kept if name != "key")
    values = [tuple(value for name, value in zip(names, row, strict=True) if name != "id") for row in rows]
    if values:
        new.exec_driver_sql(
            f"INSERT INTO targets ({', '.join(kept)}) VALUES ({', '.join('?' * len(kept))})"  # noqa: S608
            f" ON CONFLICT (key) DO UPDATE SET {changes}",
            values,
        )
    new_ids = {row[0]: row[1] for row in new.exec_driver_sql("SELECT key, id FROM targets").fetchall()}
    place, key = names.index("id"), names.index("key")
    return {row[place]: new_ids[row[key]] for row in rows}
