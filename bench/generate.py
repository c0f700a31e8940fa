"""Makes the database of a supervisor that has checked for a week, any size: `python -m bench.generate DIRECTORY`.

By default 1,000 targets with one result a minute for seven days: 10.08 million results, in 20 s. Beside the results it
has hourly and daily rollups and incidents of 90 days, and the latest state of each target. 1 in 97 targets is down now,
about 3 of 1,000 results failed. Results end now. It is fast because nothing is journaled or synced (a file that can be
made again), rows come from one statement in their order, and the indexes are made at the end.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path

from bench.rows import FULL, Row, options, save
from supervisor.model import ResolvedTarget
from supervisor.store import histogram
from supervisor.store.connect import FILE_NAME
from supervisor.store.memory import Snapshot
from supervisor.store.rollup import DAY_MS, HOUR_MS
from supervisor.store.session import Session
from tests.make import make_target

DAYS = 90  # of rollups and incidents: what the page shows
_LATE_INDEXES = ("ix_check_results_target_id_timestamp", "ix_rollups_target_id_step_bucket")
_FAILURE = (
    '{"kind":"mismatch","phase":"status","path":"expect.status","message":"status 503, expected 200",'
    '"expected":"200","actual":"503"}'
)
_TIMINGS = '{"dns":0.200,"connect":2.000,"firstByte":21.000}'

# the number of results of target t in the hour `bucket`: all of them, but in the last, begun one
_COUNT = "max(0, min(:per_hour, (:now - bucket - t.id * 37 % :step + :step) / :step))"
# the first result of an hour fails in one of `rare` hours
_FAILED = "((bucket / 3600000 * 31 + t.id * 17) % :rare = 0)"
_HOURS = """
WITH RECURSIVE hours(bucket) AS (SELECT :first UNION ALL SELECT bucket + 3600000 FROM hours WHERE bucket < :last)
"""
_RESULTS = f"""
INSERT INTO check_results (target_id, timestamp, success, matched, duration_ms, status_detail, failure, timings)
{_HOURS}, slots(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM slots WHERE n + 1 < :per_hour)
SELECT t.id, bucket + n * :step + t.id * 37 % :step, 1, NOT (n = 0 AND {_FAILED}),
    20 + (n * 31 + t.id * 17) % 97,
    iif(n = 0 AND {_FAILED}, 'HTTP 503', 'HTTP 200'),
    iif(n = 0 AND {_FAILED}, :failure, NULL), iif(n = 0 AND {_FAILED}, :timings, NULL)
FROM hours CROSS JOIN slots CROSS JOIN targets AS t WHERE n < {_COUNT}
"""
_HOURLY = f"""
INSERT INTO rollups (target_id, step, bucket, matched, failed, degraded, missed, lost, maintenance, covered_ms,
    duration_sum, duration_min, duration_max, histogram, timings_sum)
{_HOURS}, counted AS (SELECT t.id, bucket, {_COUNT} AS number, {_FAILED} AS failed FROM hours CROSS JOIN targets AS t)
SELECT id, 3600000, bucket, number - failed, failed, 0, 0, 0, 0, number * :step, number * 68.0, 20, 116, :histogram,
    format('{{"dns":[%.3f,%d],"connect":[%.3f,%d],"firstByte":[%.3f,%d]}}', 0.2 * number, number, 2.0 * number, number,
        34.0 * number, number)
FROM counted WHERE number > 0
"""
_DAILY = """
INSERT INTO rollups (target_id, step, bucket, matched, failed, degraded, missed, lost, maintenance, covered_ms,
    duration_sum, duration_min, duration_max, histogram)
SELECT target_id, 86400000, bucket - bucket % 86400000 AS day, sum(matched), sum(failed), 0, 0, 0, 0, sum(covered_ms),
    sum(duration_sum), 20, 116, :histogram
FROM rollups WHERE step = 3600000 GROUP BY day, target_id
"""
# days before the hourly rollups begin, each like yesterday, every ninth with more failures
_EARLIER = """
INSERT INTO rollups (target_id, step, bucket, matched, failed, degraded, missed, lost, maintenance, covered_ms,
    duration_sum, duration_min, duration_max, histogram)
WITH RECURSIVE days(day) AS (SELECT :oldest UNION ALL SELECT day + 86400000 FROM days WHERE day + 86400000 < :begin)
SELECT target_id, step, day, matched, iif((target_id + day / 86400000) % 9, failed, 30), 0, 0, 0, 0, covered_ms,
    duration_sum, duration_min, duration_max, histogram
FROM rollups CROSS JOIN days WHERE step = 86400000 AND bucket = :yesterday AND :oldest < :begin
"""
_STATES = """
UPDATE target_states SET state = 'up', since = :start, settled = 'up', last_success = 1, last_matched = 1,
    last_duration_ms = 42.5, last_status_detail = 'HTTP 200', timings = :timings, version = target_id,
    last_timestamp = (SELECT max(timestamp) FROM check_results AS r WHERE r.target_id = target_states.target_id),
    matched_total = days.matched, failed_total = days.failed
FROM (SELECT target_id AS target, sum(matched) AS matched, sum(failed) AS failed FROM rollups WHERE step = :day
    GROUP BY target_id) AS days
WHERE days.target = target_states.target_id
"""
_INCIDENTS = """
INSERT INTO incidents (target_id, started_at, resolved_at, failures, first_failure, last_failure, notified, resolution)
WITH RECURSIVE days(d) AS (SELECT 0 UNION ALL SELECT d + 1 FROM days WHERE d + 1 < :days)
SELECT t.id, :start + d * 86400000 + t.id * 1000,
    CASE WHEN d + 1 >= :days AND t.id % 97 = 0 THEN NULL ELSE :start + d * 86400000 + t.id * 1000 + 300000 END,
    5, :failure, :failure, 1, CASE WHEN d + 1 >= :days AND t.id % 97 = 0 THEN NULL ELSE 'recovered' END
