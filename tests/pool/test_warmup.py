"""What workers share, and what a worker keeps of its targets."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time

import pytest

from supervisor.checkers import CHECKERS
from supervisor.checkers.http import HttpChecker
from supervisor.pool.child import _KEEPS_AFTER, _REST_S
from supervisor.pool.warmup import warm_up
from tests.make import make_target
from tests.pool.driver import Driver, driven

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000  # <sched.h>


def test_the_warm_up_checks_and_leaves_nothing_behind() -> None:
    """Its checks match; no thread, no signal handler and no plan stay."""
    threads, handler = threading.active_count(), signal.getsignal(signal.SIGALRM)
    checker = CHECKERS["http"]
    assert isinstance(checker, HttpChecker)
    plans = dict(checker._plans)
    assert warm_up() == 3
    assert threading.active_count() == threads
    assert signal.getsignal(signal.SIGALRM) is handler
    assert checker._plans == plans


def test_without_a_loopback_interface_there_is_no_warm_up() -> None:
    """A process in a network namespace of its own, in which not even loopback is up, goes on without."""
    code = (
        "import ctypes\nfrom supervisor.pool.warmup import warm_up\n"
        f"print(ctypes.CDLL(None).unshare({_NEW_USER | _NEW_NETWORK:#x}), warm_up())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    if done.stdout.startswith("-1"):
        pytest.skip("a process may not make a network namespace here")
    assert (done.stdout, done.stderr) == ("0 0\n", "")


def _kept(driver: Driver, checks: int) -> list[str]:
    target = make_target(id="keep", name="keep", type="bad")
    return [driver.run(target)[0].status_detail for _ in range(checks)]


def test_a_worker_keeps_targets_once_it_is_needed_all_the_time() -> None:
    """Not at its first checks, and no more after a rest."""
    with driven(1) as driver:
        found = _kept(driver, _KEEPS_AFTER + 2)
        assert found[:_KEEPS_AFTER] == ["False"] * _KEEPS_AFTER
        assert found[_KEEPS_AFTER:] == ["True", "True"]
        rested = time.monotonic() + _REST_S + 0.3
        while time.monotonic() < rested:
            driver.turn()
        assert _kept(driver, 1) == ["False"]
