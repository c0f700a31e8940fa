"""The store fails in every way it can: nothing is lost silently, and no failure of it is a target's (W01, W06, S18)."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from supervisor import state
from supervisor.errors import StoreError
from supervisor.model import CheckFailure, Item
from supervisor.store import outbox
from supervisor.store.backup import backup
from supervisor.store.connect import FILE_NAME, writer_engine
from supervisor.store.write import Writer
from tests.make import make_result, make_target
from tests.store.harness import NOW, Feeder, count, make_feeder, query, until


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Another process's write transaction."""
    with closing(sqlite3.connect(directory / FILE_NAME, isolation_level=None)) as raw:
        raw.execute("BEGIN IMMEDIATE")
        yield
        raw.execute("ROLLBACK")


def fill(filler: Path) -> None:
    """Write until the disk is full."""
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, b"x" * 4096)
    except OSError as error:
        assert error.errno == errno.ENOSPC  # noqa: PT017
    finally:
        os.close(descriptor)


def degraded(feeder: Feeder) -> bool:
    return feeder.writer.stats().degraded_since is not None


def test_w01_a_lock_of_ten_seconds_is_no_outage(tmp_path: Path) -> None:
    """W01: results wait in memory, `degraded` shows it, all are written afterwards, put never blocks."""
    feeder = make_feeder(tmp_path, busy_timeout_s=5)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path) == 1)
    with locked(tmp_path):
        started = time.monotonic()
        feeder.feed("a", "uffuu")
        assert time.monotonic() - started < 0.5
        until(lambda: degraded(feeder), 12, "degraded mode")
        stats = feeder.writer.stats()
        assert stats.queued == 5
        assert "SQLITE_BUSY" in (stats.last_error or "")
    until(lambda: not degraded(feeder), what="recovery")
    feeder.stop()
    assert count(tmp_path) == 6
    assert feeder.writer.stats().lost == 0
    assert query(tmp_path, "SELECT count(*) FROM check_results WHERE success = 0") == [(0,)]


def test_w02_write_transactions_start_immediate(tmp_path: Path) -> None:
    """W02: the writer takes the lock before it reads, so another writer waits instead of failing with BUSY_SNAPSHOT."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    engine = writer_engine(tmp_path / FILE_NAME)
    with engine.connect() as connection, connection.begin():
        connection.exec_driver_sql("SELECT count(*) FROM meta").fetchall()
        with (
            closing(sqlite3.connect(tmp_path / FILE_NAME, timeout=0.05)) as other,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            other.execute("INSERT INTO meta VALUES ('x', 'y')")
        connection.exec_driver_sql("INSERT INTO meta VALUES ('x', 'z')")
    assert query(tmp_path, "SELECT value FROM meta WHERE key = 'x'") == [("z",)]


def test_w15_every_transaction_is_synchronous_full(tmp_path: Path) -> None:
    """W15: FULL and 5 s of patience on the writer's connection."""
    with writer_engine(tmp_path / FILE_NAME).connect() as connection:
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar_one() == 2
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 5000
        assert connection.exec_driver_sql("PRAGMA journal_size_limit").scalar_one() == 64 * 1024 * 1024


def test_w03_the_log_shrinks_when_the_reader_is_done(tmp_path: Path) -> None:
    """W03: a long reader pins the WAL; afterwards it is reset, and its size is always shown."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path) == 1)
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM meta").fetchall()
        feeder.feed("a", "u" * 3000)
        until(lambda: count(tmp_path) == 3001)
        assert feeder.writer.stats().wal_bytes > 100_000
    feeder.stop()
    assert os.path.getsize(tmp_path / f"{FILE_NAME}-wal") == 0


def test_w06_a_removed_database_is_written_back(tmp_path: Path) -> None:
    """W06: what the supervisor has open is still whole; it is put back with all its history."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "uff", events=True)
    until(lambda: count(tmp_path) == 3)
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    feeder.feed("a", "fuu", events=True)
    until(lambda: (tmp_path / FILE_NAME).exists() and count(tmp_path) == 6, what="the file to be back")
    feeder.feed("b", "u")
    feeder.stop()
    assert count(tmp_path) == 7
    assert query(tmp_path, "PRAGMA integrity_check") == [("ok",)]
    assert query(tmp_path, "SELECT seq FROM webhook_events ORDER BY seq") == [(1,), (2,)]
    assert Writer(tmp_path).open().states["a"] == feeder.states["a"]


