"""Retention, migrations, backup, the lock: what keeps a database good for years."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from supervisor.errors import StartError, StoreError
from supervisor.model import Retention
from supervisor.store import migrate
from supervisor.store.backup import backup
from supervisor.store.connect import FILE_NAME, writer_engine
from supervisor.store.lock import HOLDER, DirectoryLock
from supervisor.store.migrations import HEAD
from supervisor.store.retention import Cleaner
from supervisor.store.rollup import DAY_MS, HOUR_MS
from supervisor.store.session import Session
from supervisor.store.tables import metadata
from supervisor.store.write import Writer
from tests.store.harness import NOW, count, make_feeder, query, until

# --- retention -------------------------------------------------------------------------------------------------------

KEEP = Retention(results_s=86400, hourly_s=3 * 86400, daily_s=30 * 86400, events_s=7 * 86400)


def clean(directory: Path, now_ms: int, retention: Retention = KEEP) -> int:
    """Run one whole pass; returns its number of steps."""
    cleaner = Cleaner(retention)
    with writer_engine(directory / FILE_NAME).connect() as connection:
        steps = 0
        while cleaner.due(time.monotonic()):
            cleaner.step(connection, now_ms)
            steps += 1
            assert steps < 10_000
    return steps


def test_what_is_too_old_goes_and_the_rest_stays(tmp_path: Path) -> None:
    """Each kind at its own age; counters and states are never touched."""
    feeder = make_feeder(tmp_path, "a")
    feeder.open()
    for age_days in (40, 10, 2, 0):
        feeder.now = NOW - age_days * DAY_MS
        feeder.feed("a", "fffuu" if age_days else "u", events=True)
    feeder.stop()
    clean(tmp_path, NOW)
    assert count(tmp_path) == 1
    assert query(tmp_path, "SELECT step, count(*) FROM rollups GROUP BY step") == [(HOUR_MS, 2), (DAY_MS, 3)]
    assert query(tmp_path, "SELECT count(*) FROM incidents") == [(2,)]
    assert query(tmp_path, "SELECT matched_total, failed_total FROM target_states") == [(7, 9)]


def test_a_removed_target_goes_with_its_last_history_but_keeps_its_numbers(tmp_path: Path) -> None:
    """W17: last_seq outlives the target."""
    feeder = make_feeder(tmp_path)
    feeder.now = NOW - 60 * DAY_MS
    feeder.open()
    feeder.feed("a", "uff", events=True)
    feeder.writer.put_targets((feeder.targets[1],), NOW - 50 * DAY_MS)
    feeder.stop()
    clean(tmp_path, NOW - 45 * DAY_MS)
    assert query(tmp_path, "SELECT count(*) FROM targets") == [(2,)]
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as raw, raw:
        raw.execute("UPDATE target_states SET incident_id = NULL")
        raw.execute("UPDATE incidents SET resolved_at = started_at")
    clean(tmp_path, NOW)
    assert query(tmp_path, "SELECT key FROM targets") == [("b",)]
    assert query(tmp_path, "SELECT stream, last_seq FROM webhook_streams") == [("a", 1)]


def test_rows_from_a_wrong_clock_do_not_block_the_rest(tmp_path: Path) -> None:
    """The first thousands of rows are dated in the future: older ones behind them go all the same."""
    feeder = make_feeder(tmp_path, "a")
    feeder.open()
    feeder.now = NOW + 900 * DAY_MS
    feeder.feed("a", "u" * 2500)
    feeder.now = NOW - 10 * DAY_MS
    feeder.feed("a", "u" * 1500)
    feeder.now = NOW
    feeder.feed("a", "u" * 10)
    feeder.stop()
    clean(tmp_path, NOW)
    assert count(tmp_path) == 2510


def test_w10_free_pages_go_back_to_the_file_system(tmp_path: Path) -> None:
    """W10: the file shrinks by incremental vacuum, all but a reserve."""
    feeder = make_feeder(tmp_path, "a")
    feeder.open()
    feeder.now = NOW - 3 * DAY_MS
    for _ in range(4):
        feeder.feed("a", "f" * 8000, step_ms=10)
        until(lambda: feeder.writer.stats().queued == 0)
    feeder.stop()
    before = (tmp_path / FILE_NAME).stat().st_size
    clean(tmp_path, NOW)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as raw:
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        assert raw.execute("PRAGMA freelist_count").fetchone()[0] <= 250
    assert (tmp_path / FILE_NAME).stat().st_size < before - 2_000_000


def test_w09_writes_do_not_wait_for_retention(tmp_path: Path) -> None:
    """W09: chunks of at most 1,000 rows between batches: no result waits 200 ms longer than usual."""
    names = [f"t{n}" for n in range(200)]
    feeder = make_feeder(tmp_path, *names)
    feeder.open()
    feeder.now = NOW - 10 * DAY_MS
    for _ in range(200):
        for name in names:
            feeder.put(feeder.result(name, "u"))
        feeder.now += 10_000
        until(lambda: feeder.writer.stats().queued < 5000)
    feeder.stop()
    assert count(tmp_path) == 40_000
    again = make_feeder(tmp_path, *names)
    slowest = 0.0
    again.open()
    again.now = time.time_ns() // 1_000_000
    end = time.monotonic() + 30
    while query(tmp_path, "SELECT count(*) FROM check_results WHERE timestamp < ?", NOW - 8 * DAY_MS) != [(0,)]:
        assert time.monotonic() < end
        again.feed("t0", "u")
        started = time.monotonic()
        until(lambda: again.writer.stats().queued == 0)
        slowest = max(slowest, time.monotonic() - started)
    again.stop()
    assert slowest < 1.2  # 0.25 s by design, and 1 s for a busy machine


# --- migrations ------------------------------------------------------------------------------------------------------

NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

def upgrade():
    with op.batch_alter_table("incidents") as table:
        table.add_column(sa.Column("note", sa.Text(), nullable=False, server_default="none"))
        table.alter_column("failures", new_column_name="failed")
    op.execute("UPDATE incidents SET note = 'kept'")
    FAIL
"""


