"""The store's benchmark: what writing one result costs (B11) and how much room it takes (B12); and a generator.

    python -m bench.store                      # writes results through the writer's own code, prints the figures
    python -m bench.store generate FILE --targets 1000 --days 30 --step 259.2    # a database with 10 million results
"""

from __future__ import annotations

import argparse
import math
import random
import sqlite3
import tempfile
import time
import uuid
from contextlib import closing
from pathlib import Path

from supervisor import state
from supervisor.model import CheckResult, Item, ResolvedTarget, TargetState, Timings
from supervisor.store import histogram
from supervisor.store.connect import FILE_NAME, writer_engine
from supervisor.store.memory import Snapshot
from supervisor.store.migrate import migrate
from supervisor.store.rollup import DAY_MS, HOUR_MS
from supervisor.store.session import Session
from tests.make import make_target

BATCH = 500


# --- figures ---------------------------------------------------------------------------------------------------------


def some_targets(number: int) -> tuple[ResolvedTarget, ...]:
    """Targets in 10 groups, every third a command."""
    return tuple(
        make_target(
            id=f"target-{n:05}",
            name=f"Target {n}",
            type="command" if n % 3 == 0 else "http",
            group=f"Group {n % 10}",
            summary=f"https://service-{n}.example.org/health",
            config_json='{"expect":{"status":[200]}}',
        )
        for n in range(number)
    )


def items(targets: tuple[ResolvedTarget, ...], rounds: int, start_ms: int) -> list[Item]:
    """Passing HTTP results, all targets in turn, 30 s apart."""
    source = random.Random(7)
    states: dict[str, TargetState] = {}
    made = []
    for step in range(rounds):
        for target in targets:
            duration = source.lognormvariate(4, 0.3)
            result = CheckResult(
                target.id,
                start_ms + step * 30_000 + source.randrange(1000),
                success=True,
                matched=True,
                duration_ms=duration,
                status_detail="HTTP 200",
                timings=Timings(0.2, duration / 5, None, duration / 2, duration / 10),
            )
            changed = state.transition(states.get(target.id, state.initial()), result, state.Policy())
            states[target.id] = changed.state
            made.append(Item(result, changed.state, target.id, changed.incident, next_due_ms=result.timestamp_ms + 30_000))
    return made


def measure(targets: int, results: int) -> None:
    """Write so many results of so many targets in batches of 500; print what one costs."""
    running = some_targets(targets)
    made = items(running, max(1, results // targets), 1_750_000_000_000 - 1_750_000_000_000 % DAY_MS)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / FILE_NAME
        session = Session(path)
        session.open()
        session.write([Snapshot(running, 0)], "0")
        session.write(made[:targets], "1")
        empty = path.stat().st_size
        started, used = time.perf_counter(), time.process_time()
        written = made[targets:]
        for number in range(0, len(written), BATCH):
            session.write(written[number : number + BATCH], str(number))
        took, used = time.perf_counter() - started, time.process_time() - used
        session.close()
        with closing(sqlite3.connect(path)) as raw:
            pages = dict(raw.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()) if _has_dbstat(raw) else {}
        raw_bytes = sum(pages.get(name, 0) for name in ("check_results", "ix_check_results_target_id_timestamp"))
        each = raw_bytes / len(made) if raw_bytes else float("nan")
        print(
            f"{targets:6} targets {len(written):8} results: {took / len(written) * 1e6:6.1f} µs a result"
            f" ({used / len(written) * 1e6:5.1f} µs CPU), {each:5.1f} bytes a result with index,"
            f" {(path.stat().st_size - empty) / len(written):6.1f} with rollups"
        )


def _has_dbstat(raw: sqlite3.Connection) -> bool:
    try:
        raw.execute("SELECT 1 FROM dbstat LIMIT 1").fetchone()
    except sqlite3.OperationalError:
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000)
    measure_at = parser.parse_args()
    for targets in (10, 100, 1000, 5000):
        measure(targets, measure_at.results)


if __name__ == "__main__":
    main()