def test_w06_a_removed_directory_is_a_fault_until_it_is_back(tmp_path: Path) -> None:
    """Nothing is written into an unlinked file; everything is there when the directory is."""
    directory = tmp_path / "data"
    feeder = make_feeder(directory)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(directory) == 1)
    shutil.rmtree(directory)
    feeder.feed("a", "uu")
    until(lambda: degraded(feeder), what="degraded mode")
    assert feeder.writer.stats().queued == 2
    directory.mkdir()
    until(lambda: not degraded(feeder), what="recovery")
    feeder.stop()
    assert count(directory) == 3


def test_w06_a_restored_copy_is_adopted_with_the_present_states(tmp_path: Path) -> None:
    """A backup moved into place under the supervisor: numbers go on, states are the present ones."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "uff", events=True)
    until(lambda: count(tmp_path) == 3)
    backup(tmp_path / FILE_NAME, tmp_path / "copy.db")
    feeder.feed("a", "uuff", events=True)
    feeder.feed("b", "uff", events=True)
    until(lambda: count(tmp_path) == 10)
    os.replace(tmp_path / "copy.db", tmp_path / FILE_NAME)
    feeder.feed("a", "f", events=True)
    until(lambda: feeder.writer.stats().queued == 0, what="the copy to be used")
    feeder.stop()
    assert count(tmp_path) == 4
    assert query(tmp_path, "SELECT stream, last_seq FROM webhook_streams ORDER BY stream") == [("a", 3), ("b", 1)]
    loaded = Writer(tmp_path).open()
    assert loaded.states == feeder.states
    assert feeder.loaded is not None
    assert loaded.source == feeder.loaded.source


def test_w06_the_database_of_another_installation_is_not_mixed_in(tmp_path: Path) -> None:
    """It has another source: the writer waits and says what to do."""
    other = make_feeder(tmp_path / "other", "z")
    other.open()
    other.feed("z", "u")
    other.stop()
    feeder = make_feeder(tmp_path / "mine")
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path / "mine") == 1)
    os.replace(tmp_path / "mine" / FILE_NAME, tmp_path / "kept.db")
    shutil.copy(tmp_path / "other" / FILE_NAME, tmp_path / "mine" / FILE_NAME)
    feeder.feed("a", "u")
    until(lambda: degraded(feeder), what="degraded mode")
    assert "another installation" in (feeder.writer.stats().last_error or "")
    os.replace(tmp_path / "kept.db", tmp_path / "mine" / FILE_NAME)
    until(lambda: not degraded(feeder), what="recovery")
    feeder.stop()
    assert count(tmp_path / "mine") == 2
    assert count(tmp_path / "other") == 1


def test_s18_one_error_does_not_end_the_writing(tmp_path: Path) -> None:
    """S18: an OperationalError in the result's way (a trigger that raises) costs that row, never the rest."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path) == 1)
    with closing(sqlite3.connect(tmp_path / FILE_NAME, timeout=10)) as raw, raw:
        raw.execute(
            "CREATE TRIGGER bad BEFORE INSERT ON check_results WHEN new.duration_ms = 66"
            " BEGIN SELECT raise(ABORT, 'no such function'); END"
        )
    for n in range(100):
        feeder.feed("a", "u", duration_ms=66.0 if n == 50 else 1.0)
    feeder.stop()
    assert count(tmp_path) == 101
    [(failure,)] = query(tmp_path, "SELECT failure FROM check_results WHERE matched = 0")
    assert '"path":"store.result"' in failure
    assert feeder.writer.stats().poisoned == 1
    assert not degraded(feeder)


