"""What runs away ends at its deadline, and what fails leaks nothing: E30, S19."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.e2e.product import Product, checkvisor, children, configuration, descriptors, shell, stays, until, web
from tests.servers import OK, RST, closed_port, length, script_server

pytestmark = pytest.mark.slow


def test_e30_quadratic_selector_is_killed_by_the_pool(tmp_path: Path) -> None:
    """E30: a selector that no signal can end costs its own check: the pool kills the worker at the deadline and the
    failure names the stage; the others keep their rhythm."""
    page = b"<ul>" + b"<li>x</li>" * 40_000 + b"</ul>"
    with script_server(lambda _request, _connection: [OK + length(page, b"Content-Type: text/html")]) as server:
        rules = [{"contains": "<li>"}, {"css": {"selector": "li:nth-of-type(3)"}}]
        slow = web("slow", server.url, timeout="1s", interval="4s", expect={"body": rules})
        config = configuration([slow, *(shell(f"ok{n}", "true") for n in range(3))])
        with checkvisor(tmp_path, config) as product:
            results = product.results_wait("slow", 2, 25)
            for result in results:
                failure = result["failure"]
                assert (failure["kind"], failure["phase"]) == ("error", "body"), result
                assert failure["path"].startswith("expect.body[1].css"), result
                assert result["durationMs"] < 1000 + 1500 + 500
            print(f"{results[0]['durationMs']:.0f} ms: {results[0]['failure']['message']}")
            assert len(product.results("ok0")) >= 4
            until(lambda: product.metrics()["checkvisor_pool_restarts_total"] >= 2, 10, "replaced workers")
            assert product.stop()[0] == 0


def _open(product: Product) -> tuple[int, int, int]:
    """Descriptors of the supervisor, of its busiest child, and how many children it has."""
    pids = children(product.process.pid)
    return descriptors(product.process.pid), max(descriptors(pid) for pid in pids), len(pids)


def test_s19_descriptors_stay_flat_over_1000_failing_checks(tmp_path: Path) -> None:
    """S19: refused, reset, cut off, missing and hung: after 1000 failing checks as many descriptors are open as
    before, in the supervisor and in its workers."""
    cut = OK + length(b"12345").replace(b": 5", b": 50")
    with script_server([cut]) as short, script_server([RST]) as reset:
        rule = {"body": [{"contains": "x"}]}
        targets = [web(f"refused{n}", f"http://127.0.0.1:{closed_port()}/") for n in range(30)]
        targets += [web(f"reset{n}", reset.url) for n in range(30)]
        targets += [web(f"cut{n}", short.url, expect=rule) for n in range(30)]
        targets += [shell(f"missing{n}", "", command={"exec": "/no/such"}) for n in range(15)]
        targets += [shell(f"fails{n}", "exit 3") for n in range(15)]
        targets += [shell(f"hangs{n}", "sleep 9", timeout="200ms") for n in range(2)]
        config = configuration(targets, runtime={"maxConcurrentChecks": 6})

        def failed() -> int:
            return int(product.rows("SELECT count(*) FROM check_results WHERE matched = 0")[0][0])

        with checkvisor(tmp_path, config, command="run") as product:
            until(lambda: failed() > 250, 30, "some failures")
            before = _open(product)
            until(lambda: failed() > 1250, 60, "1000 failures more")
            tried = []

            def flat() -> bool:
                tried.append(_open(product))
                return all(abs(now - then) <= 5 for now, then in zip(tried[-1], before, strict=True))

            until(flat, 5, f"as many descriptors as before ({before})")
            print(f"descriptors of supervisor and worker, and children: {before}, after 1000 failures {tried[-1]}")
            assert product.rows("SELECT count(*) FROM check_results WHERE matched = 1")[0][0] == 0
            assert product.stop()[0] == 0


def test_idle_supervisor_sleeps(tmp_path: Path) -> None:
    """A supervisor whose targets are all far away uses next to no CPU, and stops at once."""
    targets = [shell(f"t{n}", "true", interval="1h") for n in range(50)]
    with checkvisor(tmp_path, configuration(targets), command="run") as product:
        until(lambda: product.rows("SELECT count(*) FROM check_results")[0][0] == 50, 20, "the first round")

        def ticks() -> int:
            fields = Path(f"/proc/{product.process.pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        before = ticks()
        stays(5, lambda: product.process.poll() is None, "it runs")
        used = ticks() - before
        print(f"{used * 10} ms of CPU in 5 s; {descriptors(product.process.pid)} descriptors")
        assert used < 50
        started = time.monotonic()
        assert product.stop()[0] == 0
        assert time.monotonic() - started < 4
