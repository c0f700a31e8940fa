"""What of the wiring needs no whole product; the rest is in tests/e2e and tests/faults."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.pool import PoolStats, Stuck
from supervisor.run import trouble_of
from tests.cli_support import Running, command_target, processes_of, running, until, write


@pytest.mark.parametrize(
    ("pool", "held", "parts"),
    [
        (PoolStats(4, idle=4), 0, []),
        (PoolStats(4, busy=1), 0, []),
        (PoolStats(4, last_start_error="no memory"), 0, ["no worker process runs", "no memory"]),
        (PoolStats(4, idle=1, stuck=(Stuck("nfs", ()),)), 0, ["1 runs could not be ended (nfs)"]),
        (PoolStats(4, idle=1), 3, ["3 results wait"]),
    ],
    ids=["well", "busy", "no workers", "stuck", "held"],
)
def test_trouble_is_told_in_words(pool, held, parts):
    """Nothing when all is well, else what is wrong and what it touches."""
    told = trouble_of(pool, held)
    assert bool(told) == bool(parts)
    assert all(part in told for part in parts)


def test_a_stop_during_the_start_is_a_clean_end(tmp_path):
    """SIGTERM before there is a loop: exit 0 and a line that says so, no traceback, nothing left."""
    targets = "".join(f"- {{id: t{n}, type: command, command: {{exec: 'true'}}}}\n" for n in range(3000))
    (tmp_path / "config.yaml").write_text(f"runtime: {{metricsListen: ''}}\ntargets:\n{targets}")
    program = (
        "import os, signal, threading, sys\n"
        "from pathlib import Path\n"
        "from supervisor.run import run\n"
        "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGTERM)).start()\n"  # while it reads 3,000 targets
        "sys.exit(run(Path('config.yaml'), insecure=True, watch=False, environ={}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, (done.returncode, signal.SIGTERM, done.stderr)
    assert "supervisor.stopped" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "kill"])
@pytest.mark.parametrize("moment", ["checks run", "workers start"])
def test_a_signal_to_the_whole_group_is_an_ordinary_stop(tmp_path: Path, number: int, moment: str) -> None:
    """As a terminal sends it: checks under way come to their verdict, no worker is missed, nothing wrong is logged."""
    target = command_target("slow", f"touch {tmp_path}/begun; sleep 1", interval="60s")
    write(tmp_path, f"runtime: {{metricsListen: ''}}\ntargets:\n{target}")
    with running("run", cwd=tmp_path) as process:
        begun = (tmp_path / "begun").exists if moment == "checks run" else lambda: _has_forkserver(process)
        until(begun, what=moment)
        os.killpg(process.process.pid, number)
        assert process.process.wait(20) == 0
        process.all_gone()
        lines = [json.loads(line) for line in process.said().splitlines()]
        assert {line["level"] for line in lines} == {"info"}, lines
        assert lines[-1]["event"] == "supervisor.stopped"
        if moment == "checks run":
            assert lines[-1]["results"] == 1


def _has_forkserver(process: Running) -> bool:
    lines = (Path(f"/proc/{pid}/cmdline") for pid in processes_of(process.process.pid))
    return any("multiprocessing.forkserver" in line.read_text() for line in lines if line.exists())


def test_a_target_that_a_reload_takes_away_is_said_to_be_removed(tmp_path: Path) -> None:
    """Neither it nor a paused one has a new state; what stays says nothing."""
    targets = [command_target(name, "true", interval="30s") for name in ("gone", "rests", "stays")]
    write(tmp_path, "runtime: {metricsListen: ''}\ntargets:\n" + "".join(targets))
    with running("run", cwd=tmp_path) as process:
        process.wait_for("target.state", count=3)
        rests = command_target("rests", "true", interval="30s", enabled=False)
        write(tmp_path, f"runtime: {{metricsListen: ''}}\ntargets:\n{rests}{targets[2]}")
        process.process.send_signal(signal.SIGHUP)
        process.wait_for("reload.done")
        told = [(one["event"], one["target"], one["previous"]) for name in ("removed", "paused")
                for one in process.events(f"target.{name}")]  # fmt: skip
        assert told == [("target.removed", "gone", "up"), ("target.paused", "rests", "up")]
        assert {one["state"] for one in process.events("target.state")} == {"up"}
        assert process.end() == 0
