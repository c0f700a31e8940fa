"""Trouble with the database is never a target's failure: W01, W06."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.product import checkvisor, configuration, shell, until

pytestmark = pytest.mark.slow
HOLDER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
time.sleep(float(sys.argv[2]))
connection.execute("ROLLBACK")
"""


def test_w01_database_locked_for_10_seconds(tmp_path: Path) -> None:
    """W01: while another process holds the database for 10 s, checks go on, none fails for that, the metric says
    degraded, the page goes on; afterwards every result is there."""
    targets = [shell(f"t{n}", "true") for n in range(10)]
    with checkvisor(tmp_path, configuration(targets)) as product:
        until(lambda: len(product.stored("t0")) >= 2, 15, "results")
        command = [sys.executable, "-c", HOLDER, str(product.database), "10"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            held = time.time() * 1000
            until(lambda: product.metrics()["checkvisor_store_degraded"] == 1, 9, "the metric")
            until(lambda: product.api("summary")["counts"], 1, "an answer of the API")
            assert holder.wait(15) == 0
        released = time.time() * 1000
        until(lambda: product.metrics()["checkvisor_store_degraded"] == 0, 10, "the recovery")
        before = len(product.stored("t0"))
        until(lambda: len(product.stored("t0")) >= before + 2, 10, "results afterwards")
        assert product.stop()[0] == 0
        stopped = product.wait_for("supervisor.stopped")
        assert (stopped["lost"], stopped["unwritten"]) == (0, 0)
        assert product.rows("SELECT count(*) FROM check_results")[0][0] == stopped["results"]
        assert product.rows("SELECT count(*) FROM check_results WHERE matched = 0")[0][0] == 0
        assert product.rows("SELECT count(*) FROM incidents")[0][0] == 0
        during = [len([r for r in product.stored(t["id"]) if held < r[0] < released]) for t in targets]
        print(f"results a target while the database was held: {min(during)} to {max(during)}; missed"
              f" {stopped['missed']}")  # fmt: skip
        assert min(during) >= 8


@pytest.mark.parametrize("names", [("",), ("", "-wal", "-shm")], ids=["the file", "all three"])
def test_w06_database_removed(tmp_path: Path, names: tuple[str, ...]) -> None:
    """W06: a database that is removed under the supervisor is noticed, said, and made again; the page comes back and
    states are kept."""
    targets = [shell("ok", "true"), shell("bad", "false")]
    with checkvisor(tmp_path, configuration(targets)) as product:
        until(lambda: len(product.stored("ok")) >= 3, 15, "results")
        since = product.target("bad")["since"]
        for name in names:
            product.database.with_name(product.database.name + name).unlink()
        until(lambda: product.events("store.removed"), 15, "the log event")
        until(lambda: product.fetch("api/v1/targets/ok")[0] == 200, 15, "the page")
        results = product.results_wait("ok", 3)
        assert all(result["matched"] for result in results)
        bad = until(lambda: (found := product.target("bad"))["lastResult"] and found, 10, "the state")
        assert (bad["state"], bad["since"]) == ("down", since)
        assert product.stop()[0] == 0
        assert product.wait_for("supervisor.stopped")["unwritten"] == 0
        assert product.rows("PRAGMA integrity_check") == [("ok",)]


def test_restart_after_kill_goes_on_where_it_was(tmp_path: Path) -> None:
    """After the supervisor's SIGKILL the next one starts on the same data: history, state and incident are kept, no
    transition is repeated."""
    config = configuration([shell("ok", "true"), shell("bad", "false")])
    with checkvisor(tmp_path, config, command="run") as product:
        until(lambda: len(product.stored("bad")) >= 3, 15, "results")
        product.process.kill()
        product.process.wait(5)
        product.assert_gone(3)
        before = product.stored("bad")
    with checkvisor(tmp_path, config) as product:
        until(lambda: len(product.stored("bad")) >= len(before) + 2, 15, "more results")
        assert product.stored("bad")[: len(before)] == before
        incidents = product.api("targets/bad/incidents")["items"]
        assert len(incidents) == 1
        assert incidents[0]["failures"] >= len(before)
        assert not [event for event in product.events("target.state") if event["previous"] != "pending"]
