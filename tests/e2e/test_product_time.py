"""The rhythm of the checks: at its rate, after a stopped supervisor, after a clock step, beside slow targets."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, checkvisor, configuration, shell, stays, until, web
from tests.servers import HOLD, OK, length, script_server

pytestmark = pytest.mark.slow
FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


def _phase_ms(timestamps: list[int], interval_ms: int = 1000) -> float:
    """How far the starts are from one rhythm, at most."""
    offsets = sorted((stamp - timestamps[-1]) % interval_ms for stamp in timestamps)
    return max(min(offset, interval_ms - offset) for offset in offsets)


def _missed(product: Product) -> dict[str, int]:
    rows = product.rows("SELECT t.key, s.missed_total FROM targets t JOIN target_states s ON s.target_id = t.id")
    return {str(key): int(count) for key, count in rows}


def _accounted(product: Product) -> dict[str, Any]:
    """The counts of the stopped supervisor, which must add up, in the log and in the database."""
    stopped = product.wait_for("supervisor.stopped")
    assert stopped["scheduled"] == stopped["results"] + stopped["missed"] + stopped["cancelled"], stopped
    assert product.rows("SELECT count(*) FROM check_results")[0][0] == stopped["results"]
    assert sum(_missed(product).values()) == stopped["missed"]
    return stopped


def test_200_targets_a_second_on_20_workers(tmp_path: Path) -> None:
    """Every one of 200 targets is checked at its rate for 20 s, or its missed slots are counted."""
    with script_server(lambda _request, _connection: [OK + length(b"ok")]) as server:
        targets = [shell(f"c{n}", "true", command={"exec": "true", "args": []}) for n in range(100)]
        targets += [web(f"h{n}", server.url, expect={"body": [{"contains": "ok"}]}) for n in range(100)]
        config = configuration(targets, runtime={"maxConcurrentChecks": 20})
        with checkvisor(tmp_path, config) as product:
            until(lambda: product.api("summary")["counts"]["up"] == 200, 20, "a first result of each")
            started = time.monotonic()
            first = product.rows("SELECT max(id) FROM check_results")[0][0]
            cpu = sum(os.times()[:2])
            stays(20, lambda: product.process.poll() is None, "it runs")
            took = time.monotonic() - started
            last, metrics = product.rows("SELECT max(id) FROM check_results")[0][0], product.metrics()
            assert product.api("summary")["counts"]["up"] == 200
            assert product.stop()[0] == 0
        stopped, missed = _accounted(product), _missed(product)
        counts = {target["id"]: len(product.stored(target["id"])) for target in targets}
        matched = product.rows("SELECT count(*) FROM check_results WHERE matched = 1")[0][0]
        per_target = [counts[name] + missed[name] for name in counts]
        print(
            f"{(last - first) / took:.1f} results a second over {took:.1f} s; results a target {min(counts.values())}"
            f" to {max(counts.values())}, with missed slots {min(per_target)} to {max(per_target)}; missed"
            f" {stopped['missed']} of {stopped['scheduled']}; not matched {stopped['results'] - matched}; largest lag"
            f" {metrics['checkvisor_schedule_lag_max_seconds']:.3f} s, mean"
            f" {metrics['checkvisor_schedule_lag_seconds_sum'] / stopped['results'] * 1000:.1f} ms; the test itself"
            f" used {sum(os.times()[:2]) - cpu:.1f} s of CPU"
        )
        assert matched == stopped["results"]
        assert max(per_target) - min(per_target) <= 2
        assert min(per_target) >= 20
        assert stopped["missed"] <= stopped["scheduled"] // 10  # a busy machine; each is counted all the same


def test_s02_stopped_supervisor_runs_once_and_finds_its_rhythm(tmp_path: Path) -> None:
    """S02: after 10 intervals of SIGSTOP there is one run a target, then the normal rhythm; the gap is missed slots."""
    targets = [shell(f"t{n}", "true") for n in range(5)]
    with checkvisor(tmp_path, configuration(targets), command="run") as product:
        until(lambda: len(product.stored("t0")) >= 3, 10, "results")
        os.kill(product.process.pid, signal.SIGSTOP)
        stopped_ms = time.time() * 1000
        time.sleep(10)  # the time that is lost is what is tried
        os.kill(product.process.pid, signal.SIGCONT)
        continued_ms = time.time() * 1000
        until(lambda: len([row for row in product.stored("t0") if row[0] > continued_ms]) >= 5, 15, "later results")
        assert product.stop()[0] == 0
        _accounted(product)
        for target in targets:
            stamps = [row[0] for row in product.stored(target["id"])]
            assert not [stamp for stamp in stamps if stopped_ms + 100 < stamp < continued_ms - 100]
            later = [stamp for stamp in stamps if stamp >= continued_ms - 100]
            assert later[0] - continued_ms < 1000
            assert len([stamp for stamp in later if stamp < continued_ms + 1000]) <= 2  # the one run, and a slot
            assert _phase_ms(later[1:]) < 300
            assert 8 <= _missed(product)[target["id"]] <= 11


@pytest.mark.skipif(not FAKETIME.exists(), reason="needs Debian's libfaketime")
def test_s01_wall_clock_steps(tmp_path: Path) -> None:
    """S01: the clock an hour back, then forth: checks go on at their rhythm, nothing is missed, durations and uptime
    stay in range, and rows are ordered by their ids."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    environ = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    targets = [shell("ok", "true"), shell("bad", "false")]
    with checkvisor(tmp_path, configuration(targets), environ=environ) as product:
        for step in ("+0", "-3600", "+3600", "+0"):
            clock.write_text(f"{step}\n")
            before = len(product.stored("ok")), time.monotonic()
            until(lambda seen=before[0]: len(product.stored("ok")) >= seen + 4, 8, f"checks after the step {step}")
            assert time.monotonic() - before[1] > 2.5, "no burst"
        stamps = [row[0] for row in product.stored("ok")]
        assert max(stamps) - min(stamps) > 7_000_000, "the steps were seen"
        assert max(stamps) != stamps[-1]
        assert sum(_missed(product).values()) == 0
        assert product.rows("SELECT min(duration_ms) FROM check_results")[0][0] >= 0
        for target_id, uptime in (("ok", 1.0), ("bad", 0.0)):
            for window in product.target(target_id)["windows"]:
                assert window["uptime"] in (None, uptime), window
                assert window["coverage"] is None or 0 <= window["coverage"] <= 1, window
            assert product.fetch(f"targets/{target_id}")[0] == 200
        assert product.stop()[0] == 0
        _accounted(product)