def scripts_with(tmp_path: Path, fail: str = "") -> Path:
    """The real scripts and one more."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    (scripts / "versions" / "0003_next.py").write_text(NEXT.replace("FAIL", fail))
    return scripts


def old_database(directory: Path) -> Path:
    feeder = make_feeder(directory)
    feeder.open()
    feeder.feed("a", "uffuu")
    feeder.stop()
    return directory / FILE_NAME


def test_the_scripts_make_the_tables(tmp_path: Path) -> None:
    """tables.py and the migrations say the same, indexes and WITHOUT ROWID included."""
    migrate.migrate(tmp_path / "made.db", None)
    with writer_engine(tmp_path / "made.db").connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    with writer_engine(tmp_path / "direct.db").connect() as connection, connection.begin():
        metadata.create_all(connection)

    def shape(name: str) -> set[tuple[object, ...]]:
        with closing(sqlite3.connect(tmp_path / name)) as raw:
            rows = raw.execute("SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%'").fetchall()
            kept = [row for row in rows if "alembic" not in str(row[1])]
            return {(row[0], row[1], "WITHOUT ROWID" in (row[2] or "")) for row in kept}

    assert shape("made.db") == shape("direct.db")


def test_head_is_the_newest_script() -> None:
    """Readers compare with a constant, so that they need no Alembic."""
    config = Config()
    config.set_main_option("script_location", str(migrate.SCRIPTS))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_current_head() == HEAD


def test_a_migration_keeps_data_and_a_copy(tmp_path: Path) -> None:
    """0002 -> 0003 in one transaction, tables rebuilt, references whole, the old file beside it."""
    path = old_database(tmp_path / "data")
    session = Session(path, scripts_with(tmp_path))
    assert session.open().max_incident_id == 1
    session.close()
    assert query(path.parent, "SELECT id, failed, note FROM incidents") == [(1, 2, "kept")]
    assert query(path.parent, "SELECT version_num FROM alembic_version") == [("0003",)]
    assert query(path.parent, "PRAGMA foreign_key_check") == []
    assert query(path.parent, "PRAGMA integrity_check") == [("ok",)]
    copy = path.with_name("checkvisor-before-0003.db")
    with closing(sqlite3.connect(copy)) as raw:
        assert raw.execute("SELECT version_num FROM alembic_version").fetchone() == ("0002",)
        assert raw.execute("SELECT count(*) FROM check_results").fetchone() == (5,)


def test_the_first_schema_is_brought_to_this_one(tmp_path: Path) -> None:
    """0001 -> 0002: every rollup is still there, in its new order, and is counted on."""
    first = tmp_path / "first"
    shutil.copytree(migrate.SCRIPTS, first, ignore=shutil.ignore_patterns("__pycache__", "0002_*"))
    path = tmp_path / "data" / FILE_NAME
    path.parent.mkdir()
    migrate.migrate(path, None, first)
    day, late = NOW - NOW % 86400000 - 9 * 86400000, NOW - 5 * 86400000
    row = (86400000, 3, 1, 0, 0, 0, 0, 5000, 60.5, 10.0, 40.0, b"\x01\x00\x00\x00", '{"dns":[1.000,3]}')
    with closing(sqlite3.connect(path)) as raw, raw:
        for number, key in ((2, "b"), (1, "a")):
            raw.execute(
                "INSERT INTO targets (id, key, name, type, target, config, interval_ms, timeout_ms, expect, group_name,"
                " position, enabled, labels) VALUES (?, ?, ?, 'command', '', '{}', 1000, 1000, '{}', '', 0, 1, '{}')",
                (number, key, key),
            )
            for bucket in (day + row[0], day):
                raw.execute(f"INSERT INTO rollups VALUES (?, ?, ?{', ?' * 12})", (number, row[0], bucket, *row[1:]))
    before = set(query(path.parent, "SELECT target_id, step, bucket, histogram, timings_sum, matched FROM rollups"))
    feeder = make_feeder(path.parent)
    feeder.open()
    feeder.feed("a", "uf")
    feeder.stop()
    assert query(path.parent, "SELECT version_num FROM alembic_version") == [(HEAD,)]
    lying = query(path.parent, "SELECT step, bucket, target_id, matched FROM rollups")  # read as the rows lie
    order = [key for *key, _ in lying if key[1] < late]
    assert order == [[row[0], bucket, number] for bucket in (day, day + row[0]) for number in (1, 2)]
    after = query(path.parent, "SELECT target_id, step, bucket, histogram, timings_sum, matched FROM rollups")
    assert before < set(after)
    assert query(path.parent, "SELECT sum(matched), sum(failed) FROM rollups WHERE bucket > ?", late) == [(2, 2)]
    assert query(path.parent, "PRAGMA foreign_key_check") == []
    assert query(path.parent, "PRAGMA integrity_check") == [("ok",)]
    assert path.with_name(f"checkvisor-before-{HEAD}.db").exists()


@pytest.mark.parametrize(
    "fail",
    ["op.execute('INSERT INTO nowhere VALUES (1)')", "op.execute('UPDATE incidents SET target_id = 99')"],
    ids=["breaks", "leaves orphans"],
)
def test_a_failed_migration_leaves_the_old_schema(tmp_path: Path, fail: str) -> None:
    """Half a migration is none; the old version can go on with the file."""
    path = old_database(tmp_path / "data")
    before = query(path.parent, "SELECT * FROM incidents")
    with pytest.raises((StoreError, OSError)):
        Session(path, scripts_with(tmp_path, fail)).open()
    assert query(path.parent, "SELECT * FROM incidents") == before
    assert query(path.parent, "SELECT version_num FROM alembic_version") == [("0002",)]
    writer = Writer(path.parent)
    assert writer.open().problem is None
    writer.flush_and_stop(1)


# --- backup ----------------------------------------------------------------------------------------------------------


def test_backup_beside_a_busy_writer(tmp_path: Path) -> None:
    """One step, consistent, without a source; a restored copy gets a new one."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            feeder.feed("a", "u" * 20)
            time.sleep(0.002)  # the load of the test, not a wait

    thread = threading.Thread(target=work)
    thread.start()
    try:
        until(lambda: count(tmp_path) > 100)
        started = time.monotonic()
        backup(tmp_path / FILE_NAME, tmp_path / "copy.db")
        assert time.monotonic() - started < 5
    finally:
        stop.set()
        thread.join()
    feeder.stop()
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".copy")]
    (tmp_path / "restored").mkdir()
    os.replace(tmp_path / "copy.db", tmp_path / "restored" / FILE_NAME)
    assert query(tmp_path / "restored", "SELECT * FROM meta WHERE key = 'source'") == []
    writer = Writer(tmp_path / "restored")
    loaded = writer.open()
    writer.flush_and_stop(1)
    assert feeder.loaded is not None
    assert loaded.source != feeder.loaded.source
    assert len(loaded.states) == 2


