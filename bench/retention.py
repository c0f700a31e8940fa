"""What deleting a day's results costs while others are written: `python -m bench.retention` (issue 5: 200 ms at most).

The product's own writer runs on the big database of bench/generate.py (10 million results of 1,000 targets) with a
retention that leaves all but the newest 1.4 million: 8.64 million have to go, a day of 1,000 targets at 10 s. Meanwhile
100 results a second are put, each with an event, because the writer calls `committed` for those. Measured: how long the
deletion took, rows a second, and the delay from `put` to committed: median, 99th percentile, largest. The same delays
without a deletion stand beside it: a batch waits up to 50 ms for others.

`--longest` ends it early: then the rate is of what was deleted until then, and the time is extrapolated. The database
is used up: 8.64 million results are gone afterwards.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import threading
import time
from contextlib import closing
from pathlib import Path

from bench.generate import database, some_targets
from bench.rows import FULL, Row, options, quantile, save
from supervisor.model import CheckResult, Event, Item, ResolvedTarget, Retention
from supervisor.state import initial
from supervisor.store.connect import FILE_NAME
from supervisor.store.write import Writer

TARGETS, PER_S = 1000, 100
GONE = 8_640_000
_FOR_EVER_S = 3650 * 86_400.0
_LOOK_S = 0.5


def item(target: ResolvedTarget, number: int) -> Item:
    """A passing result with an event that no endpoint wants."""
    now_ms = time.time_ns() // 1_000_000
    result = CheckResult(target.id, now_ms, success=True, matched=True, duration_ms=12.5, status_detail="HTTP 200")
    body = json.dumps({"id": target.id, "seq": number})
    event = Event(target.id, number, "target.up", now_ms, body, ())
    return Item(result, initial(), target.id, events=(event,), next_due_ms=now_ms + 10_000)


class Delays:
    """Puts results at a steady rate in a thread, and takes the time until each is committed."""

    def __init__(self) -> None:
        self.found: list[float] = []  # ms
        self._put: dict[tuple[str, int], float] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def committed(self, done: Item) -> None:
        """The writer says so."""
        now = time.monotonic()
        for event in done.events:
            self.found.append((now - self._put.pop((event.stream, event.seq))) * 1000)

    def start(self, writer: Writer, targets: tuple[ResolvedTarget, ...], first: int) -> None:
        """Put PER_S results a second, numbered from `first` in each stream."""

        def run() -> None:
            begun = time.monotonic()
            for number in range(10_000_000):
                if self._stop.wait(max(0.0, begun + number / PER_S - time.monotonic())):
                    return
                made = item(targets[number % len(targets)], first + number // len(targets))
                self._put[made.target_id, made.events[0].seq] = time.monotonic()
                writer.put(made)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def stop(self) -> None:
        """No more."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def row(self) -> Row:
        """Their distribution in ms."""
        return {
            "put_p50_ms": quantile(self.found, 0.5), "put_p99_ms": quantile(self.found, 0.99),
            "put_max_ms": max(self.found), "put": len(self.found),
        }  # fmt: skip


def oldest(path: Path) -> tuple[int, int]:
    """(id, timestamp) of the first result."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as raw:
        row = raw.execute("SELECT id, timestamp FROM check_results ORDER BY id LIMIT 1").fetchone()
        return (0, 0) if row is None else (int(row[0]), int(row[1]))


def run(directory: Path, retention: Retention, first_seq: int, seconds: float, before_ms: int = 0) -> Row:
    """The writer with this retention, for `seconds` or, with `before_ms`, until nothing older than that is left."""
    targets = some_targets(TARGETS)
    delays = Delays()
    writer = Writer(directory, retention=retention, committed=delays.committed)
    writer.open()
    writer.put_targets(targets, time.time_ns() // 1_000_000)
    path = directory / FILE_NAME
    begun_id, _ = oldest(path)
    cpu, begun = time.process_time(), time.monotonic()
    writer.start()
    delays.start(writer, targets, first_seq)
    finished = False
    while time.monotonic() - begun < seconds and not finished:
        time.sleep(_LOOK_S)
        finished = oldest(path)[1] >= before_ms > 0
    took_s, cpu = time.monotonic() - begun, time.process_time() - cpu
    deleted = oldest(path)[0] - begun_id
    delays.stop()
    row = {"took_s": took_s, "finished": int(finished), "deleted": deleted, "cpu_s": cpu, **delays.row()}
    writer.flush_and_stop(30)
    return row


def measured(directory: Path, longest_s: float, quiet_s: float) -> list[Row]:
    """Without a deletion, then with it."""
    for_ever = Retention(_FOR_EVER_S, _FOR_EVER_S, _FOR_EVER_S, _FOR_EVER_S)
    quiet = {"name": "writes without deletion", **run(directory, for_ever, 1, quiet_s)}
    with closing(sqlite3.connect(directory / FILE_NAME)) as raw:
        first_id = raw.execute("SELECT min(id) FROM check_results").fetchone()[0]
        statement = "SELECT timestamp FROM check_results WHERE id = ?"
        (before_ms,) = raw.execute(statement, (first_id + GONE,)).fetchone()
    keep_s = (time.time_ns() // 1_000_000 - before_ms) / 1000
    busy = run(directory, Retention(keep_s, _FOR_EVER_S, _FOR_EVER_S, _FOR_EVER_S), 1_000_000, longest_s, before_ms)
    per_s = busy["deleted"] / busy["took_s"]
    return [quiet, {"name": "writes beside the deletion", "per_s": per_s, "whole_s": GONE / per_s, **busy}]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--longest", type=float, default=300 if FULL else 15, help="seconds for the deletion at most")
    parser.add_argument("--databases", type=Path, help="a directory with the big database, which is used up")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as name:
        directory = database(given.databases or Path(name), TARGETS)
        rows = measured(directory, given.longest, 20 if FULL else 8)
    for row in rows:
        print(
            f"{row['name']:<28} put to committed: p50 {row['put_p50_ms']:.0f} ms, p99 {row['put_p99_ms']:.0f} ms, "
            f"largest {row['put_max_ms']:.0f} ms of {row['put']:,}"
        )
    busy = rows[1]
    print(f"{busy['deleted']:,} results deleted in {busy['took_s']:.0f} s, {busy['per_s']:,.0f} a second", end="")
    print("" if busy["finished"] else f"; all {GONE:,} would take {busy['whole_s']:.0f} s")
    save(given.json, rows)


if __name__ == "__main__":
    main()
