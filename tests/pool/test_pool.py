"""The pool with real workers: deaths, deadlines, cancelling, replacement. A dead worker costs exactly its own check."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import forkserver
from pathlib import Path

import pytest

from supervisor import processes
from supervisor.errors import StartError
from supervisor.pool import Pool
from tests.checkers.commands import pids_with
from tests.make import make_target
from tests.pool.driver import Driver, command, driven, shell


@pytest.fixture
def driver() -> Iterator[Driver]:
    with driven(3) as started:
        yield started


def bad(what: str, timeout_s: float = 3.0) -> object:
    """A target whose checker does this."""
    return make_target(id=what.replace(".", "-"), name=what, type="bad", timeout_s=timeout_s)


def running(driver: Driver, target_id: str) -> int:
    """The worker that runs this target, as soon as one does."""
    driver.turn_until(lambda: driver.worker_of(target_id) is not None)
    pid = driver.worker_of(target_id)
    assert pid is not None
    return pid


# --- deaths -----------------------------------------------------------------------------------------------------------


def test_s09_a_killed_worker_fails_its_own_check_only(driver: Driver) -> None:
    """SIGKILL during a check: an internal error that names the signal within a second; others go on; it is replaced."""
    lost, kept = driver.add(shell("lost", "sleep 62.01"), shell("kept", "sleep 1.5"))
    pid = running(driver, "lost")
    driver.turn_until(lambda: bool(pids_with("62.01")))
    os.kill(pid, signal.SIGKILL)
    begun = time.monotonic()
    driver.turn_until(lambda: driver.has_result(lost))
    assert time.monotonic() - begun < 1.5
    failure = driver.result(lost).failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.path) == ("error", "internal", "worker")
    assert failure.message == "worker ended by SIGKILL (out of memory?)"
    driver.wait_freed([lost, kept])
    assert not pids_with("62.01"), "its command is ended too"
    assert driver.result(kept).matched
    driver.turn_until(lambda: driver.pool.stats().idle == 3)
    assert driver.pool.stats().restarts == 1
    assert driver.run(shell("next", "true"))[0].matched


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("sys.exit", "worker ended with exit code 3"),
        ("os._exit", "worker ended with exit code 7"),
        ("segfault", "worker ended by SIGSEGV"),
        ("unpicklable", "crashed at http.connect with _Unpicklable: one"),
        ("raise", "crashed at http.connect with RuntimeError: with \\x1b[31m colours and \\ud800"),
        ("memory", "crashed at http.connect with MemoryError"),
    ],
)
def test_s10_whatever_a_checker_does_is_an_internal_error(driver: Driver, what: str, words: str) -> None:
    """Exit, crash or exception: an error of this check, with its cause, and the pool goes on."""
    result, other = driver.run(bad(what), shell("other", "true"))  # type: ignore[arg-type]
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase) == ("error", "internal")
    assert words in result.failure.message
    assert other.matched
    assert driver.run(shell("next", "true"))[0].matched


def test_a_check_that_no_signal_ends_is_killed_a_second_after_its_deadline(driver: Driver) -> None:
    """The verdict has the place at which it hung, and is no internal error."""
    begun = time.monotonic()
    [result] = driver.run(bad("swallow", 0.5))  # type: ignore[arg-type]
    assert 1.4 < time.monotonic() - begun < 3
    assert result.failure is not None
    assert (result.failure.kind, result.failure.phase, result.failure.path) == ("error", "request", "http.connect")
    assert "0.5 s" in result.failure.message
    driver.turn_until(lambda: driver.pool.stats().idle == 3)


def test_a_check_that_the_signal_ends_costs_no_worker(driver: Driver) -> None:
    """The usual end at the deadline."""
    begun = time.monotonic()
    [result] = driver.run(bad("late", 0.3))  # type: ignore[arg-type]
    assert time.monotonic() - begun < 1.3
    assert result.failure is not None
    assert (result.failure.phase, result.failure.path) == ("request", "http.connect")
    assert driver.pool.stats().restarts == 0


def test_a_command_whose_report_was_not_made_is_found(driver: Driver) -> None:
    """A worker that dies between start and report leaves a session leader to the supervisor, which ends it."""
    driver.run(bad("gap"))  # type: ignore[arg-type]
    assert not pids_with("62.13")


def test_a_stopped_worker_costs_no_check(driver: Driver) -> None:
    """What it has not begun goes back to the queue; what it has begun ends at its deadline."""
    for stat in driver.pool.stats().workers[1:]:
        os.kill(stat.pid, signal.SIGSTOP)
    results = driver.run(*(shell(f"t{i}", "true", timeout_s=1) for i in range(6)), seconds=20)
    assert all(result.matched for result in results)
    driver.turn_until(lambda: driver.pool.stats().idle == 3)


# --- cancel and stop --------------------------------------------------------------------------------------------------


def test_a_cancelled_run_ends_without_verdict(driver: Driver) -> None:
    """Its command gets TERM and then KILL, its target is free again, and no result is made up."""
    cancelled, kept = driver.add(shell("c", "trap '' TERM; while :; do sleep 62.02; done"), shell("kept", "sleep 1"))
    running(driver, "c")
    driver.turn_until(lambda: bool(pids_with("62.02")))
    driver.pool.cancel(cancelled)
    begun = time.monotonic()
    driver.wait_freed([cancelled])
    assert time.monotonic() - begun < 3
    assert not driver.has_result(cancelled)
    assert not pids_with("62.02")
    driver.wait_freed([kept])
    assert driver.result(kept).matched


def test_a_run_that_waits_can_be_cancelled() -> None:
    """Whether it waits in the queue or was handed ahead."""
    with driven(1) as driver:
        first, ahead = driver.add(shell("first", "sleep 0.6"), shell("ahead", "echo 62.03"))
        while driver.pool.free():
            driver.turn()
        driver.turn()
        driver.pool.cancel(ahead)
        driver.wait_freed([first, ahead])
        assert driver.result(first).matched
        assert not driver.has_result(ahead)


def test_stop_leaves_nothing() -> None:
    """Workers and commands, those that ignore TERM too, are gone; no verdict is made up."""
    with driven(4) as driver:
        driver.add(*(shell(f"t{i}", "trap '' TERM; sleep 62.04 & while :; do sleep 62.04; done") for i in range(6)))
        driver.turn_until(lambda: len(pids_with("62.04")) >= 8)
        workers = [stat.pid for stat in driver.pool.stats().workers]
        begun = time.monotonic()
        driver.pool.stop(1.0)
        assert time.monotonic() - begun < 4
        assert not pids_with("62.04")
        assert not any(processes.look(pid) for pid in workers)
        assert not driver.finished


# --- start and replacement --------------------------------------------------------------------------------------------


def test_no_worker_at_start_is_an_error_with_a_sentence() -> None:
    """The supervisor can't do anything without workers, so it ends."""
    with (
        pytest.raises(StartError, match=r"no worker process could be started.*exit code 1"),
        driven(2, registry="no.such"),
    ):
        pass


