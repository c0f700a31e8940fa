"""What writing results costs (B11, B15) and how much room they take (B12): `python -m bench.store`.

Passing HTTP results go through the code of the writer's thread (Session.write) in batches of 500, each with its state
and its sums for the hour and the day, committed with synchronous=FULL. CPU and wall time of one; the median of the
batches, so a checkpoint of the log counts as often as it happens in them, and the mean beside it.

- into an empty database, with 10, 100, 1,000 and 5,000 targets: the cost should not depend on their number
- into the big databases of bench/generate.py: nor on what is there already
- through the whole writer, queue and thread: results in a second, as many as it takes
- floor: the same values into a table and its index by `executemany`, same batches, same synchronous

Bytes are of the table and its index, from dbstat, of results that passed.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.generate import database, some_targets
from bench.rows import FULL, Row, options, save
from supervisor import state
from supervisor.model import CheckResult, Item, ResolvedTarget, TargetState, Timings
from supervisor.store.connect import FILE_NAME
from supervisor.store.memory import LIMIT, Snapshot
from supervisor.store.rollup import HOUR_MS
from supervisor.store.session import Session
from supervisor.store.write import Writer

BATCH = 500
INTERVAL_MS = 30_000
_INDEX = "ix_check_results_target_id_timestamp"
_PLAIN = """
CREATE TABLE check_results (id INTEGER PRIMARY KEY, target_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
    success BOOLEAN NOT NULL, matched BOOLEAN NOT NULL, duration_ms FLOAT NOT NULL, status_detail TEXT);
