"""CPU per check of the pool alone, over floors: `python -m bench.pool`. User + system of all processes, 20 workers.

command       `/bin/true` as a check: pipes, session, deadline and verdict through the pool; nothing is stored
empty         a check that does nothing: what the pool, the worker's loop and a result cost
floors        os.posix_spawn + waitpid of /bin/true from one process; a byte to another process and back over two pipes

`delay` is from when a check was due until its worker took it, at a steady rate.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time

from bench.floors import cpu_us
from bench.proc import cpu_s, live_cpu_s, own_cpu_s, pss_mb
from bench.rows import FULL, Row, options, quantile, save
from supervisor.checkers.command.settings import CommandSettings
from supervisor.expect.spec import CommandExpect, HttpExpect
from supervisor.model import ResolvedTarget
from tests.make import make_target
from tests.pool.driver import Driver, driven

WORKERS, TARGETS = 20, 1000


def empty_targets(number: int) -> list[ResolvedTarget]:
    """Targets of the type in bench/noop.py."""
    return [make_target(id=f"n{i}", type="noop", settings=None, expect=HttpExpect()) for i in range(number)]


class Echo:
    """A process that sends back each byte it gets: the least that work for another process can cost."""

    _SCRIPT = "import os\nwhile os.read(0, 1): os.write(1, b'x')"

    def __init__(self) -> None:
        command = [sys.executable, "-c", self._SCRIPT]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._there, self._back = self._process.stdin.fileno(), self._process.stdout.fileno()

    def ask(self) -> None:
        """One round trip."""
        os.write(self._there, b"x")
        os.read(self._back, 1)

    def us(self, count: int) -> float:
        """CPU of both processes for one round trip."""
        self.ask()  # it has started
        before = own_cpu_s() + live_cpu_s(self._process.pid)
        for _ in range(count):
            self.ask()
        return (own_cpu_s() + live_cpu_s(self._process.pid) - before) / count * 1e6

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def saturated(driver: Driver, targets: list[ResolvedTarget], count: int) -> Row:
    """As many checks as the pool takes."""
    before = cpu_s(os.getpid()), own_cpu_s(), time.monotonic()
    last = driver.add(*(targets[i % len(targets)] for i in range(count)))[-1]
    while len(driver.freed) < last:
        driver.turn()
    after = cpu_s(os.getpid()), own_cpu_s(), time.monotonic()
    used, own, wall = (b - a for a, b in zip(before, after, strict=True))
    return {"us": used / count * 1e6, "per_s": count / wall, "supervisor_us": own / count * 1e6}


def paced(driver: Driver, targets: list[ResolvedTarget], per_s: float, seconds: float) -> Row:
    """At a steady rate."""
    before, first = cpu_s(os.getpid()), len(driver.finished)
    count = int(per_s * seconds)
    start = time.monotonic()
    for i in range(count):
        due = start + i / per_s
        while (left := due - time.monotonic()) > 0:
            driver.turn(left)
        driver.add(targets[i % len(targets)])
    while len(driver.freed) < first + count:
        driver.turn()
    used = cpu_s(os.getpid()) - before
    delays = [finished.queued_s * 1000 for _, finished in driver.finished[first:]]
    return {
        "us": used / count * 1e6, "per_s": per_s,
        "delay_p50_ms": quantile(delays, 0.5), "delay_p99_ms": quantile(delays, 0.99),
    }  # fmt: skip


def measured(count: int, seconds: float) -> list[Row]:
    """All rows."""
    empty = empty_targets(TARGETS)
    trues = [
        make_target(id=f"t{i}", type="command", settings=CommandSettings("/bin/true"), expect=CommandExpect())
        for i in range(TARGETS)
    ]
    echo = Echo()
    trip_us = statistics.median(echo.us(count) for _ in range(5))
    echo.close()
    spawn_us = cpu_us(lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0), count // 3)
    rows: list[Row] = [
        {"name": "floor command, posix_spawn", "us": spawn_us},
        {"name": "floor empty, pipe", "us": trip_us},
    ]
    with driven(WORKERS, registry="bench.noop") as driver:
        rows += [
            {"name": "command, saturated", **saturated(driver, trues, count)},
            {"name": "empty, saturated", **saturated(driver, empty, count * 5)},
            {"name": "empty, 100/s", **paced(driver, empty, 100, seconds)},
            {"name": "empty, 1,000/s", **paced(driver, empty, 1000, seconds)},
            {"name": "command, 200/s", **paced(driver, trues, 200, seconds)},
        ]
        sizes = [pss_mb(stat.pid) for stat in driver.pool.stats().workers]
    rows.append({"name": "memory of a worker", "worker_mb": statistics.median(sizes), "largest_mb": max(sizes)})
    return rows


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--checks", type=int, default=6000 if FULL else 3000)
    parser.add_argument("--seconds", type=float, default=5 if FULL else 3, help="at each steady rate")
    given = parser.parse_args()
    rows = measured(given.checks, given.seconds)
    for row in rows:
        figures = [f"{field} {value:,.2f}" for field, value in row.items() if field != "name"]
        print(f"{row['name']:<28} {', '.join(figures)}")
    save(given.json, rows)


if __name__ == "__main__":
    main()
