"""CPU per check of the pool, over the floor: `python -m bench.pool [checks]`. User + system of all processes.

floor     os.posix_spawn + waitpid of /bin/true from one process, no pipes, no session
command   the same program as a check, with pipes, session, deadline, verdict through the pool
noop      a check that does nothing: what the pool, the worker's loop and a result cost
"""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path

from supervisor.checkers.command.settings import CommandSettings
from supervisor.expect.spec import CommandExpect, HttpExpect
from supervisor.model import ResolvedTarget
from tests.make import make_target
from tests.pool.driver import Driver, driven

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WORKERS = 20
TARGETS = 1000


def own_cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def worker_cpu_s(pids: list[int]) -> float:
    """Of the workers and of their commands that were waited for."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        total += sum(int(value) for value in fields[11:15]) * TICK_S
    return total


def floor_us(count: int) -> float:
    begun = own_cpu_s()
    for _ in range(count):
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)
    return (own_cpu_s() - begun) / count * 1e6


def saturated_us(driver: Driver, targets: list[ResolvedTarget], count: int) -> tuple[float, float, float]:
    """(CPU per check, checks per second, of which the supervisor) with as many checks as the pool takes."""
    pids = [stat.pid for stat in driver.pool.stats().workers]
    before = own_cpu_s(), worker_cpu_s(pids), time.monotonic()
    ids = driver.add(*(targets[i % len(targets)] for i in range(count)))
    last = ids[-1]
    while len(driver.freed) < last:
        driver.turn()
    after = own_cpu_s(), worker_cpu_s(pids), time.monotonic()
    own, workers, wall = (b - a for a, b in zip(before, after, strict=True))
    return (own + workers) / count * 1e6, count / wall, own / count * 1e6


def paced_us(driver: Driver, targets: list[ResolvedTarget], per_s: float, seconds: float) -> tuple[float, float, float]:
    """(CPU per check, median and 99th percentile of the delay in ms) at a steady rate."""
    pids = [stat.pid for stat in driver.pool.stats().workers]
    before, first = own_cpu_s() + worker_cpu_s(pids), len(driver.finished)
    count = int(per_s * seconds)
    start = time.monotonic()
    for i in range(count):
        due = start + i / per_s
        while (left := due - time.monotonic()) > 0:
            driver.turn(left)
        driver.add(targets[i % len(targets)])
    while len(driver.freed) < first + count:
        driver.turn()
    delays = sorted(finished.queued_s * 1000 for _, finished in driver.finished[first:])
    used = own_cpu_s() + worker_cpu_s(pids) - before
    return used / count * 1e6, delays[len(delays) // 2], delays[int(len(delays) * 0.99)]


def pss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3000
    noops = [make_target(id=f"n{i}", type="noop", settings=None, expect=HttpExpect()) for i in range(TARGETS)]
    trues = [
        make_target(id=f"t{i}", type="command", settings=CommandSettings("/bin/true"), expect=CommandExpect())
        for i in range(TARGETS)
    ]
    with driven(WORKERS, registry="bench.noop") as driver:
        print(f"floor            {floor_us(count // 3):7.0f} µs")
        used, rate, parent = saturated_us(driver, trues, count)
        print(f"command          {used:7.0f} µs, {rate:6.0f} /s, of which supervisor {parent:.0f} µs")
        used, rate, parent = saturated_us(driver, noops, count * 5)
        print(f"noop             {used:7.0f} µs, {rate:6.0f} /s, of which supervisor {parent:.0f} µs")
        for per_s in (100, 1000):
            used, median, worst = paced_us(driver, noops, per_s, 5)
            print(f"noop at {per_s:4}/s   {used:7.0f} µs, delay p50 {median:.2f} ms, p99 {worst:.2f} ms")
        used, median, worst = paced_us(driver, trues, 200, 5)
        print(f"command at 200/s {used:7.0f} µs, delay p50 {median:.2f} ms, p99 {worst:.2f} ms")
        sizes = [pss_mb(stat.pid) for stat in driver.pool.stats().workers]
        mean, own = sum(sizes) / len(sizes), pss_mb(os.getpid())
        print(f"PSS of a worker  {mean:7.1f} MB, largest {max(sizes):.1f} MB; own {own:.1f}")


if __name__ == "__main__":
    main()