def test_replacement_backs_off_while_workers_cannot_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later failures are retried, 1 s apart at first, and seen; no work is taken meanwhile; then all is well again."""
    module = tmp_path / "fragile_registry.py"
    module.write_text("from tests.pool.registry import CHECKERS\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    with driven(1, registry="fragile_registry") as driver:
        module.write_text("raise RuntimeError('broken')  # and longer than before\n")
        os.kill(driver.pool.stats().workers[0].pid, signal.SIGKILL)
        driver.turn_until(lambda: driver.pool.stats().start_failures >= 2)
        assert driver.pool.free() == 0
        assert "before it was ready: with exit code 1" in driver.pool.stats().last_start_error
        module.write_text("from tests.pool.registry import CHECKERS  # fixed, of yet another length of text\n")
        driver.turn_until(lambda: driver.pool.free() > 0, 15)
        assert driver.run(shell("t", "true"))[0].matched


def test_workers_are_recycled_by_count() -> None:
    """After its share of checks a worker is replaced; no check is lost by that."""
    with driven(2, max_checks=5) as driver:
        results = driver.run(*(make_target(id=f"p{i}", name="pid", type="bad") for i in range(40)))
        assert len({result.status_detail for result in results}) >= 8
        assert driver.pool.stats().recycled >= 6
        assert driver.pool.stats().start_failures == 0


def test_workers_are_recycled_by_memory() -> None:
    """A worker above the limit is replaced after its check."""
    with driven(1, max_memory_bytes=1) as driver:
        results = driver.run(*(make_target(id=f"p{i}", name="pid", type="bad") for i in range(4)))
        assert len({result.status_detail for result in results}) == 4


def test_the_death_of_the_forkserver_fails_no_check() -> None:
    """Running checks go on; later the workers are replaced, one by one, by a new forkserver's."""
    with driven(3) as driver:
        ids = driver.add(*(shell(f"t{i}", "sleep 1") for i in range(3)))
        for i in range(3):
            running(driver, f"t{i}")
        before = {stat.pid for stat in driver.pool.stats().workers}
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
        driver.wait_freed(ids)
        assert all(driver.result(id_).matched for id_ in ids)
        driver.turn_until(lambda: not before & {stat.pid for stat in driver.pool.stats().workers}, 20)
        driver.turn_until(lambda: driver.pool.stats().idle == 3)
        assert driver.run(shell("next", "true"))[0].matched
        assert driver.pool.stats().start_failures == 0


