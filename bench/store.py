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
from typing import ClassVar

from supervisor import state
from supervisor.model import CheckResult, Item, ResolvedTarget, TargetState, Timings
from supervisor.store import histogram
from supervisor.store.connect import FILE_NAME
from supervisor.store.memory import Snapshot
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
            due = result.timestamp_ms + 30_000
            made.append(Item(result, changed.state, target.id, changed.incident, next_due_ms=due))
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
            sizes = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name"
            pages = dict(raw.execute(sizes).fetchall()) if _has_dbstat(raw) else {}
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


# --- a database of any size ------------------------------------------------------------------------------------------

_RESULTS = """
INSERT INTO check_results (target_id, timestamp, success, matched, duration_ms, status_detail, failure, timings)
WITH RECURSIVE slots(n) AS (SELECT :first UNION ALL SELECT n + 1 FROM slots WHERE n + 1 < :last)
SELECT t.id, :start + cast(n * :step AS INTEGER) + t.id * 37 % :jitter, 1,
    (n * 7919 + t.id * 104729) % 1000 >= 3,
    20 + (n * 31 + t.id * 17) % 97 + (n * 13 + t.id) % 7 * 5,
    'HTTP ' || CASE WHEN (n * 7919 + t.id * 104729) % 1000 >= 3 THEN '200' ELSE '503' END,
    CASE WHEN (n * 7919 + t.id * 104729) % 1000 < 3 THEN :failure END,
    CASE WHEN (n * 7919 + t.id * 104729) % 1000 < 3 THEN :timings END
FROM slots CROSS JOIN targets AS t
"""
_ROLLUPS = """
INSERT INTO rollups (target_id, step, bucket, matched, failed, degraded, missed, lost, maintenance, covered_ms,
    duration_sum, duration_min, duration_max, histogram, timings_sum)
SELECT target_id, ?1, timestamp - timestamp % ?1, sum(matched), sum(NOT matched), 0, 0, 0, 0,
    min(?1, cast(count(*) * ?2 AS INTEGER)), sum(duration_ms), min(duration_ms), max(duration_ms),
    histogram_of(duration_ms),
    CASE WHEN ?1 = 3600000 THEN json_object('dns', json_array(0.2 * count(*), count(*)), 'connect',
        json_array(2.0 * count(*), count(*)), 'firstByte', json_array(sum(duration_ms) / 2, count(*))) END
FROM check_results WHERE id > ?3 GROUP BY target_id, timestamp - timestamp % ?1
ON CONFLICT (target_id, step, bucket) DO UPDATE SET matched = matched + excluded.matched,
    failed = failed + excluded.failed, covered_ms = min(step, covered_ms + excluded.covered_ms),
    duration_sum = duration_sum + excluded.duration_sum, duration_min = min(duration_min, excluded.duration_min),
    duration_max = max(duration_max, excluded.duration_max), histogram = merged(histogram, excluded.histogram)
"""
_STATES = """
UPDATE target_states SET state = 'up', since = :start, settled = 'up', last_success = 1, last_matched = 1,
    last_duration_ms = 42.5, last_status_detail = 'HTTP 200', timings = :timings, version = target_id,
    last_timestamp = (SELECT max(timestamp) FROM check_results AS r WHERE r.target_id = target_states.target_id),
    matched_total = (SELECT sum(matched) FROM rollups AS u WHERE u.target_id = target_states.target_id AND step = :day),
    failed_total = (SELECT sum(failed) FROM rollups AS u WHERE u.target_id = target_states.target_id AND step = :day)
"""
_DOWN = """
UPDATE target_states SET state = 'down', settled = 'down', consecutive = 9, last_matched = 0, last_failure = :failure,
    run_started_at = last_timestamp - 600000, since = last_timestamp - 600000, run_first_failure = :failure,
    incident_id = (SELECT max(id) FROM incidents AS i WHERE i.target_id = target_states.target_id)
WHERE target_id % 97 = 0
"""
_INCIDENTS = """
INSERT INTO incidents (target_id, started_at, resolved_at, failures, first_failure, last_failure, notified, resolution)
WITH RECURSIVE days(d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM days WHERE d + 1 < :days)
SELECT t.id, :start + d * 86400000 + t.id * 1000,
    CASE WHEN d + 1 >= :days AND t.id % 97 = 0 THEN NULL ELSE :start + d * 86400000 + t.id * 1000 + 300000 END,
    5, :failure, :failure, 1, CASE WHEN d + 1 >= :days AND t.id % 97 = 0 THEN NULL ELSE 'recovered' END
FROM days CROSS JOIN targets AS t WHERE (d * 31 + t.id) % 23 = 0 OR (d + 1 >= :days AND t.id % 97 = 0)
"""
_FAILURE = (
    '{"kind":"mismatch","phase":"status","path":"expect.status","message":"status 503, expected 200",'
    '"expected":"200","actual":"503"}'
)
_TIMINGS = '{"dns":0.200,"connect":2.000,"firstByte":21.000}'
_ROWS_A_PART = 500_000


