"""supervisor.store.connect.Reader: reads in every state of the writer, as another user, and never writes (W05, W07)."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.store.backup import backup
from supervisor.store.connect import FILE_NAME, NoDatabaseError, Reader, ReadError, TooSlowError, UnreadableError
from tests.store.harness import count, make_feeder, until

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the reader runs as another user")
OTHER_USER = 65533


def results(reader: Reader) -> tuple[int, bool]:
    """How many results the reader sees, and whether it calls them stale."""
    with reader.read() as reading:
        number = reading.connection.exec_driver_sql("SELECT count(*) FROM check_results").scalar_one()
        return int(number), reading.stale


@pytest.fixture
def place() -> Iterator[Path]:
    """A data directory that another user can reach, as deploy sets it up: group may read and enter, not write.

    Not under pytest's own directory: every run of pytest closes that to other users again.
    """
    parent = Path(tempfile.mkdtemp(prefix="checkvisor-test-"))
    os.chmod(parent, 0o755)
    directory = parent / "data"
    directory.mkdir()
    os.chmod(directory, 0o750)
    if os.geteuid() == 0:
        os.chown(directory, 0, OTHER_USER)
    yield directory
    shutil.rmtree(parent)


def as_other_user(action: Callable[[], object]) -> str:
    """Run in a child with the reader's user and the writer's group; what it returns or raises, as text."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(OTHER_USER)
            os.setuid(OTHER_USER)
            try:
                text = repr(action())
            except ReadError as error:
                text = f"{type(error).__name__}: {error}"
            os.write(there, text.encode())
        finally:
            os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def read_as_other_user(directory: Path) -> str:
    """A fresh reader, one request, and what lies in the directory afterwards is what lay there before."""
    before = sorted(os.listdir(directory))

    def action() -> tuple[int, bool]:
        reader = Reader(directory / FILE_NAME)
        try:
            return results(reader)
        finally:
            reader.close()

    text = as_other_user(action)
    assert sorted(os.listdir(directory)) == before
    return text


def give_to_group(directory: Path) -> None:
    """What UMask=0027 and the unit's group do."""
    for name in os.listdir(directory):
        os.chmod(directory / name, 0o640)
        os.chown(directory / name, 0, OTHER_USER)


WRITER = """
    import sys, time
    from pathlib import Path
    from tests.store.harness import make_feeder
    feeder = make_feeder(Path(sys.argv[1]))
    feeder.open()
    feeder.feed("a", "uuu")
    while feeder.writer.stats().queued:
        time.sleep(0.01)
    print("written", flush=True)
    time.sleep(60)
"""


def start_writer(directory: Path) -> subprocess.Popen[bytes]:
    """A writer process that has written 3 results and stays."""
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(WRITER), str(directory)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"written\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


# --- as another user -------------------------------------------------------------------------------------------------


@ROOT
def test_w05_another_user_reads_in_every_state(place: Path) -> None:
    """Alive, killed, stopped cleanly, without side files: always the data, never a file of the reader's."""
    assert "NoDatabaseError" in read_as_other_user(place)
    process = start_writer(place)
    give_to_group(place)
    assert read_as_other_user(place) == "(3, False)"
    end(process)
    assert read_as_other_user(place) == "(3, False)"
    feeder = make_feeder(place)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    give_to_group(place)
    assert read_as_other_user(place) == "(4, False)"
    os.unlink(place / f"{FILE_NAME}-wal")
    os.unlink(place / f"{FILE_NAME}-shm")
    assert read_as_other_user(place) == "(4, True)"
    feeder = make_feeder(place)
    feeder.open()  # and the supervisor starts again
    feeder.feed("a", "u")
    feeder.stop()
    assert count(place) == 5


@ROOT
def test_w05_a_directory_that_may_not_be_entered_is_said(place: Path) -> None:
    """No right to the directory, none to the file: unreadable, with the reason."""
    feeder = make_feeder(place)
    feeder.open()
    feeder.stop()
    give_to_group(place)
    os.chmod(place / FILE_NAME, 0o600)
    assert read_as_other_user(place).startswith("UnreadableError")
    os.chmod(place, 0o700)
    assert "Permission denied" in read_as_other_user(place)


@ROOT
def test_w05_a_read_only_mount(place: Path) -> None:
    """The unit's ReadOnlyPaths: a bind mount that nobody can write."""
    process = start_writer(place)
    give_to_group(place)
    mount = place.parent / "mounted"
    mount.mkdir()
    tried = subprocess.run(["mount", "--bind", "-o", "ro", str(place), str(mount)], capture_output=True)
    try:
        if tried.returncode:
            pytest.skip(f"can't bind a mount here: {tried.stderr.decode().strip()}")
        subprocess.run(["mount", "-o", "remount,bind,ro", str(mount)], check=True)
        assert read_as_other_user(mount) == "(3, False)"
        end(process)
        assert read_as_other_user(mount) == "(3, False)"
    finally:
        if process.poll() is None:
            end(process)
        subprocess.run(["umount", "-l", str(mount)], check=False, capture_output=True)


# --- one user --------------------------------------------------------------------------------------------------------


