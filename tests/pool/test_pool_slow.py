"""The pool under a heavy load of the worst commands, and over many checks. Minutes, so not in the default run."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from supervisor import processes
from supervisor.model import ResolvedTarget
from tests.checkers.commands import pids_with
from tests.make import make_target
from tests.pool.driver import Driver, command, driven, shell

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

HUNG = "trap '' TERM; (trap '' TERM; sleep 63.01; sleep 63.01) & while :; do sleep 63.01; done"


def test_s07_hung_commands_do_not_starve_the_healthy() -> None:
    """20 slots, 25 commands that ignore TERM and fork, 50 healthy ones every second: what runs is right, what can't run
    waits in sight, and in the end nothing is left."""
    hung = [shell(f"hung{i}", HUNG, timeout_s=3) for i in range(25)]
    healthy = [command(f"ok{i}", "true", timeout_s=3) for i in range(50)]
    with driven(20) as driver:
        rounds = _rounds(driver, hung, healthy, seconds=30)
        results = {finished.run.id: finished for _, finished in driver.finished}
        assert all(results[id_].result.matched for id_ in rounds["healthy"])
        assert all(results[id_].result.failure.path == "command.timeout" for id_ in rounds["hung"])  # type: ignore[union-attr]
        late = sorted(results[id_].queued_s for id_ in rounds["healthy"])
        assert late[len(late) // 2] < 3, "half of the healthy ones run within a hung one's timeout"
        assert driver.pool.stats().restarts == 0, "no worker is lost over a hung command"
        workers = [stat.pid for stat in driver.pool.stats().workers]
    assert not pids_with("63.01")
    assert not any(processes.look(pid) for pid in workers)


def _rounds(
    driver: Driver, hung: list[ResolvedTarget], healthy: list[ResolvedTarget], seconds: float
) -> dict[str, list[int]]:
    """Add each target again when it is free and its second has come, as a schedule does."""
    ids: dict[str, list[int]] = {"hung": [], "healthy": []}
    busy: dict[str, int] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end or busy:
        freed = {id_ for _, id_ in driver.freed}
        busy = {target: id_ for target, id_ in busy.items() if id_ not in freed}
        if time.monotonic() < end:
            for kind, targets in (("hung", hung), ("healthy", healthy)):
                for target in targets:
                    if target.id not in busy:
                        [busy[target.id]] = driver.add(target)
                        ids[kind].append(busy[target.id])
        for _ in range(20):
            driver.turn()
    return ids


def test_s19_descriptors_and_memory_stay_flat_over_many_checks() -> None:
    """10,000 mixed checks, failing ones too, workers killed in between: each run has one verdict, nothing leaks."""
    pick = random.Random(1)
    kinds = [
        command("true", "true"),
        command("missing", "/no/such"),
        shell("fails", "echo no >&2; exit 3"),
        shell("leaves", "sleep 63.02 >/dev/null 2>&1 & echo hi"),
        shell("flood", "head -c 300000 /dev/zero", max_output_bytes=100_000),
        make_target(id="fine", name="fine", type="bad"),
        make_target(id="raise", name="raise", type="bad"),
    ]
    with driven(4) as driver:
        _many(driver, kinds, 1000, pick)
        files, memory, workers = _files(), _memory(), _worker_files(driver)
        _many(driver, kinds, 9000, pick)
        assert abs(_files() - files) <= 5
        assert _memory() - memory < 30e6  # the driver itself keeps every verdict
        assert abs(_worker_files(driver) - workers) <= 1
        assert len(driver.finished) == len(driver.freed) == 10_000
        assert driver.pool.stats().stuck == ()
    assert not pids_with("63.02")


def _many(driver: Driver, kinds: list[ResolvedTarget], count: int, pick: random.Random) -> None:
    ids = driver.add(*(pick.choice(kinds) for _ in range(count)))
    last, kill_at = ids[-1], time.monotonic() + 1
    while len(driver.freed) < last:
        driver.turn()
        if time.monotonic() > kill_at and driver.pool.stats().workers:
            kill_at += 1
            os.kill(pick.choice(driver.pool.stats().workers).pid, signal.SIGKILL)


def _files() -> int:
    return len(os.listdir("/proc/self/fd"))


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _worker_files(driver: Driver) -> int:
    driver.turn_until(lambda: driver.pool.stats().idle == 4)
    return max(len(os.listdir(f"/proc/{stat.pid}/fd")) for stat in driver.pool.stats().workers)
