"""Where a backup may be written, and where it would do harm."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor.errors import StoreError
from supervisor.store.backup import backup
from supervisor.store.connect import FILE_NAME
from supervisor.store.lock import HOLDER
from tests.store.test_upkeep import old_database


@pytest.mark.parametrize(
    "name", [f"{FILE_NAME}-wal", f"{FILE_NAME}-shm", f"{FILE_NAME}-journal", "checkvisor.seq", HOLDER]
)
def test_a_backup_never_takes_the_place_of_a_file_of_the_supervisor(tmp_path: Path, name: str) -> None:
    """The log under a running supervisor holds what the database does not have yet: a copy over it would lose that."""
    path = old_database(tmp_path / "data")
    (tmp_path / "link").symlink_to(tmp_path / "data")
    to = path.with_name(name)
    to.write_bytes(b"in use")
    for way in (to, tmp_path / "link" / name):
        with pytest.raises(StoreError, match="belongs to the database"):
            backup(path, way)
    assert to.read_bytes() == b"in use"
    to.unlink()
    backup(path, path.with_name(f"{FILE_NAME}-2026-11-30"))
    backup(path, tmp_path / name)  # elsewhere it is a name like any other


def test_a_backup_replaces_only_files(tmp_path: Path) -> None:
    """As root a copy to /dev/null would put a file in the place of the device."""
    path = old_database(tmp_path / "data")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(StoreError, match=f"{name} is no regular file: name the file to write"):
            backup(path, tmp_path / name)
    assert (tmp_path / "pipe").is_fifo()


def test_a_backup_may_have_a_long_name_but_no_longer_than_the_system_allows(tmp_path: Path) -> None:
    """The temporary name is never the one that is too long."""
    path = old_database(tmp_path / "data")
    backup(path, tmp_path / ("x" * 255))
    assert (tmp_path / ("x" * 255)).is_file()
    with pytest.raises(StoreError, match=r"failed: File name too long$"):
        backup(path, tmp_path / ("x" * 256))
    assert {one.name for one in tmp_path.iterdir()} == {"data", "x" * 255}
