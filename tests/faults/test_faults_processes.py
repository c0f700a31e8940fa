"""What happens to processes and what they need: memory, descriptors, names; and a reload that can't be used."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.cgroups import memory_group
from tests.e2e.product import children, command_line, configuration, shell, state_of, until, write_config
from tests.faults.faults import board, end, hook, life, metric, reach, receiver, state
from tests.servers import OK, script_server

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def _workers(supervisor: int) -> set[int]:
    """The worker processes: what the forkserver has forked."""
    return {
        worker
        for pid in children(supervisor)
        if "forkserver" in command_line(pid)
        for worker in children(pid)
        if state_of(worker) not in "ZX"
    }


def test_worker_over_its_memory_limit(tmp_path: Path) -> None:
    """The kernel kills a worker that reads a huge body under a memory limit: that check is an error which names
    SIGKILL and memory; all other checks match, the worker is replaced, and the page's history has no hole."""
    body = b"x" * (1 << 20)
    large = OK + b"Content-Length: %d\r\n\r\n" % (90 << 20)
    go = threading.Event()
    with memory_group(60 << 20) as group, script_server([large, lambda _sock: go.wait(60), (body,) * 90]) as server:
        greedy = {
            "id": "greedy", "name": "greedy", "type": "http", "interval": "60s", "timeout": "50s",
            "http": {"url": server.url}, "expect": {"body": [{"contains": "y"}]},
        }  # fmt: skip
        others = [shell(f"t{n}", "true") for n in range(5)]
        with life(tmp_path, configuration([greedy, *others], runtime={"maxConcurrentChecks": 3})) as product:
            until(lambda: server.requests, 20, "the request")
            for pid in _workers(product.process.pid):
                group.take(pid)
            go.set()
            until(lambda: product.stored("greedy"), 60, "the verdict")
            failure = product.rows("SELECT failure FROM check_results WHERE NOT matched")
            assert len(failure) == 1, "one check paid for it"
            assert '"kind":"error"' in failure[0][0]
            assert "SIGKILL" in failure[0][0]
            assert "memory" in failure[0][0]
            before = len(product.stored("t0"))
            until(lambda: len(product.stored("t0")) >= before + 3, 20, "later results")
            assert metric(product, "pool_restarts_total") == group.killed() == 1
            end(product)
        assert product.rows("SELECT count(*) FROM check_results WHERE NOT matched") == [(1,)]


def test_forkserver_and_workers_killed(tmp_path: Path) -> None:
    """The forkserver is killed, then every worker at once: each running check of a killed worker is one error that
    names the signal, no other check fails, everything is replaced; nothing stored is lost and nothing is left over."""
    targets = [shell("slow", "sleep 3"), *(shell(f"t{n}", "true") for n in range(6))]
    with life(tmp_path, configuration(targets, defaults={"timeout": "9s", "failureThreshold": 3})) as product:
        reach(product, "t0", "up")
        for pid in children(product.process.pid):
            if "forkserver" in command_line(pid):
                os.kill(pid, signal.SIGKILL)
        before = len(product.stored("t0"))
        until(lambda: len(product.stored("t0")) >= before + 3, 30, "results after the forkserver's end")
        assert product.rows("SELECT count(*) FROM check_results WHERE NOT matched") == [(0,)]
        until(lambda: product.running("sleep 3"), 20, "the slow command")
        workers = {pid for pid in product.processes() - {product.process.pid} if "forkserver" in command_line(pid)}
        assert workers
        for pid in workers:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        before = len(product.stored("t0"))
        until(lambda: len(product.stored("t0")) >= before + 4, 40, "results after the workers' end")
        failures = product.rows("SELECT failure FROM check_results WHERE NOT matched")
        assert 1 <= len(failures) <= len(targets)
        assert all('"phase":"internal"' in row[0] and "SIGKILL" in row[0] for row in failures), failures
        assert not [pid for pid in children(product.process.pid) if state_of(pid) == "Z"]
        assert {state(product, target["id"]) for target in targets} <= {"up", "failing"}
        end(product)


