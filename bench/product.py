"""The product as users start it, beside floors and peers of the same run: `python -m bench.product`.

A supervisor with 20 workers checks a server on this machine (nginx from Debian if it is there, else our own). Measured
of each scenario, after it has settled:

- CPU: user + system of all its processes for each result *stored*, ended commands included; the median of three parts
- lag: how long after its slot a check began, from the timestamps of all results (to 0.5 ms); beside it the 99th
  percentile of the supervisor's own histogram, linear inside a bucket
- memory: PSS of all processes; `worker_mb` is the median of the workers
- start: with 2,000 targets, the seconds to the first stored result and to one of every target. First checks are spread
  over at most 5 s or the interval: with the interval of 1 s it is the work that is measured, with 30 s the spread too

Floors: a client and a posix_spawn in C (where there is a compiler), a Python socket, `requests`, `subprocess.run`.
Peers: Debian's prometheus-blackbox-exporter at the same rates, and check_http, started for each check.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from bench import floors, peers
from bench.generate import database
from bench.origin import LARGE_WORD, WORD, Origin, origin
from bench.rows import FULL, Row, options, save
from bench.running import Supervised

SETTLE_S, SETTLE_SLOW_S = 4.0, 8.0  # the first round has passed: the second for an interval of 10 s


class Scenario(NamedTuple):
    """So many targets of one kind, each checked once in an interval. `full`: only in `make bench-full`."""

    name: str
    target: dict[str, Any]
    targets: int
    interval_s: int = 1
    workers: int = 20
    full: bool = False
    old_database: bool = False  # on 10 million results instead of an empty database


def scenarios(serving: Origin) -> list[Scenario]:
    """What is measured, in this order."""

    def http(url: str, **expect: Any) -> dict[str, Any]:
        return {"type": "http", "http": {"url": url}, "expect": {"status": [200], **expect}}

    small = http(serving.small_url, body=[{"contains": WORD}])
    secure = http(serving.secure_url, body=[{"contains": WORD}])
    secure["http"]["tls"] = {"caFile": str(serving.ca_file)}
    regex = http(serving.large_url, body=[{"regex": LARGE_WORD}])
    rule = http(serving.large_url, body=[{"json": {"path": "$.status", "equals": "ok"}}])
    command = {"type": "command", "command": {"exec": "/bin/true"}}
    return [
        Scenario("HTTP, 100/s", small, 100),
        Scenario("HTTP, 1,000/s", small, 1000),
        Scenario("HTTP, 1,000/s, 10 million results", small, 1000, old_database=True),
        Scenario("HTTP, saturated", small, 4000),
        Scenario("HTTPS, 100/s", secure, 100),
        Scenario("HTTPS, 400/s", secure, 400),
        Scenario("1 MB regex, 20/s", regex, 20),
        Scenario("1 MB regex, 100/s", regex, 100),
        Scenario("1 MB json, 20/s", rule, 20),
        Scenario("command, 100/s", command, 100),
        Scenario("command, 400/s", command, 400),
        Scenario("1,000 targets at 10 s", small, 1000, 10),
        Scenario("10 targets at 10 s", small, 10, 10, full=True),
        Scenario("100 targets at 10 s", small, 100, 10, full=True),
        Scenario("5,000 targets at 10 s", small, 5000, 10, full=True),
        Scenario("1,000 targets at 10 s, 5 workers", small, 1000, 10, workers=5, full=True),
        Scenario("1,000 targets at 10 s, 100 workers", small, 1000, 10, workers=100, full=True),
    ]


def show(row: Row) -> None:
    """One line."""
    figures = {
        "us": "us a check", "per_s": "/s", "lag_p99_ms": "ms lag p99", "pss_mb": "MB", "worker_mb": "MB a worker",
        "first_s": "s to the first result", "last_s": "s to the last",
    }  # fmt: skip
    told = [f"{row[field]:8.1f} {unit}" for field, unit in figures.items() if field in row]
    print(f"{row['name']:<36}" + " ".join(told) + (f" MISSED {row['missed']}" if row.get("missed") else ""), flush=True)


def measured(folder: Path, serving: Origin, databases: Path, seconds: float, only: str) -> list[Row]:
    """All scenarios whose name contains `only`."""
    rows: list[Row] = []
    for one in scenarios(serving):
        if (one.full and not FULL) or only not in one.name:
            continue
        data = database(databases, 1000) if one.old_database else None
        slow = one.interval_s > 1
        running = Supervised(folder, one.target, one.targets, one.interval_s, one.workers, data)
        rows.append(running.measure(one.name, seconds, SETTLE_SLOW_S if slow else SETTLE_S))
        show(rows[-1])
    small = scenarios(serving)[0].target
    for interval_s in (1, 30) if FULL else (1,):
        if only in (name := f"start, 2,000 targets at {interval_s} s"):
            rows.append(Supervised(folder, small, 2000, interval_s).measure_start(name))
            show(rows[-1])
    return rows


def beside(folder: Path, serving: Origin, seconds: float) -> list[Row]:
    """Floors and peers."""
    count = 4000 if FULL else 1500
    compiled = floors.Compiled(folder)
    rows = floors.http_rows(serving, compiled, count) + floors.command_rows(compiled, count // 4)
    rows += [floors.timer_row(1000, 3), floors.imports_row()]
    rows += peers.blackbox_rows(folder, serving, compiled, min(seconds, 6)) + peers.check_http_rows(serving, count // 8)
    for row in rows:
        show(row)
    return rows


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--seconds", type=float, default=15 if FULL else 5, help="measured time of each scenario")
    parser.add_argument("--only", default="", help="only scenarios with this in their name, nothing beside")
    parser.add_argument("--databases", type=Path, help="a directory for the big database: made once, used again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as name, origin(Path(name)) as serving:
        folder = Path(name)
        print(f"{serving.name}, {given.seconds:g} s each")
        rows = [] if given.only else beside(folder, serving, given.seconds)
        rows += measured(folder, serving, given.databases or folder, given.seconds, given.only)
    save(given.json, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
