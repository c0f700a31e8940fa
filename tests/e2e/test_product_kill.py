"""What is killed costs one check at most, and nothing outlives the product."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.product import Product, checkvisor, children, configuration, shell, state_of, until

HUNG = "trap '' TERM; sleep {seconds} & wait; sleep {seconds}"


def _kill_worker_under(product: Product, target_id: str, text: str, number: int) -> tuple[dict[str, object], float]:
    """Kill the worker that runs this; the check's result, and how long that took to be seen in the API."""
    before = len(product.results(target_id))
    worker = product.worker_of(text)
    killed = time.monotonic()
    os.kill(worker, number)
    result = product.results_wait(target_id, before + 1, 10)[before]
    return result, time.monotonic() - killed


def test_killed_worker_costs_its_check_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    """A worker's SIGKILL is an internal error of its check that names the signal, within a second; all others go on;
    then Ctrl-C ends all cleanly while a check hangs."""
    others = [shell(f"ok{number}", "true") for number in range(4)]
    hung = shell("hung", HUNG.format(seconds=4711), timeout="60s", interval="60s")
    config = configuration([hung, *others], runtime={"maxConcurrentChecks": 4})
    with checkvisor(tmp_path, config) as product:
        for target in others:
            product.results_wait(target["id"], 2)
        result, took = _kill_worker_under(product, "hung", "sleep 4711", signal.SIGKILL)
        print(f"the verdict was in the API {took:.2f} s after the kill")
        assert took < 2.0  # designed: 1 s
        failure = result["failure"]
        assert isinstance(failure, dict)
        assert (result["success"], failure["kind"], failure["phase"]) == (False, "error", "internal")
        assert "SIGKILL" in failure["message"]
        until(lambda: not product.running("sleep 4711"), 5, "the end of its command")
        for target in others:
            until(lambda known=target["id"]: len(product.results(known)) >= 5, 10, "later results")
            assert all(found["matched"] for found in product.results(target["id"]))
            assert product.target(target["id"])["totals"]["missed"] == 0
        status, took = product.stop(signal.SIGINT)
        print(f"Ctrl-C took {took:.2f} s")
        assert status == 0
        assert took < 10
        assert product.wait_for("supervisor.stopped")["unwritten"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGSEGV, signal.SIGABRT], ids=lambda n: n.name)
def test_other_signals_to_a_worker(tmp_path: Path, number: signal.Signals) -> None:
    """Whatever ends a worker from outside costs the check that it runs, and the place is taken again."""
    config = configuration([shell("hung", "sleep 4712", timeout="60s", interval="2s")])
    with checkvisor(tmp_path, config) as product:
        result, took = _kill_worker_under(product, "hung", "sleep 4712", number)
        assert took < 3.0
        failure = result["failure"]
        assert isinstance(failure, dict)
        assert failure["phase"] == "internal"
        until(lambda: product.running("sleep 4712"), 10, "the next check")
        assert product.stop()[0] == 0


def test_killed_supervisor_leaves_nothing(tmp_path: Path) -> None:
    """After the supervisor's SIGKILL no worker and no command is left within a second, busy or hung."""
    targets = [
        *(shell(f"hung{number}", HUNG.format(seconds=4713), timeout="60s") for number in range(4)),
        *(shell(f"ok{number}", "sleep 0.1") for number in range(4)),
    ]
    config = configuration(targets, runtime={"maxConcurrentChecks": 8})
    with checkvisor(tmp_path, config, command="run") as product:
        until(lambda: len(product.running("sleep 4713")) >= 8, 10, "four hung commands")
        assert product.supervisor() == product.process.pid
        killed = time.monotonic()
        product.process.kill()
        product.process.wait(5)
        product.assert_gone(2.0)  # designed: 1 s
        print(f"all gone {time.monotonic() - killed:.2f} s after the kill")


@pytest.mark.slow
def test_killed_supervisor_ends_up_as_well(tmp_path: Path) -> None:
    """`up` does not go on without its supervisor: the page ends too, and the status tells of the signal."""
    with checkvisor(tmp_path, configuration([shell("hung", "sleep 4714", timeout="60s")])) as product:
        until(lambda: product.running("sleep 4714"), 10, "the command")
        os.kill(product.supervisor(), signal.SIGKILL)
        assert product.process.wait(10) == 128 + signal.SIGKILL
        product.assert_gone(2.0)


@pytest.mark.slow
def test_killed_forkserver_fails_no_running_check(tmp_path: Path) -> None:
    """The forkserver's death costs no check; workers are still replaced afterwards."""
    targets = [shell("slow", "sleep 2"), *(shell(f"ok{number}", "true") for number in range(4))]
    with checkvisor(tmp_path, configuration(targets), command="run") as product:
        until(lambda: len(product.stored("ok0")) >= 2, 10, "results")
        for pid in children(product.process.pid):
            if "forkserver" in Path(f"/proc/{pid}/cmdline").read_text():
                os.kill(pid, signal.SIGKILL)
        before = len(product.stored("ok0"))
        until(lambda: len(product.stored("ok0")) >= before + 4, 15, "later results")
        os.kill(product.worker_of("sleep 2"), signal.SIGKILL)
        until(lambda: len(product.stored("slow")) >= 4, 20, "results of the slow one")
        rows = [row for target in targets for row in product.stored(target["id"])]
        assert sum(not matched for _, _, matched in rows) <= 1  # the one whose worker we killed
        zombies = [pid for pid in children(product.process.pid) if state_of(pid) == "Z"]
        assert not zombies
        assert product.stop()[0] == 0