@pytest.mark.parametrize(
    "poison",
    [
        {"status_detail": "\ud800"},
        {"timestamp_ms": 1 << 70},
        {"failure": CheckFailure("mismatch", "status", "expect.status", "lone \udc80 surrogate")},
    ],
    ids=["surrogate", "integer beyond 64 bits", "surrogate in failure"],
)
def test_e38_a_poison_result_becomes_an_internal_error(tmp_path: Path, poison: dict[str, object]) -> None:
    """Text and numbers that SQLite refuses: one row is replaced, logged and counted; neighbours are written."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("b", "uu")
    fields: dict[str, object] = {"target_id": "a"} | poison
    result = make_result("failure" not in poison, **fields)
    feeder.put(result, events=True)
    feeder.feed("b", "uu")
    feeder.stop()
    assert count(tmp_path) == 5
    rows = query(tmp_path, "SELECT failure FROM check_results WHERE success = 0")
    assert len(rows) == 1
    assert '"phase":"internal"' in rows[0][0]
    assert feeder.writer.stats().poisoned == 1


def test_a_poison_incident_is_cleaned(tmp_path: Path) -> None:
    """The text sits in incident and state too."""
    feeder = make_feeder(tmp_path, policy=state.Policy(1, 1))
    feeder.open()
    feeder.put(feeder.result("a", "f", failure=CheckFailure("mismatch", "stdout", "p", "x\ud800")), events=True)
    feeder.stop()
    [(first,)] = query(tmp_path, "SELECT first_failure FROM incidents")
    assert "\\\\ud800" in first
    assert query(tmp_path, "SELECT count(*) FROM webhook_events") == [(1,)]


def test_a_poison_outcome_is_logged_and_lets_its_delivery_go_on(tmp_path: Path) -> None:
    """The thread that waits for the commit is told; other outcomes are written."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    told: list[str] = []
    bad = outbox.DeliveryOutcome(cursor=outbox.Cursor("a", "ops", 1 << 70))
    good = outbox.DeliveryOutcome(cursor=outbox.Cursor("a", "ops", 7))
    feeder.writer.put_outcome(bad, lambda: told.append("bad"))
    feeder.writer.put_outcome(good, lambda: told.append("good"))
    until(lambda: len(told) == 2)
    feeder.stop()
    assert query(tmp_path, "SELECT acked_seq FROM webhook_cursors") == [(7,)]


# --- bounded memory --------------------------------------------------------------------------------------------------


def test_overflow_drops_the_oldest_results_without_event_and_counts_them(tmp_path: Path) -> None:
    """Memory stays bounded; states, incidents and events are right afterwards; lost is counted per target."""
    feeder = make_feeder(tmp_path, limit=50)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path) == 1)
    with locked(tmp_path):
        feeder.feed("b", "uff", events=True)  # an event that stays
        feeder.feed("a", "ff" + "uu" + "ff" + "uu" + "u" * 200)  # incidents without an event
        until(lambda: degraded(feeder), 12, "degraded mode")
        until(lambda: feeder.writer.stats().queued <= 50, what="the overflow")
        extra = [Item(make_result(target_id="a", timestamp_ms=feeder.now), feeder.states["a"], "a")]
        while feeder.writer.put(extra[0]):  # True as long as a try to write is under way
            assert len(extra) < 60
            extra.append(extra[0])
    until(lambda: not degraded(feeder), what="recovery")
    feeder.stop()
    lost = feeder.writer.stats().lost
    assert lost > 100
    assert count(tmp_path) + lost == 1 + 3 + 208 + len(extra)
    assert query(tmp_path, "SELECT sum(lost_total) FROM target_states") == [(lost,)]
    assert query(tmp_path, "SELECT sum(lost) FROM rollups GROUP BY step") == [(lost,), (lost,)]
    assert query(tmp_path, "SELECT count(*), count(resolved_at) FROM incidents") == [(3, 2)]
    assert query(tmp_path, "SELECT count(*) FROM webhook_events") == [(1,)]
    assert Writer(tmp_path).open().states == feeder.states