@contextmanager
def _silent_resolver(folder: Path) -> Iterator[tuple[str, ...]]:
    """A name server that never answers; the command under which a program has no other."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("another resolv.conf needs root and unshare")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        try:
            silent.bind(("127.9.9.9", 53))
        except OSError as error:
            pytest.skip(f"port 53 of 127.9.9.9 can't be had: {error.strerror}")
        file = folder / "resolv.conf"
        file.write_text("nameserver 127.9.9.9\noptions timeout:30 attempts:1\n")
        wrap = ("unshare", "-m", "sh", "-c", f'mount --bind "{file}" /etc/resolv.conf && exec "$@"', "sh")
        tried = subprocess.run([*wrap, "true"], capture_output=True)
        if tried.returncode:
            pytest.skip(f"resolv.conf can't be replaced: {tried.stderr.decode().strip()}")
        yield wrap


def test_resolver_that_hangs(tmp_path: Path) -> None:
    """The name server is silent: every check by name ends at its deadline as an error that says so, without a worker
    being killed for it; checks by address keep their rhythm, and a webhook by name delays no other. It comes back:
    nothing to do (the next check looks the name up again)."""
    with _silent_resolver(tmp_path) as wrap, board() as site, receiver() as got:
        named = [
            {**site.target(f"n{n}"), "timeout": "2s", "http": {"url": "http://checkvisor.example/"}} for n in range(6)
        ]
        site.answers |= {"shop": 503}
        hooks = [hook("named", "http://receiver.example/"), hook("good", got.url)]
        config = configuration(
            [*named, site.target("shop"), *(site.target(f"t{n}") for n in range(3))],
            webhooks=hooks,
            runtime={"maxConcurrentChecks": 8},
        )
        with life(tmp_path, config, wrap=wrap) as product:
            until(lambda: len(product.stored("n0")) >= 3, 40, "verdicts")
            rows = product.rows(
                "SELECT r.failure, r.duration_ms FROM check_results AS r JOIN targets AS t ON t.id = r.target_id"
                " WHERE t.key LIKE 'n%'"
            )
            for failure, duration_ms in rows:
                assert '"path":"http.dns"' in failure, failure
                assert '"kind":"error"' in failure
                assert duration_ms < 2000 + 1500
            assert metric(product, "pool_restarts_total") == 0
            assert ("shop", "down") in got.wait(1, 20)
            assert len(product.stored("t0")) >= 4
            assert all(row[2] for row in product.stored("t0"))
            end(product)


def test_descriptor_limit(tmp_path: Path) -> None:
    """A limit too low for the workers is refused at the load with the number that would do, status 2; at the lowest
    limit that is accepted, all workers busy and receivers away, nothing runs out and no check fails for it."""
    with board() as site:
        config = configuration([site.target(f"t{n}") for n in range(20)], runtime={"maxConcurrentChecks": 30})
        write_config(tmp_path, config)
        low = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))"
        start = f"import sys\n{low}\nfrom supervisor.cli import main\nsys.exit(main())"
        done = subprocess.run(
            [sys.executable, "-P", "-c", start, "run", "-c", tmp_path / "config.yaml"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        )  # fmt: skip
        assert done.returncode == 2
        assert b"runtime.maxConcurrentChecks: 30 workers need" in done.stderr
        needed = int(done.stderr.partition(b"workers need ")[2].split()[0])
        assert needed < resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        held = [shell(f"c{n}", "sleep 2") for n in range(30)]
        config = configuration([*config["targets"], *held], runtime={"maxConcurrentChecks": 30})
        prelude = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({needed}, {needed}))"
        with life(tmp_path, config, prelude=prelude) as product:
            until(lambda: metric(product, "pool_busy") >= 25, 40, "busy workers")
            for name in ("c0", "c29", "t0"):
                until(lambda: len(product.stored(name)) >= 3, 60, "results")  # noqa: B023 - called at once
            assert product.rows("SELECT failure FROM check_results WHERE NOT matched") == []
            assert metric(product, "pool_start_failures_total") == 0
            assert metric(product, "loop_errors_total") == 0
            end(product)


def test_broken_reload(tmp_path: Path) -> None:
    """A file that can't be used changes nothing: checks, states and numbers go on, the page, the metric and the
    receiver that asked for it say so; the next good file is taken, and the error is gone from the page."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        hooks = [hook("ops", got.url, events=["down", "up", "reloadFailed"])]
        config = configuration([site.target("shop")], webhooks=hooks)
        with life(tmp_path, config, command="up") as product:
            got.wait(1)
            broken = {**config, "targets": [{**site.target("shop"), "intervall": "1s"}]}
            assert product.reload(broken) is False
            assert got.wait(2)[1] == ("_supervisor", "reloadFailed")
            assert metric(product, "config_last_reload_successful") == 0
            until(lambda: product.api("summary")["supervisor"]["reloadError"], 10, "the error on the page")
            site.answers["shop"] = 200
            assert got.wait(3)[2] == ("shop", "up")
            assert product.reload(config)
            until(lambda: product.api("summary")["supervisor"]["reloadError"] is None, 10, "no error")
            assert metric(product, "config_last_reload_successful") == 1
            product.stop(seconds=25)
        assert product.rows("SELECT count(*) FROM incidents") == [(1,)]