FROM days CROSS JOIN targets AS t WHERE (d * 31 + t.id) % 23 = 0 OR (d + 1 >= :days AND t.id % 97 = 0)
"""
_DOWN = """
UPDATE target_states SET state = 'down', settled = 'down', consecutive = 9, last_matched = 0, last_failure = :failure,
    run_started_at = last_timestamp - 600000, since = last_timestamp - 600000, run_first_failure = :failure,
    incident_id = (SELECT max(id) FROM incidents AS i WHERE i.target_id = target_states.target_id)
WHERE target_id % 97 = 0
"""


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


def make(path: Path, targets: int, per_hour: int, hours: int, hourly_days: float = DAYS, days: int = DAYS) -> int:
    """Make the database: `per_hour` results of each target for `hours` hours, hourly rollups for `hourly_days` and
    daily ones for `days`. Returns the number of results."""
    now_ms = time.time_ns() // 1_000_000
    session = Session(path)
    session.open()
    session.write([Snapshot(some_targets(targets), now_ms)], "0")
    session.close()
    last = now_ms - now_ms % HOUR_MS
    start = now_ms - round(max(days * DAY_MS, hours * HOUR_MS))
    hourly_first = last - round(max(hourly_days * 24, hours) - 1) * HOUR_MS
    values = {
        "now": now_ms,
        "last": last,
        "per_hour": per_hour,
        "step": HOUR_MS // per_hour,
        "rare": max(1, round(1000 / 3 / per_hour)),
        "failure": _FAILURE,
        "timings": _TIMINGS,
        "histogram": histogram.add(20 + n * 31 % 97 for n in range(per_hour)),
        "start": start,
        "days": max(1, days),
        "day": DAY_MS,
        "oldest": last - last % DAY_MS - days * DAY_MS,
        "begin": hourly_first - hourly_first % DAY_MS,
        "yesterday": last - last % DAY_MS - DAY_MS,
    }
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        raw.execute("PRAGMA journal_mode=DELETE").fetchall()  # there is no way from WAL to OFF
        raw.execute("PRAGMA journal_mode=OFF").fetchall()
        for pragma in ("synchronous=OFF", "cache_size=-400000", "temp_store=MEMORY", "threads=2"):
            raw.execute(f"PRAGMA {pragma}").fetchall()
        find = "SELECT sql FROM sqlite_master WHERE name = ?"
        indexes = [raw.execute(find, (name,)).fetchone()[0] for name in _LATE_INDEXES]
        for name in _LATE_INDEXES:
            raw.execute(f"DROP INDEX {name}")
        raw.execute("BEGIN")
        raw.execute(_RESULTS, values | {"first": last - (hours - 1) * HOUR_MS})
        raw.execute(_HOURLY, values | {"first": hourly_first})
        raw.execute(_DAILY, values)
        raw.execute(_EARLIER, values)
        raw.execute("COMMIT")
        for sql in indexes:
            raw.execute(sql)
        raw.execute("BEGIN")
        for statement in (_STATES, _INCIDENTS, _DOWN):
            raw.execute(statement, values)
        raw.execute("UPDATE targets SET first_result_at = ?", (start,))
        meta = {"heartbeat_at": now_ms, "version": targets, "source": uuid.uuid4()}
        raw.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", [(name, str(one)) for name, one in meta.items()])
        raw.execute("COMMIT")
        raw.execute("PRAGMA journal_mode=WAL").fetchall()
        return int(raw.execute("SELECT max(id) FROM check_results").fetchone()[0])


def database(folder: Path, targets: int) -> Path:
    """The data directory with the big database of so many targets (1,000 or 5,000), made at the first call.

    10 million results each; without BENCH_FULL the one of 5,000 targets has a million, and hourly rollups for a week.
    """
    directory = folder / f"big-{targets}"
    if not (directory / FILE_NAME).exists():
        directory.mkdir(parents=True, exist_ok=True)
        whole = FULL or targets <= 1000
        make(directory / FILE_NAME, targets, 60_000 // targets, 168 if whole else 17, DAYS if whole else 7)
    return directory


def small_database(folder: Path, targets: int) -> Path:
    """The data directory of a supervisor that has begun an hour ago."""
    directory = folder / f"new-{targets}"
    if not (directory / FILE_NAME).exists():
        directory.mkdir(parents=True, exist_ok=True)
        make(directory / FILE_NAME, targets, 60_000 // targets, 1, hourly_days=0, days=0)
    return directory


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("directory", type=Path, help="where to; what is there stays")
    parser.add_argument("--targets", type=int, action="append", help="of one database; may be repeated")
    given = parser.parse_args()
    rows: list[Row] = []
    for targets in given.targets or (1000, 5000):
        begun = time.monotonic()
        file = database(given.directory, targets) / FILE_NAME
        with closing(sqlite3.connect(file)) as raw:
            results = raw.execute("SELECT max(id) FROM check_results").fetchone()[0]
        row = {
            "name": f"{targets:,} targets",
            "results": results,
            "took_s": time.monotonic() - begun,
            "mb": file.stat().st_size / 1e6,
        }
        rows.append(row)
        print(f"{row['name']}: {results:,} results in {row['took_s']:.0f} s, {row['mb']:,.0f} MB")
    save(given.json, rows)


if __name__ == "__main__":
    main()