def test_results_with_events_never_overflow(tmp_path: Path) -> None:
    """W18, W19: every event is kept; `full` tells the loop which stream has to wait."""
    feeder = make_feeder(tmp_path, "a", "b", "c", limit=6, policy=state.Policy(1, 1))
    feeder.open()
    feeder.feed("c", "u")
    until(lambda: count(tmp_path) == 1)
    with locked(tmp_path):
        feeder.feed("a", "fufu", events=True)
        assert not feeder.writer.full("a")
        feeder.feed("b", "fu", events=True)
        assert feeder.writer.full("a")
        assert not feeder.writer.full("b")
        assert not feeder.writer.full("c")
        feeder.feed("c", "uuuu")
        until(lambda: feeder.writer.stats().queued <= 10, what="the overflow")
    feeder.stop()
    assert query(tmp_path, "SELECT count(*) FROM webhook_events") == [(6,)]
    assert query(tmp_path, "SELECT count(*) FROM check_results WHERE matched = 0") == [(3,)]


def test_missed_slots_during_a_fault_are_not_forgotten(tmp_path: Path) -> None:
    """Counts wait too, added up per hour."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path) == 1)
    with locked(tmp_path):
        for n in range(100):
            feeder.writer.put_missed("a", NOW + n * 60_000)
        until(lambda: degraded(feeder), 12)
    feeder.stop()
    assert query(tmp_path, "SELECT missed_total FROM target_states ORDER BY target_id") == [(100,), (0,)]


# --- start -----------------------------------------------------------------------------------------------------------


def test_start_with_a_locked_database(tmp_path: Path) -> None:
    """`open` reads what it can, says why it can't write, and the writer recovers by itself."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "uff", events=True)
    feeder.stop()
    again = make_feeder(tmp_path)
    with locked(tmp_path):
        loaded = again.open()
        assert loaded.problem is not None
        assert loaded.readable
        assert loaded.states == feeder.states
        assert loaded.last_seq == {"a": 1}
        again.feed("a", "f")
        assert degraded(again)
    until(lambda: not degraded(again), what="recovery")
    again.stop()
    assert count(tmp_path) == 4
    assert query(tmp_path, "SELECT failures FROM incidents") == [(3,)]


def test_start_with_a_database_that_cannot_be_read(tmp_path: Path) -> None:
    """Locked whole: states start anew, ids stay unique, the forgotten incident ends when the store is back."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "uff")
    feeder.stop()
    again = make_feeder(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)) as raw:
        raw.execute("PRAGMA locking_mode=EXCLUSIVE")
        raw.execute("BEGIN EXCLUSIVE")
        loaded = again.open()
        assert loaded.problem is not None
        assert not loaded.readable
        assert loaded.max_incident_id > 1_700_000_000_000
        again.feed("a", "ff")
        raw.execute("ROLLBACK")
    until(lambda: not degraded(again), what="recovery")
    again.stop()
    rows = query(tmp_path, "SELECT id, resolved_at IS NULL FROM incidents ORDER BY id")
    assert rows[0] == (1, 0)
    assert rows[1][0] > 1_700_000_000_000
    assert len(rows) == 2
    assert rows[1][1] == 1
    assert again.loaded is not None
    assert query(tmp_path, "SELECT count(*) FROM meta WHERE key = 'source'") == [(1,)]


def test_w07_junk_is_refused_and_left_alone(tmp_path: Path) -> None:
    """W07: a file that is no database ends the start with a sentence, and stays as it is."""
    path = tmp_path / FILE_NAME
    path.write_bytes(b"this is not a database, it is somebody's diary" * 200)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is not a SQLite database: move it away"):
        Writer(tmp_path).open()
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == [FILE_NAME]


def test_a_foreign_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    """Another program's tables."""
    path = tmp_path / FILE_NAME
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("CREATE TABLE monitor (id)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match=r"another program \(it has tables monitor\)"):
        Writer(tmp_path).open()
    assert path.read_bytes() == before


def test_a_newer_database_is_refused(tmp_path: Path) -> None:
    """A schema this version does not know."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.stop()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as raw, raw:
        raw.execute("UPDATE alembic_version SET version_num = '0999'")
    with pytest.raises(StoreError, match="newer Checkvisor \\(schema 0999, this version knows up to 0002\\)"):
        Writer(tmp_path).open()


@pytest.mark.parametrize("damage", ["middle", "cut"])
def test_a_corrupt_database_is_refused(tmp_path: Path, damage: str) -> None:
    """Overwritten or cut: the sentence says what to do."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u" * 500)
    feeder.stop()
    path = tmp_path / FILE_NAME
    content = path.read_bytes()
    if damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    else:
        path.write_bytes(content[:4096] + os.urandom(len(content) - 8192) + content[-4096:])
    with pytest.raises(StoreError, match=r"is damaged .*checkvisor backup"):
        Writer(tmp_path).open()