def test_w07_no_database_is_told_from_one_that_cannot_be_read(tmp_path: Path) -> None:
    """No file, no directory, an empty file, no tables: `no database yet`. Junk: unreadable. Nothing is created."""
    reader = Reader(tmp_path / FILE_NAME)
    with pytest.raises(NoDatabaseError):
        results(reader)
    with pytest.raises(NoDatabaseError):
        results(Reader(tmp_path / "nowhere" / FILE_NAME))
    assert os.listdir(tmp_path) == []
    (tmp_path / FILE_NAME).touch()
    with pytest.raises(NoDatabaseError, match="starting"):
        results(reader)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as raw, raw:
        raw.execute("CREATE TABLE other (id)")
    with pytest.raises(NoDatabaseError, match="no tables yet"):
        results(reader)
    (tmp_path / FILE_NAME).write_bytes(b"junk" * 4096)
    with pytest.raises(UnreadableError, match="not a sound Checkvisor database"):
        results(reader)
    reader.close()


def test_a_live_writer_is_seen_at_once(tmp_path: Path) -> None:
    """One connection for many requests; each sees what is committed."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    reader = Reader(tmp_path / FILE_NAME)
    for number in range(1, 6):
        feeder.feed("a", "u")
        until(lambda n=number: results(reader) == (n, False))  # type: ignore[misc]
    assert len(reader._open) == 1
    feeder.stop()
    assert results(reader) == (5, False)
    reader.close()


def test_a_restart_of_the_writer_is_followed(tmp_path: Path) -> None:
    """Stopped and started under an open reader: no stale view, no error."""
    reader = Reader(tmp_path / FILE_NAME)
    for round_ in range(1, 4):
        feeder = make_feeder(tmp_path)
        feeder.open()
        feeder.feed("a", "u")
        until(lambda n=round_: results(reader)[0] == n)  # type: ignore[misc]
        feeder.stop()
        assert results(reader)[0] == round_
    reader.close()


def test_a_replaced_file_is_noticed(tmp_path: Path) -> None:
    """A restored copy is a new inode."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    reader = Reader(tmp_path / FILE_NAME)
    assert results(reader)[0] == 1
    backup(tmp_path / FILE_NAME, tmp_path / "copy.db")
    with closing(sqlite3.connect(tmp_path / "copy.db")) as raw, raw:
        raw.execute("DELETE FROM check_results")
    os.replace(tmp_path / "copy.db", tmp_path / FILE_NAME)
    assert results(reader)[0] == 0
    os.unlink(tmp_path / FILE_NAME)
    with pytest.raises(NoDatabaseError):
        results(reader)
    reader.close()


def test_a_log_without_its_index_is_not_touched(tmp_path: Path) -> None:
    """Opening would create the index as the reader's user."""
    process = start_writer(tmp_path)
    end(process)
    os.unlink(tmp_path / f"{FILE_NAME}-shm")
    with pytest.raises(UnreadableError, match="start the supervisor"):
        results(Reader(tmp_path / FILE_NAME))
    assert not (tmp_path / f"{FILE_NAME}-shm").exists()


def test_a_reader_cannot_write(tmp_path: Path) -> None:
    """query_only and mode=ro: an INSERT is refused."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    reader = Reader(tmp_path / FILE_NAME)
    with pytest.raises(UnreadableError, match="readonly"), reader.read() as reading:
        reading.connection.exec_driver_sql("INSERT INTO meta VALUES ('a', 'b')")
    reader.close()
    feeder.stop()


def test_a_query_ends_at_the_deadline(tmp_path: Path) -> None:
    """A runaway query costs its request one second, and the next one works."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    reader = Reader(tmp_path / FILE_NAME, deadline_s=0.2)
    endless = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c"
    started = time.monotonic()
    with pytest.raises(TooSlowError, match="longer than"), reader.read() as reading:
        reading.connection.exec_driver_sql(endless).fetchall()
    assert time.monotonic() - started < 2
    assert results(reader)[0] == 0
    reader.close()
    feeder.stop()


def test_a_version_this_program_does_not_know(tmp_path: Path) -> None:
    """Neither an older nor a newer schema is guessed at."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.stop()
    reader = Reader(tmp_path / FILE_NAME)
    for version, word in (("0999", "newer"), ("0000", "older")):
        with closing(sqlite3.connect(tmp_path / FILE_NAME)) as raw, raw:
            raw.execute("UPDATE alembic_version SET version_num = ?", (version,))
        with pytest.raises(UnreadableError, match=word):
            results(reader)
    reader.close()


def test_many_threads_read(tmp_path: Path) -> None:
    """One connection a thread; all are closed at the end."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u" * 10)
    until(lambda: count(tmp_path) == 10)
    reader = Reader(tmp_path / FILE_NAME)
    seen: list[int] = []

    def work() -> None:
        for _ in range(50):
            seen.append(results(reader)[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == [10] * 200
    feeder.stop()
    reader.close()
    assert reader._open == []


def test_paths_with_signs_of_a_uri(tmp_path: Path) -> None:
    """`?`, `#`, `%` and blanks in the directory's name mean nothing."""
    directory = tmp_path / "a?b#c%20 d"
    feeder = make_feeder(directory)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    reader = Reader(directory / FILE_NAME)
    assert results(reader)[0] == 1
    reader.close()
    shutil.rmtree(directory)