def test_a_worker_that_dies_without_forkserver_still_has_a_cause() -> None:
    """It is our child then, so its status is ours to read."""
    with driven(2) as driver:
        [id_] = driver.add(shell("t", "sleep 62.05"))
        pid = running(driver, "t")
        driver.turn_until(lambda: bool(pids_with("62.05")))
        os.kill(forkserver._forkserver._forkserver_pid, signal.SIGKILL)  # type: ignore[attr-defined]
        driver.turn_until(lambda: (seen := processes.look(pid)) is not None and seen.parent == os.getpid())
        os.kill(pid, signal.SIGKILL)
        driver.wait_freed([id_])
        assert "SIGKILL" in driver.result(id_).failure.message  # type: ignore[union-attr]
        assert not pids_with("62.05")


@pytest.mark.parametrize("without_forkserver", [False, True])
def test_nothing_outlives_a_killed_supervisor(without_forkserver: bool) -> None:
    """SIGKILL to the supervisor: within a second no worker and no command is left."""
    before = set(processes.children())
    code = [sys.executable, "-m", "tests.pool.victim"] + (["without forkserver"] if without_forkserver else [])
    with subprocess.Popen(code, stdout=subprocess.PIPE, text=True) as victim:
        try:
            assert victim.stdout is not None
            pids = [int(word) for word in victim.stdout.readline().split()]
            assert len(pids) >= 3  # an idle worker is replaced when the forkserver dies
            assert len(pids_with("62.06")) >= 4
        finally:
            victim.kill()
    deadline = time.monotonic() + 2
    while left := [pid for pid in pids if (seen := processes.look(pid)) and seen.alive] + pids_with("62.06"):
        assert time.monotonic() < deadline, f"left: {[processes.look(pid) for pid in left]}"
        time.sleep(0.01)
    while left := set(processes.children()) - before:  # this process is a subreaper, so they became ours
        assert time.monotonic() < deadline + 5, f"left: {[processes.look(pid) for pid in left]}"
        for pid in left:
            processes.reap(pid)
        time.sleep(0.01)


# --- giving out work --------------------------------------------------------------------------------------------------


def test_many_checks_all_come_back_once(driver: Driver) -> None:
    """Each run has exactly one verdict and one end, in this order."""
    ids = driver.add(*(make_target(id=f"t{i % 40}", name="fine", type="bad") for i in range(600)))
    driver.wait_freed(ids)
    assert sorted(finished.run.id for _, finished in driver.finished) == sorted(ids)
    assert sorted(id_ for _, id_ in driver.freed) == sorted(ids)


def test_a_check_handed_ahead_does_not_wait_behind_a_slow_one() -> None:
    """It goes to the next worker that has nothing to do."""
    with driven(2) as driver:
        slow = driver.add(shell("s0", "sleep 2"), shell("s1", "sleep 0.2"))
        quick = driver.add(*(make_target(id=f"q{i}", name="fine", type="bad") for i in range(2)))
        begun = time.monotonic()
        driver.wait_freed(quick)
        assert time.monotonic() - begun < 1.2
        driver.wait_freed(slow)


