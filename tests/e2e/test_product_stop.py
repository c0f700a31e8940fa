"""How the product stops: S13, S14, and who may start beside it."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.product import checkvisor, configuration, shell, until
from tests.servers import HOLD, OK, length, script_server

pytestmark = pytest.mark.slow


def test_s13_s14_stop_with_20_running_checks(tmp_path: Path) -> None:
    """S13, S14: with 20 hung checks SIGTERM ends all within 10 s; they leave no result, what ends within 5 s does, and
    nothing is stored after `supervisor.stopped`, which the receiver gets as the last event."""
    received: list[bytes] = []

    def receive(request: bytes, _connection: int) -> list[object]:
        received.append(request)
        return [OK + length(b"ok")]

    hung = [shell(f"hung{n}", "trap '' TERM; sleep 4720 & wait; sleep 4720", timeout="60s") for n in range(20)]
    ends = shell("ends", "touch began; sleep 2", timeout="60s", interval="60s", command={"cwd": str(tmp_path)})
    with script_server(receive) as receiver:
        hooks = [{"name": "ops", "url": receiver.url, "default": True, "events": ["started", "stopped"]}]
        config = configuration([*hung, ends], runtime={"maxConcurrentChecks": 22}, webhooks=hooks)
        with checkvisor(tmp_path, config) as product:
            until(lambda: len(product.running("sleep 4720")) >= 40, 20, "20 hung commands")
            until((tmp_path / "began").exists, 10, "the check that ends")
            status, took = product.stop()
            stopped = product.wait_for("supervisor.stopped")
            print(f"SIGTERM with 20 hung checks took {took:.2f} s, of these the supervisor {stopped['seconds']:.2f} s")
            assert status == 0
            assert took < 10
            counts = product.rows("SELECT count(*) FROM check_results")[0][0]
            assert counts == stopped["results"] == len(product.stored("ends")) == 1
            assert stopped["cancelled"] >= 20
            assert stopped["scheduled"] == stopped["results"] + stopped["missed"] + stopped["cancelled"]
            assert product.rows("SELECT count(*) FROM incidents")[0][0] == 0
            assert b"supervisor.stopped" in received[-1]
            last = product.rows("SELECT max(timestamp + duration_ms) FROM check_results")[0][0]
            assert last <= time.time() * 1000


def test_stop_with_all_troubles_at_once(tmp_path: Path) -> None:
    """Hung checks, a receiver that never answers, a database that is locked: the stop still comes within its time, and
    the log says what could not be written."""
    hung = [shell(f"hung{n}", "trap '' TERM; sleep 4722 & wait; sleep 4722", timeout="60s") for n in range(4)]
    with script_server([HOLD]) as receiver:
        hooks = [{"name": "ops", "url": receiver.url, "default": True, "events": ["result"]}]
        config = configuration([*hung, shell("ok", "true"), shell("bad", "false")], webhooks=hooks)
        config["runtime"]["maxConcurrentChecks"] = 6
        with checkvisor(tmp_path, config, command="run") as product:
            until(lambda: len(product.running("sleep 4722")) >= 8, 20, "the hung commands")
            until(lambda: receiver.connections, 20, "a post")
            with closing(sqlite3.connect(product.database, isolation_level=None, timeout=20)) as connection:
                connection.execute("BEGIN IMMEDIATE")
                queued = product.metrics()["checkvisor_checks_finished_total"] + 2
                until(lambda: product.metrics()["checkvisor_checks_finished_total"] >= queued, 10, "more results")
                status, took = product.stop(seconds=20)
                connection.execute("ROLLBACK")
            stopped = product.wait_for("supervisor.stopped")
            print(f"all troubles: {took:.2f} s, of these the supervisor {stopped['seconds']:.2f} s")
            assert status == 0
            assert stopped["seconds"] < 10
            assert took < 12
            assert stopped["unwritten"] > 0
            assert stopped["level"] == "error"


def test_second_signal_stops_at_once(tmp_path: Path) -> None:
    """A second Ctrl-C does not wait for the checks that run."""
    with checkvisor(tmp_path, configuration([shell("slow", "sleep 4721", timeout="60s")])) as product:
        until(lambda: product.running("sleep 4721"), 10, "the command")
        started = time.monotonic()
        product.process.send_signal(signal.SIGINT)
        product.wait_for("up.stopping")
        status, _ = product.stop(signal.SIGINT)
        took = time.monotonic() - started
        print(f"two Ctrl-C took {took:.2f} s")
        assert status == 0
        assert took < 4.5  # less than the 5 s that the first would wait
        assert product.stored("slow") == []


def test_stop_right_after_the_start(tmp_path: Path) -> None:
    """A stop that comes while everything starts leaves nothing behind, whenever it comes."""
    config = configuration([shell(f"t{n}", "sleep 5") for n in range(10)], runtime={"maxConcurrentChecks": 10})
    for pause_s in (0.05, 0.3, 0.8, 1.5, 2.5):
        with checkvisor(tmp_path, config, ready=False) as product:
            time.sleep(pause_s)  # not waited for anything: the moment is what is tried
            status, took = product.stop(left_s=5)
            assert took < 10
            assert status in (0, -signal.SIGTERM)  # the latter before Python has taken over its signals


def test_second_supervisor_says_who_holds_the_data(tmp_path: Path) -> None:
    """A second supervisor on the same data directory ends with 4 and names the first; the first is not touched."""
    with checkvisor(tmp_path, configuration([shell("ok", "true")]), command="run") as product:
        second = subprocess.run(
            [sys.executable, "-P", "-m", "supervisor", "run", "-c", str(product.config)],
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=False,
        )  # fmt: skip
        said = second.stderr.decode()
        assert second.returncode == 4, said
        assert str(product.process.pid) in said
        assert "Traceback" not in said
        before = len(product.stored("ok"))
        until(lambda: len(product.stored("ok")) >= before + 2, 10, "results of the first")
        assert (product.folder / "data" / "control.sock").exists()
        os.kill(product.process.pid, 0)
