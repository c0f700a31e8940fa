"""The disk is full or read-only, the database is broken, newer, or a copy from a backup."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from supervisor.store.backup import backup
from supervisor.store.write import Writer
from tests.e2e.product import Product, configuration, shell, stays, until, write_config
from tests.faults.faults import (
    board,
    end,
    fill_up,
    hook,
    kill,
    life,
    metric,
    reach,
    receiver,
    remount,
    resident_kb,
    small_disk,
)

SMALL_MEMORY = "import supervisor.store.write as w; w.Writer.__init__.__kwdefaults__['limit'] = 300"  # not 10,000


def _count(product: Product) -> int:
    return int(product.rows("SELECT count(*) FROM check_results")[0][0])


def _accounted(product: Product, told: dict[str, int]) -> int:
    """Every result is in the database or counted as lost, there and in the log; how many are lost."""
    lost = int(product.rows("SELECT sum(lost_total) FROM target_states")[0][0])
    assert told["unwritten"] == 0
    assert told["lost"] == lost
    assert _count(product) + lost == told["results"]
    assert product.rows("SELECT target_id FROM check_results GROUP BY target_id, timestamp HAVING count(*) > 1") == []
    assert product.rows("PRAGMA integrity_check") == [("ok",)]
    return lost


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_disk_full(tmp_path: Path) -> None:
    """The disk is full twice. Checks go on and alarms arrive meanwhile; log, metric and status say that the database
    can't be written. After the first time every result is there. The second time is too long for the memory (set to
    300 results here): it stays bounded, what overflowed is counted as lost per target, the rest is written in order;
    no alarm is lost or told twice."""
    with small_disk(tmp_path / "data", "24m") as disk, board() as site, receiver() as got:
        site.answers |= {f"t{n}": 200 for n in range(30)}
        targets = [site.target(f"t{n}") for n in range(30)]
        config = configuration(targets, webhooks=[hook("ops", got.url)], runtime={"maxConcurrentChecks": 8})
        with life(tmp_path, config, prelude=SMALL_MEMORY) as product:
            until(lambda: _count(product) >= 60, 30, "results")
            ballast = fill_up(disk)
            until(lambda: metric(product, "store_degraded") == 1, 20, "the metric")
            site.answers["t0"] = 503
            got.wait(1)  # from memory
            until(lambda: metric(product, "store_queue") >= 90, 30, "results in memory")
            ballast.unlink()
            until(lambda: metric(product, "store_degraded") == 0, 20, "the recovery")
            assert metric(product, "store_lost_results_total") == 0
            site.answers["t0"] = 200
            got.wait(2)
            until(lambda: metric(product, "store_queue") < 60, 10, "an empty queue")
            assert _count(product) >= metric(product, "checks_finished_total") - 60

            memory = resident_kb(product.process.pid)
            ballast = fill_up(disk)
            until(lambda: metric(product, "store_degraded") == 1, 20, "the metric")
            site.answers["t1"] = 503
            got.wait(3)
            site.answers["t1"] = 200
            got.wait(4)
            until(lambda: metric(product, "store_lost_results_total") > 50, 90, "an overflow")
            assert metric(product, "store_queue") < 300 + 60
            grown = resident_kb(product.process.pid) - memory
            ballast.unlink()
            until(lambda: metric(product, "store_degraded") == 0, 20, "the recovery")
            assert product.rows("SELECT count(*) FROM check_results WHERE NOT matched AND success = 0") == [(0,)]
            stopped = end(product)
        lost = _accounted(product, stopped)
        print(f"{stopped['results']} results, {lost} of them lost by an overflow; memory grew by {grown} KB")
        assert lost > 50
        assert grown < 40_000
        assert got.story() == [("t0", "down"), ("t0", "up"), ("t1", "down"), ("t1", "up")]
        assert product.rows("SELECT resolution FROM incidents") == [("recovered",)] * 2
        assert len(product.events("store.degraded")) == 2
        with life(tmp_path, prelude=SMALL_MEMORY) as product:
            before = _count(product)
            until(lambda: _count(product) > before + 30, 20, "results")
            end(product)
        assert len(got.taken()) == 4, "nothing is told again after a restart"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_killed_on_a_full_disk(tmp_path: Path) -> None:
    """The disk is full, a target goes down and is told from memory, then the supervisor is killed: at the next start
    the same is told once more at most, under a new number; no event id ever stands for two things."""
    with small_disk(tmp_path / "data", "24m") as disk, board() as site, receiver() as got:
        site.answers |= {"shop": 200, "other": 503}
        config = configuration([site.target("shop"), site.target("other")], webhooks=[hook("ops", got.url)])
        with life(tmp_path, config) as product:
            reach(product, "shop", "up")
            got.wait(1)
            until(lambda: metric(product, "webhook_pending_events") == 0, 10, "an empty queue")
            ballast = fill_up(disk)
            until(lambda: metric(product, "store_degraded") == 1, 20, "the metric")
            site.answers["shop"] = 503
            got.wait(2)
            before = _count(product)
            kill(product)
        with life(tmp_path) as product:  # still full: it starts all the same
            until(lambda: metric(product, "checks_finished_total") >= 4, 30, "checks")
            assert metric(product, "store_degraded") == 1
            ballast.unlink()
            until(lambda: _count(product) >= before + 4, 30, "results")
            site.answers["shop"] = 200
            until(lambda: ("shop", "up") in got.story(), 20, "target.up")
            end(product)
        bodies: dict[str, bytes] = {}
        for post in got.taken():
            assert bodies.setdefault(post.event_id, post.raw) == post.raw, "an event id was used twice"
        story = [event for event in got.story() if event[0] == "shop"]
        assert story[0] == ("shop", "down")
        assert story[-1] == ("shop", "up")
        assert len(story) <= 3
        seqs = [int(post.event_id.partition(":")[2]) for post in got.taken() if post.body["id"] == "shop"]
        assert seqs == sorted(seqs)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("runtime_directory", [True, False], ids=["with /run", "without /run"])
def test_start_on_a_read_only_disk(tmp_path: Path, runtime_directory: bool) -> None:
    """The file system is read-only at the start, with a target down before and another going down now: it checks and
    says so; with a runtime directory the new alarm is sent at once, without one when the disk is writable again (no
    number may be used twice). Then everything since the start is in the database."""
    with small_disk(tmp_path / "data", "24m") as disk, board() as site, receiver() as got:
        site.answers |= {"shop": 503, "other": 200}
        config = configuration([site.target("shop"), site.target("other")], webhooks=[hook("ops", got.url)])
        with life(tmp_path, config) as product:
            got.wait(1)
            reach(product, "other", "up")
            end(product)
        before = _count(product)
        remount(disk, "ro")
        (tmp_path / "run").mkdir()
        environ = {"RUNTIME_DIRECTORY": str(tmp_path / "run")} if runtime_directory else {}
        with life(tmp_path, environ=environ) as product:
            assert product.events("store.degraded")
            until(lambda: metric(product, "checks_finished_total") >= 6, 30, "checks")
            site.answers["other"] = 503
            if runtime_directory:
                got.wait(2)
            else:
                until(lambda: metric(product, "webhook_waiting_streams") == 1, 20, "a target that waits")
                finished = metric(product, "checks_finished_total")
                until(lambda: metric(product, "checks_finished_total") > finished + 2, 20, "checks of the rest")
                assert len(got.story()) == 1
            remount(disk, "rw")
            until(lambda: metric(product, "store_degraded") == 0, 20, "the recovery")
            got.wait(2)
            stopped = end(product)
            assert (stopped["lost"], stopped["unwritten"]) == (0, 0)
            assert _count(product) == before + stopped["results"]
        assert got.story() == [("shop", "down"), ("other", "down")]


def _refused(folder: Path) -> str:
    """Run it on what lies there: status 4 and one sentence; the sentence."""
    done = subprocess.run(
        [sys.executable, "-P", "-m", "supervisor", "run", "-c", folder / "config.yaml"],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 4, done.stderr
    lines = done.stderr.decode().splitlines()
    failed = [line for line in lines if '"level":"error"' in line]
    assert len(failed) == 1, lines
    assert "Traceback" not in done.stderr.decode()
    return failed[0]


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "what", ["page", "newer", *(pytest.param(what, marks=pytest.mark.slow) for what in ("junk", "foreign"))]
)
def test_database_that_must_not_be_used(tmp_path: Path, what: str) -> None:
    """A corrupt database, one of a newer version, another program's, or no database at all: the user gets status 4 and
    one sentence that names the file, and the file stays as it is, to the byte."""
    write_config(tmp_path, configuration([shell("t", "true")]))
    data = tmp_path / "data"
    data.mkdir()
    database = data / "checkvisor.db"
    if what in ("page", "newer"):
        writer = Writer(data)
        writer.open()
        writer.flush_and_stop(5)
        for suffix in ("-wal", "-shm"):
            database.with_name(database.name + suffix).unlink()
    if what == "page":
        content = bytearray(database.read_bytes())
        content[4096 * 2 : 4096 * 12] = os.urandom(4096 * 10)
        database.write_bytes(content)
    elif what == "junk":
        database.write_bytes(b"these are the minutes of the meeting\n" * 200)
    else:
        with closing(sqlite3.connect(database)) as raw, raw:
            if what == "newer":
                raw.execute("UPDATE alembic_version SET version_num = '9999'")
            else:
                raw.execute("CREATE TABLE minutes (text)")
    before = database.read_bytes()
    sentence = _refused(tmp_path)
    print(sentence)
    assert str(database) in sentence
    assert database.read_bytes() == before
    assert {"newer": "newer", "page": "damaged", "junk": "not a SQLite", "foreign": "Checkvisor"}[what] in sentence


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("killed", [False, True], ids=["empty directory", "beside the log of the lost one"])
def test_restored_backup_has_a_new_source(tmp_path: Path, killed: bool) -> None:
    """The database is lost and a backup is put in its place: history and states are the backup's, events count on from
    there under a new source, so a receiver that removes duplicates drops none of them. The write-ahead log that a
    killed supervisor has left is not mixed into the copy."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        config = configuration([site.target("shop")], webhooks=[hook("ops", got.url)])
        copy = tmp_path / "copy.db"
        with life(tmp_path, config) as product:
            got.wait(1)
            until(lambda: product.rows("SELECT acked_seq FROM webhook_cursors") == [(1,)], 10, "the stored outcome")
            backup(product.database, copy)
            site.answers["shop"] = 200
            got.wait(2)
            source = product.rows("SELECT value FROM meta WHERE key = 'source'")[0][0]
            if killed:
                kill(product)
            else:
                end(product)
        for left in (tmp_path / "data").iterdir():
            if not killed:
                left.unlink()
        copy.rename(tmp_path / "data" / "checkvisor.db")
        with life(tmp_path) as product:
            got.wait(2)
            until(lambda: len(got.taken()) >= 3, 20, "target.up of the restored copy")
            end(product)
            restored = product.rows("SELECT value FROM meta WHERE key = 'source'")[0][0]
        assert restored != source
        ids = [post.headers["webhook-id"] for post in got.taken()]
        assert ids == [f"{source}:shop:1", f"{source}:shop:2", f"{restored}:shop:2"]
        assert product.stored("shop")
        assert product.rows("PRAGMA integrity_check") == [("ok",)]
        assert bool(product.events("store.foreign_log")) is killed


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_database_replaced_under_the_supervisor(tmp_path: Path) -> None:
    """A copy is put over the database of a running supervisor: it says so, goes on with it, keeps states and numbers,
    and tells nothing again."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        config = configuration([site.target("shop"), shell("ok", "true")], webhooks=[hook("ops", got.url)])
        copy = tmp_path / "data" / "copy.db"
        with life(tmp_path, config) as product:
            until(lambda: len(product.stored("ok")) >= 2, 20, "results")
            backup(product.database, copy)
            got.wait(1)
            copy.rename(product.database)
            until(lambda: product.events("store.replaced"), 20, "the log event")
            until(lambda: metric(product, "store_degraded") == 0, 20, "the recovery")
            before = len(product.stored("ok"))
            until(lambda: len(product.stored("ok")) >= before + 3, 20, "results")
            stays(2, lambda: len(got.taken()) == 1, "nothing is told again")
            site.answers["shop"] = 200
            got.wait(2)
            end(product)
        assert got.story() == [("shop", "down"), ("shop", "up")]
        assert [post.event_id for post in got.taken()] == ["shop:1", "shop:2"]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_first_start_on_a_full_disk(tmp_path: Path) -> None:
    """There is no database yet and no room for one: it starts, checks, says so, and keeps its results; with space the
    database is made and has all of them, and the alarm that had to wait is sent."""
    with small_disk(tmp_path / "data", "8m") as disk, board() as site, receiver() as got:
        ballast = fill_up(disk)
        site.answers["shop"] = 503
        config = configuration([site.target("shop"), site.target("other")], webhooks=[hook("ops", got.url)])
        with life(tmp_path, config) as product:
            assert product.events("store.degraded")
            until(lambda: metric(product, "checks_finished_total") >= 4, 30, "checks")
            ballast.unlink()
            until(lambda: metric(product, "store_degraded") == 0, 20, "the recovery")
            got.wait(1)
            stopped = end(product)
        assert _accounted(product, stopped) == 0
        assert got.story() == [("shop", "down")]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_data_directory_removed(tmp_path: Path) -> None:
    """The whole data directory is removed under the supervisor: it says so and goes on; once there is a directory
    again the database is written back from what it still has open, with every result, and no alarm is repeated."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        config = configuration([site.target("shop"), site.target("other")], webhooks=[hook("ops", got.url)])
        with life(tmp_path, config) as product:
            got.wait(1)
            reach(product, "other", "up")
            shutil.rmtree(tmp_path / "data")
            until(lambda: metric(product, "store_degraded") == 1, 20, "the metric")
            finished = metric(product, "checks_finished_total")
            until(lambda: metric(product, "checks_finished_total") >= finished + 4, 20, "checks")
            (tmp_path / "data").mkdir(mode=0o750, exist_ok=True)
            until(lambda: metric(product, "store_degraded") == 0, 20, "the recovery")
            site.answers["shop"] = 200
            got.wait(2)
            stopped = end(product)
        assert _accounted(product, stopped) == 0
        assert got.story() == [("shop", "down"), ("shop", "up")]