def test_a_check_handed_ahead_survives_the_death_of_its_worker() -> None:
    """It goes back to the queue, and runs once."""
    with driven(1) as driver:
        lost, ahead = driver.add(shell("lost", "sleep 62.07"), shell("ahead", "true"))
        while driver.pool.free():
            driver.turn()
        os.kill(running(driver, "lost"), signal.SIGKILL)
        driver.wait_freed([lost, ahead])
        assert not driver.result(lost).success
        assert driver.result(ahead).matched


def test_a_changed_target_is_run_as_it_is_now(driver: Driver) -> None:
    """The id is the same, the content is what was submitted."""
    for text in ("one", "two", "three", "one"):
        [result] = driver.run(command("same", "sh", "-c", f"echo {text}; exit 1"))
        assert text in result.failure.message  # type: ignore[union-attr]
    driver.pool.forget(frozenset())
    assert driver.run(shell("same", "true"))[0].matched


def test_a_huge_target_does_not_block_the_pool(driver: Driver) -> None:
    """Megabytes of body lie in shared memory; an order is some bytes."""
    huge = make_target(id="huge", name="big", type="bad", settings=b"x" * 5_000_000)
    for stat in driver.pool.stats().workers:
        os.kill(stat.pid, signal.SIGSTOP)
    ids = driver.add(huge)
    begun = time.monotonic()
    driver.turn()
    driver.turn()
    assert time.monotonic() - begun < 1
    for stat in driver.pool.stats().workers:
        os.kill(stat.pid, signal.SIGCONT)
    driver.wait_freed(ids)
    assert driver.result(ids[0]).status_detail == "5000000"


def test_the_wait_in_the_queue_is_told_and_not_part_of_the_duration() -> None:
    """The clock of a check starts when a worker takes it."""
    with driven(1) as driver:
        ids = driver.add(shell("a", "sleep 0.5"), shell("b", "true"))
        driver.wait_freed(ids)
        [first, second] = [finished for _, finished in driver.finished]
        assert first.queued_s < 0.4 < second.queued_s
        assert second.result.duration_ms < 400


def test_workers_import_nothing_more_for_a_check_and_not_the_command_line(driver: Driver) -> None:
    """All that a check needs is preloaded, so its memory is shared; the parent's main module stays out."""
    driver.run(shell("t", "echo hi"))
    [result] = driver.run(make_target(id="m", name="loaded", type="bad"))
    assert result.status_detail == "", result.status_detail


def test_a_stall_of_the_supervisor_kills_nobody(driver: Driver) -> None:
    """Stopped or blocked for longer than any deadline, it looks at the pipes first."""
    ids = driver.add(*(shell(f"t{i}", "true", timeout_s=0.5) for i in range(3)))
    driver.turn()
    time.sleep(2.5)  # the stall itself
    driver.wait_freed(ids)
    assert all(driver.result(id_).matched for id_ in ids)
    assert driver.pool.stats().restarts == 0


def test_descriptors_are_given_back() -> None:
    """A pool that is started and stopped leaves no descriptor open."""
    with driven(2) as driver:
        driver.run(shell("t", "true"))
    before = set(os.listdir("/proc/self/fd"))
    with driven(3) as driver:
        driver.run(*(shell(f"t{i}", "exit 1") for i in range(10)))
        os.kill(driver.pool.stats().workers[0].pid, signal.SIGKILL)
        driver.turn_until(lambda: driver.pool.stats().restarts == 1 and driver.pool.stats().idle == 3)
    assert len(set(os.listdir("/proc/self/fd"))) <= len(before)


def test_stop_twice_is_harmless() -> None:
    """As a shutdown after a failed start may do."""
    with driven(1) as driver:
        driver.pool.stop(0.5)
        driver.pool.stop(0.5)
        assert driver.pool.stats().workers == ()


def test_free_is_nothing_before_and_after(driver: Driver) -> None:
    """No work is welcome when no worker can take it."""
    assert isinstance(driver.pool, Pool)
    assert driver.pool.free() == 3
    driver.pool.stop(0.5)
    assert driver.pool.free() == 0


def test_workers_still_on_their_way_at_the_end_are_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """A pool that stops while it starts workers, as after a kill in `check`, reports no failed start."""
    driver = Driver(16)
    driver.pool.start()
    driver.pool.stop(1.0)
    driver.selector.close()
    assert driver.pool.stats().start_failures == 0
    assert not [record for record in caplog.records if record.message == "worker.start_failed"]