def test_an_empty_file_is_a_new_database(tmp_path: Path) -> None:
    """A crash at the very first start leaves a file of 0 bytes."""
    (tmp_path / FILE_NAME).touch()
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    assert count(tmp_path) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts a small tmpfs")
def test_a_full_disk_loses_nothing_that_fits_into_memory(tmp_path: Path) -> None:
    """Checks go on, memory stays bounded, everything that did not overflow is written after space returns."""
    directory = tmp_path / "small"
    directory.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(directory)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"can't mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        feeder = make_feeder(directory, limit=2000)
        feeder.open()
        feeder.feed("a", "uff", events=True)
        until(lambda: count(directory) == 3)
        filler = directory / "filler"
        fill(filler)
        words = 3
        for _ in range(30):
            feeder.feed("a", "f" * 100)
            words += 100
            if degraded(feeder):
                break
            time.sleep(0.1)
        until(lambda: degraded(feeder), what="degraded mode")
        assert "full" in (feeder.writer.stats().last_error or "")
        feeder.feed("a", "uu", events=True)
        feeder.feed("b", "u" * 2500)
        words += 2502
        until(lambda: feeder.writer.stats().queued <= 2000, what="the overflow")
        assert feeder.writer.stats().lost > 0
        filler.unlink()
        until(lambda: not degraded(feeder), what="recovery")
        feeder.stop()
        assert count(directory) + feeder.writer.stats().lost == words
        assert query(directory, "SELECT sum(lost_total) FROM target_states") == [(feeder.writer.stats().lost,)]
        assert query(directory, "SELECT seq, type FROM webhook_events ORDER BY seq") == [
            (1, "target.down"),
            (2, "target.up"),
        ]
        reader = Writer(directory)
        assert reader.open().states == feeder.states
        reader.flush_and_stop(5)
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def test_what_could_not_be_written_at_the_end_is_given_back(tmp_path: Path) -> None:
    """W24: the caller logs it."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    until(lambda: count(tmp_path) == 1)
    with locked(tmp_path):
        [item] = feeder.feed("a", "u")
        left = feeder.writer.flush_and_stop(30)
    assert left == (item,)
    assert count(tmp_path) == 1


def test_stop_without_start(tmp_path: Path) -> None:
    """A start that fails later still closes the database."""
    writer = Writer(tmp_path)
    writer.open()
    writer.put_targets((make_target(),), NOW)
    assert writer.flush_and_stop(1) == ()


def test_a_commit_whose_answer_was_lost_is_not_done_twice(tmp_path: Path) -> None:
    """An I/O error at the commit may come after it happened: the mark of the batch in `meta` tells."""
    writer = Writer(tmp_path, retry_s=0.1)
    writer.open()
    target = make_target(id="a")
    writer.put_targets((target,), NOW)
    session = writer._session
    honest = session.write

    lost = sqlite3.OperationalError("disk I/O error")
    lost.sqlite_errorcode = sqlite3.SQLITE_IOERR

    def write(*args: object) -> None:
        honest(*args)  # type: ignore[arg-type]
        session.write = honest  # type: ignore[method-assign]
        raise lost

    session.write = write  # type: ignore[method-assign,assignment]
    result = make_result(target_id="a", timestamp_ms=NOW)
    writer.put(Item(result, replace(state.initial(), state="up"), "a"))
    writer.start()
    until(lambda: writer.stats().store_errors == 1)
    until(lambda: writer.stats().degraded_since is None)
    writer.flush_and_stop(5)
    assert count(tmp_path) == 1
    assert query(tmp_path, "SELECT sum(matched) FROM rollups GROUP BY step") == [(1,), (1,)]