def test_s07_black_holes_beside_a_fast_target(tmp_path: Path) -> None:
    """S07: 25 targets that never answer on 20 workers: the fast one still has a result within its interval and the
    timeout, and each of its slots is a result or visibly missed."""
    with script_server([HOLD]) as hole:
        holes = [web(f"hole{n}", hole.url, interval="5s", timeout="4s") for n in range(25)]
        config = configuration([*holes, shell("fast", "true")], runtime={"maxConcurrentChecks": 20})
        with checkvisor(tmp_path, config) as product:
            begun = time.time() * 1000
            stays(20, lambda: product.process.poll() is None, "it runs")
            for target in holes:
                last = product.target(target["id"])["lastResult"]
                assert last["failure"]["path"] == "http.headers"
                assert last["durationMs"] < 4500
            assert product.stop()[0] == 0
        _accounted(product)
        stamps = [begun, *(row[0] for row in product.stored("fast")), time.time() * 1000]
        gaps = [after - before for before, after in pairwise(stamps)]
        missed = _missed(product)["fast"]
        print(f"the fast one: {len(stamps) - 2} results, {missed} missed, largest gap {max(gaps[:-1]):.0f} ms")
        assert max(gaps[:-1]) < 1000 + 4000 + 1000
        assert len(stamps) - 2 + missed >= 18


def test_s06_s22_overlap_and_start_to_start(tmp_path: Path) -> None:
    """S03, S06, S22: a check longer than its interval never overlaps itself and its slots count as missed; one that is
    half as long starts at its slots; the supervisor idles meanwhile."""
    log = tmp_path / "log"
    slow = shell("slow", f"echo in >>{log}; sleep 2.5; echo out >>{log}", timeout="9s")
    half = shell("half", "sleep 0.5")
    with checkvisor(tmp_path, configuration([slow, half]), command="run") as product:
        until(lambda: len(product.stored("half")) >= 10, 20, "10 results")
        ticks = Path(f"/proc/{product.process.pid}/stat").read_text().rpartition(")")[2].split()
        assert product.stop()[0] == 0
        _accounted(product)
        lines = log.read_text().split()
        assert lines[: len(lines) // 2 * 2] == ["in", "out"] * (len(lines) // 2)
        stamps = [row[0] for row in product.stored("half")]
        assert _phase_ms(stamps[1:]) < 300
        assert max(after - before for before, after in pairwise(stamps[1:])) < 1500
        assert 4 <= _missed(product)["slow"] <= 10
        assert _missed(product)["half"] <= 1
        assert (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK") < 5