CREATE INDEX ix_check_results_target_id_timestamp ON check_results (target_id, timestamp)
"""


class Source:
    """Passing HTTP results for ever: all targets in turn, 30 s apart, from the beginning of this hour on."""

    def __init__(self, targets: tuple[ResolvedTarget, ...]) -> None:
        self._targets = targets
        self._start_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS
        self._random = random.Random(7)
        self._states: dict[str, TargetState] = {}
        self._position = 0

    def take(self, number: int) -> list[Item]:
        """The next ones."""
        return [self._next() for _ in range(number)]

    def _next(self) -> Item:
        step, place = divmod(self._position, len(self._targets))
        self._position += 1
        target, duration = self._targets[place], self._random.lognormvariate(4, 0.3)
        result = CheckResult(
            target.id,
            self._start_ms + step * INTERVAL_MS + self._random.randrange(1000),
            success=True,
            matched=True,
            duration_ms=duration,
            status_detail="HTTP 200",
            timings=Timings(0.2, duration / 5, None, duration / 2, duration / 10),
        )
        changed = state.transition(self._states.get(target.id, state.initial()), result, state.Policy())
        self._states[target.id] = changed.state
        due = result.timestamp_ms + INTERVAL_MS
        return Item(result, changed.state, target.id, changed.incident, next_due_ms=due)


def timed(write: Callable[[list[Any]], object], rows: list[Any]) -> list[tuple[float, float]]:
    """Write in batches: (CPU, wall) seconds of each batch, for one row of it."""
    parts = []
    for first in range(0, len(rows), BATCH):
        batch = rows[first : first + BATCH]
        cpu, wall = time.process_time(), time.perf_counter()
        write(batch)
        parts.append(((time.process_time() - cpu) / len(batch), (time.perf_counter() - wall) / len(batch)))
    return parts


class Product:
    """The writer's own code on the database at `path`, made anew or continued."""

    def __init__(self, path: Path, targets: int) -> None:
        running = some_targets(targets)
        self._source = Source(running)
        self._session = Session(path)
        self._session.open()
        self._session.write([Snapshot(running, time.time_ns() // 1_000_000)], "0")
        self.write(2 * targets)  # the first two of each target are another matter: a new row, a new state

    def write(self, results: int) -> list[tuple[float, float]]:
        """So many more."""
        return timed(lambda batch: self._session.write(batch, "1"), self._source.take(results))

    def close(self) -> None:
        self._session.close()


class Plain:
    """The floor: nothing but the rows."""

    def __init__(self, path: Path, targets: int) -> None:
        self._targets = targets
        self._source = Source(some_targets(targets))
        self._raw = sqlite3.connect(path, isolation_level=None)
        self._raw.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;" + _PLAIN)

    def write(self, results: int) -> list[tuple[float, float]]:
        """So many more."""
        values = [
            (1 + number % self._targets, one.result.timestamp_ms, True, True, round(one.result.duration_ms), "HTTP 200")
            for number, one in enumerate(self._source.take(results))
            if one.result is not None
        ]
        return timed(self._insert, values)

    def _insert(self, batch: list[Any]) -> None:
        self._raw.execute("BEGIN IMMEDIATE")
        self._raw.executemany("INSERT INTO check_results VALUES (NULL, ?, ?, ?, ?, ?, ?)", batch)
        self._raw.execute("COMMIT")

    def close(self) -> None:
        self._raw.close()


def written_row(name: str, writing: Product | Plain, targets: int, results: int) -> Row:
    """Write so many results and close."""
    with closing(writing):
        used, took = zip(*writing.write(results), strict=True)
    return {
        "name": name, "targets": targets, "results": results,
        "us": statistics.median(used) * 1e6, "mean_us": statistics.mean(used) * 1e6,
        "wall_us": statistics.median(took) * 1e6, "worst_batch_ms": max(took) * BATCH * 1000,
    }  # fmt: skip


def writer_row(name: str, directory: Path, targets: int, results: int) -> Row:
    """Through the queue and the thread, as fast as they take it without dropping anything."""
    running = some_targets(targets)
    made = Source(running).take(results)
    writer = Writer(directory)
    writer.open()
    writer.put_targets(running, 0)
    writer.start()
    cpu, wall = time.process_time(), time.perf_counter()
    for first in range(0, results, LIMIT // 4):
        while writer.stats().queued > LIMIT // 2:
            time.sleep(0.001)
        for item in made[first : first + LIMIT // 4]:
            writer.put(item)
    while writer.stats().queued:
        time.sleep(0.001)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    lost = writer.stats().lost
    writer.flush_and_stop(10)
    return {
        "name": name, "targets": targets, "results": results, "us": cpu / results * 1e6, "per_s": results / wall,
        "lost": lost,
    }  # fmt: skip


def bytes_a_result(path: Path) -> float:
    """Bytes of table and index for one result; nan where SQLite was built without dbstat."""
    with closing(sqlite3.connect(path)) as raw:
        count = raw.execute("SELECT count(*) FROM check_results").fetchone()[0]
        try:
            size = raw.execute(
                "SELECT sum(pgsize) FROM dbstat WHERE name IN ('check_results', ?)", (_INDEX,)
            ).fetchone()[0]
        except sqlite3.OperationalError:
            return float("nan")
    return float(size / count)


def measured(folder: Path, databases: Path, results: int) -> list[Row]:
    """All rows, each printed when it is there."""
    rows: list[Row] = []

    def add(row: Row, path: Path | None = None) -> None:
        if path is not None and (size := bytes_a_result(path)) == size:
            row["bytes"] = size
        rows.append(row)
        show(row)

    plain = folder / "plain.db"
    add(written_row("floor, plain INSERT, 1,000 targets", Plain(plain, 1000), 1000, results), plain)
    for targets in (10, 100, 1000, 5000):
        path = folder / f"{targets}" / FILE_NAME
        path.parent.mkdir()
        add(written_row(f"empty database, {targets:,} targets", Product(path, targets), targets, results), path)
    for targets in (1000, 5000):
        path = database(databases, targets) / FILE_NAME
        add(written_row(f"big database, {targets:,} targets", Product(path, targets), targets, results))
    (folder / "writer").mkdir()
    add(writer_row("whole writer, 1,000 targets", folder / "writer", 1000, results))
    return rows


def show(row: Row) -> None:
    """One line."""
    wall = f", {row['wall_us']:5.1f} us of time" if "wall_us" in row else f", {row['per_s']:,.0f} a second"
    size = f", {row['bytes']:.1f} bytes" if "bytes" in row else ""
    print(f"{row['name']:<36} {row['us']:6.1f} us of CPU a result{wall}{size}", flush=True)


def main() -> None:
    parser: argparse.ArgumentParser = options(__doc__)
    parser.add_argument("--results", type=int, default=100_000 if FULL else 30_000, help="written for each figure")
    parser.add_argument("--databases", type=Path, help="a directory for the big databases: made once, used again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as name:
        save(given.json, measured(Path(name), given.databases or Path(name), given.results))


if __name__ == "__main__":
    main()