class HistogramOf:
    """SQL aggregate: the histogram of a column of durations."""

    _buckets: ClassVar[dict[float, int]] = {}

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}

    def step(self, duration: float) -> None:
        bucket = self._buckets.get(duration)
        if bucket is None:
            bucket = self._buckets[duration] = histogram.bucket_of(duration)
        self.counts[bucket] = self.counts.get(bucket, 0) + 1

    def finalize(self) -> bytes:
        return histogram.encode(self.counts)


def generate(path: Path, targets: int, days: float, step_s: float) -> int:
    """Make the database of a supervisor that has checked so many targets for so long, one result each `step_s`.

    1 in 97 targets is down now, 3 of 1,000 results failed, results end now. Returns the number of results. About 5 µs
    a result: 10 million take a minute.
    """
    now_ms = time.time_ns() // 1_000_000
    slots = math.floor(days * 86400 / step_s)
    start = now_ms - round(slots * step_s * 1000)
    session = Session(path)
    session.open()
    session.write([Snapshot(some_targets(targets), now_ms)], "0")
    session.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.create_aggregate("histogram_of", 1, HistogramOf)
        raw.create_function("merged", 2, lambda one, other: histogram.merge((one, other)))
        raw.execute("PRAGMA synchronous=OFF")  # a file that can be made again
        raw.execute("PRAGMA cache_size=-200000")
        values = {
            "start": start,
            "step": step_s * 1000,
            "failure": _FAILURE,
            "timings": _TIMINGS,
            "days": max(1, int(days)),
        }
        values["day"] = DAY_MS
        values["jitter"] = max(1, int(min(step_s * 1000, 30_000)))
        part = max(1, _ROWS_A_PART // targets)
        last_id = 0
        for first in range(0, slots, part):
            raw.execute("BEGIN")
            raw.execute(_RESULTS, values | {"first": first, "last": min(slots, first + part)})
            for length in (HOUR_MS, DAY_MS):
                raw.execute(_ROLLUPS, (length, step_s * 1000, last_id))
            last_id = raw.execute("SELECT max(id) FROM check_results").fetchone()[0]
            raw.execute("COMMIT")
        raw.execute("BEGIN")
        raw.execute(_STATES, values)
        raw.execute(_INCIDENTS, values)
        raw.execute(_DOWN, values)
        raw.execute("UPDATE targets SET first_result_at = ?", (start,))
        raw.execute("INSERT OR REPLACE INTO meta VALUES ('heartbeat_at', ?)", (str(now_ms),))
        raw.execute("INSERT OR REPLACE INTO meta VALUES ('version', ?)", (str(targets),))
        raw.execute("INSERT OR REPLACE INTO meta VALUES ('source', ?)", (str(uuid.uuid4()),))
        raw.execute("COMMIT")
        raw.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return slots * targets


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=int, default=100_000, help="how many results to write for the figures")
    commands = parser.add_subparsers(dest="command")
    make = commands.add_parser("generate", help="make a database")
    make.add_argument("file", type=Path)
    make.add_argument("--targets", type=int, default=1000)
    make.add_argument("--days", type=float, default=30)
    make.add_argument("--step", type=float, default=259.2)
    given = parser.parse_args()
    if given.command == "generate":
        started = time.perf_counter()
        number = generate(given.file, given.targets, given.days, given.step)
        print(f"{number} results in {time.perf_counter() - started:.1f} s, {given.file.stat().st_size / 1e6:.0f} MB")
        return
    for targets in (10, 100, 1000, 5000):
        measure(targets, given.results)


if __name__ == "__main__":
    main()