def test_backup_of_a_stopped_database_leaves_no_trace(tmp_path: Path) -> None:
    """Also when the side files are gone; an existing file is replaced."""
    path = old_database(tmp_path / "data")
    for suffix in ("-wal", "-shm"):
        os.unlink(f"{path}{suffix}")
    (tmp_path / "copy.db").write_text("old")
    backup(path, tmp_path / "copy.db")
    assert os.listdir(path.parent) == [FILE_NAME]
    with closing(sqlite3.connect(tmp_path / "copy.db")) as raw:
        assert raw.execute("SELECT count(*) FROM check_results").fetchone() == (5,)


@pytest.mark.parametrize("case", ["missing", "damaged", "itself", "directory", "no place", "below a file"])
def test_a_backup_that_cannot_be_made_says_why(tmp_path: Path, case: str) -> None:
    """One sentence, and nothing under the name."""
    path = old_database(tmp_path / "data")
    to = tmp_path / "copy.db"
    words = {
        "missing": "nothing to back up",
        "damaged": "damaged|malformed|not a database",
        "itself": "is the database itself",
        "directory": "is a directory",
        "no place": r"copy\.db failed: No such file or directory$",
        "below a file": r"copy\.db failed: Not a directory$",
    }
    if case == "missing":
        path.unlink()
    elif case == "damaged":
        content = path.read_bytes()
        path.write_bytes(content[:8192] + b"\xff" * 20_000 + content[28_192:])
    elif case == "itself":
        to = path
    elif case == "directory":
        to = tmp_path
    elif case == "below a file":
        to = path / "copy.db"
    else:
        to = tmp_path / "nowhere" / "copy.db"
    with pytest.raises(StoreError, match=words[case]):
        backup(path, to)
    if case != "itself":
        assert not to.is_file()


# --- lock ------------------------------------------------------------------------------------------------------------


def test_the_second_supervisor_says_who_is_there(tmp_path: Path) -> None:
    """flock on the directory: the sentence names the pid; a killed holder leaves nothing behind."""
    script = """
        import sys, time
        from pathlib import Path
        from supervisor.store.lock import DirectoryLock
        lock = DirectoryLock(Path(sys.argv[1]))
        lock.acquire()
        print("held", flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"held\n"
    try:
        lock = DirectoryLock(tmp_path / "data")
        with pytest.raises(StartError, match=rf"another supervisor \(pid {process.pid}, started .*\) already uses"):
            lock.acquire()
        (tmp_path / "data" / HOLDER).write_text("pid 1, started long ago\n")
        with pytest.raises(StartError, match=rf"\(pid {process.pid}\)"):
            lock.acquire()
    finally:
        process.kill()
        process.communicate()
    lock.acquire()
    lock.release()


def test_a_data_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A sentence with the way out."""
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match=r"set runtime\.dataDir"):
        DirectoryLock(tmp_path / "file" / "data").acquire()
