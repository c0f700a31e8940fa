"""What of the wiring needs no whole product; the rest is in tests/e2e and tests/faults."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from supervisor.pool import PoolStats, Stuck
from supervisor.run import trouble_of


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
