"""What the web app's answers cost beside a floor (B8 - B10, B15): `python -m bench.web`.

The databases are those of bench/generate.py: a week of results (10 million of 1,000 targets), and one that was begun an
hour ago. The application is called in this process, without a socket; CPU of one request. Where the figure is of an
answer made anew, a third of the targets got a new result before, as with a supervisor that checks every 30 s (`all
rows`, `/targets` and `/metrics`: all of them). The floors are measured in the same run, on the same rows and bytes:

page            one SELECT of `meta` and of the highest version (served); a SELECT of the rows and gzip of the page
/targets        a SELECT of the rows, json.dumps and gzip of the same answer (uncached); the fingerprint (cached)
target page     the SELECTs of the same rows
/metrics        a SELECT of the rows and gzip of the same answer

Last, `checkvisor web` as users start it, while results come in: four clients load the page as fast as they can, then 50
times a second. Wall time of each request, those that waited for a page being made included.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flask import Flask
from werkzeug.test import EnvironBuilder, run_wsgi_app

from bench.generate import database, small_database
from bench.rows import FULL, Row, options, quantile, save
from bench.served import served_row
from supervisor import serving
from supervisor.store.connect import FILE_NAME
from supervisor.store.read import DAY_MS, HOUR_MS
from webui import cache, create_app, warm

NEXT_MS = 11_000  # a step of the clock that makes every kept answer old

_ROWS = """
SELECT t.*, s.* FROM targets AS t LEFT JOIN target_states AS s ON s.target_id = t.id
WHERE t.removed_at IS NULL ORDER BY t.position, t.id
"""
_NEW_RESULTS = """
UPDATE target_states SET last_timestamp = :now - target_id * 37 % 20000, next_due_at = :now + 10000,
    last_duration_ms = 20 + (target_id * 17 + :now / 1000) % 97, matched_total = matched_total + 1,
    version = CASE WHEN target_id % 97 = 0 THEN :version ELSE version END
WHERE target_id % :every = :turn % :every
"""
_DAYS = "SELECT * FROM rollups INDEXED BY ix_rollups_target_id_step_bucket WHERE target_id = ? AND step = ?"
_ALL_DAYS = "SELECT target_id, bucket, matched, failed FROM rollups WHERE step = ?"
AGAIN = object()  # what a floor gives that had to prepare itself
T = TypeVar("T")


def cpu_ms(do: Callable[[], T]) -> tuple[float, T]:
    """CPU time of a call, and its answer."""
    begun = time.process_time()
    answer = do()
    return (time.process_time() - begun) * 1000, answer


class Bench:
    """One database with a writer beside it, the application over it, and a clock that the bench moves."""

    def __init__(self, label: str, path: Path, targets: int, repeat: int) -> None:
        self.label, self.path, self.targets, self.repeat = label, path, targets, repeat
        self.raw = sqlite3.connect(path, isolation_level=None)  # keeps the WAL index there, as the supervisor does
        self.raw.execute("PRAGMA synchronous=OFF")
        (beat,) = self.raw.execute("SELECT value FROM meta WHERE key = 'heartbeat_at'").fetchone()
        self.now_ms, self.turn = int(beat), 0
        self._parsed: tuple[bytes, Any] = (b"", None)
        self.new_results(1)
        self.app = self.make_app()

    def make_app(self) -> Flask:
        return create_app(serving.make(database=str(self.path)), now_ms=lambda: self.now_ms)

    def close(self) -> None:
        self.app.extensions["checkvisor"].close()
        self.raw.close()

    def new_results(self, every: int) -> None:
        """Time goes on; one in `every` targets has a new result, some of them another state's version."""
        self.now_ms += NEXT_MS
        self.turn += 1
        values = {"now": self.now_ms, "every": every, "turn": self.turn, "version": self.targets + self.turn}
        self.raw.execute(_NEW_RESULTS, values)
        self.raw.execute("UPDATE meta SET value = ? WHERE key = 'heartbeat_at'", (str(self.now_ms),))

    def get(self, path: str, app: Flask | None = None) -> bytes:
        """Call the application for `path` as gunicorn does; the packed body."""
        environ = EnvironBuilder(path, headers=[("Accept-Encoding", "gzip")]).get_environ()
        chunks, status, _ = run_wsgi_app(app or self.app, environ, buffered=True)
        body = b"".join(chunks)
        if not status.startswith("200"):
            raise SystemExit(f"{path} answered {status}: {body[:300]!r}")
        return body

    def figure(
        self, name: str, path: str, floor: Callable[[bytes], object], *, every: int = 0, start: str = "", times: int = 1
    ) -> Row:
        """Measure one request and its floor in turns, `times` as often as the others. `every`: new results before each;
        `start`: a new process before each, "cold" or "warm" (after the work of warm.py)."""
        took, floors, body = [], [], self.get(path)
        warm.settle()  # as in a worker of the server
        for _ in range(max(3, self.repeat // 3) if start else self.repeat * times):
            app = self.make_app() if start else self.app
            if start == "warm":
                app.extensions["warmer"].prepare()
                app.extensions["warmer"].turn()
            if every:
                self.new_results(every)
            spent, body = cpu_ms(partial(self.get, path, app))
            took.append(spent)
            if start:
                app.extensions["checkvisor"].close()
            plain = gzip.decompress(body) if body.startswith(b"\x1f\x8b") else body
            spent, answer = cpu_ms(partial(floor, plain))
            if answer is AGAIN:
                spent, _ = cpu_ms(partial(floor, plain))
            floors.append(spent)
        p50_ms, floor_ms = statistics.median(took), statistics.median(floors)
        return {
            "name": f"{self.label}, {name}", "p50_ms": p50_ms, "p99_ms": quantile(took, 0.99), "worst_ms": max(took),
            "floor_ms": floor_ms, "ratio": p50_ms / floor_ms, "gzip_kb": len(body) / 1024,
        }  # fmt: skip

    def rows(self) -> list[Any]:
        return self.raw.execute(_ROWS).fetchall()

    def figures(self, *, everything: bool = True) -> Iterator[Row]:
        """All lines of the table for this database, or those that are compared with a big one."""
        key, number = self.raw.execute("SELECT key, id FROM targets ORDER BY id LIMIT 1 OFFSET 7").fetchone()

        def small(_: bytes) -> object:
            return self.raw.execute("SELECT key, value, (SELECT max(version) FROM target_states) FROM meta").fetchall()

        def first(plain: bytes) -> object:
            return self.as_page(plain), self.raw.execute(_ALL_DAYS, (DAY_MS,)).fetchall()

        def of_target(_: bytes) -> object:
            return [self.raw.execute(_DAYS, (number, step)).fetchall() for step in (HOUR_MS, DAY_MS)]

        def light(plain: bytes) -> object:
            return self.rows(), gzip.compress(plain, cache.LIGHT_LEVEL)

        yield self.figure("page rebuilt", "/", self.as_page, every=3)
        yield self.figure("/api/v1/targets uncached", "/api/v1/targets", self.as_json, every=1)
        yield self.figure("target page", f"/targets/{key}", of_target, times=3)
        if not everything:
            return
        yield self.figure("page served", "/", small, times=10)
        yield self.figure("page rebuilt, all rows", "/", self.as_page, every=1)
        yield self.figure("page, first of a process", "/", first, every=3, start="cold")
        yield self.figure("page, first after warm.py", "/", self.as_page, every=3, start="warm")
        yield self.figure("/api/v1/summary", "/api/v1/summary", small, times=10)
        yield self.figure("/api/v1/targets cached", "/api/v1/targets", small, times=10)
        yield self.figure("/metrics", "/metrics", light, every=1)

    def as_page(self, plain: bytes) -> object:
        """The floor of the page."""
        return self.rows(), gzip.compress(plain, cache.PAGE_LEVEL)

    def as_json(self, plain: bytes) -> object:
        """The floor of `/targets`. What the answer holds is parsed once, outside of the figure."""
        if self._parsed[0] != plain:
            self._parsed = plain, json.loads(plain)
            return AGAIN
        answer = json.dumps(self._parsed[1], separators=(",", ":")).encode()
        return self.rows(), gzip.compress(answer, cache.LIGHT_LEVEL)


# --- the command line ------------------------------------------------------------------------------------------------


def show(row: Row) -> None:
    """One line of the table."""
    floor = f"{row['floor_ms']:9.2f} {row['ratio']:6.1f}" if "floor_ms" in row else " " * 16
    print(
        f"{row['name']:<46} {row['p50_ms']:9.2f} {row['p99_ms']:9.2f} {row['worst_ms']:9.2f} {floor}"
        f" {row['gzip_kb']:8.1f}",
        flush=True,
    )


def main() -> None:
    """Make the databases if need be, print the table, write the JSON."""
    parser = options(__doc__)
    parser.add_argument("--repeat", type=int, default=25 if FULL else 9, help="how often each request is measured")
    parser.add_argument("--databases", type=Path, help="a directory for the databases: made once, used again")
    given = parser.parse_args()
    rows: list[Row] = []
    print(f"{'ms per request':<46} {'p50':>9} {'p99':>9} {'worst':>9} {'floor':>9} {'ratio':>6} {'KB gzip':>8}")
    with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as temporary:
        folder = given.databases or Path(temporary)
        big = database(folder, 1000) / FILE_NAME
        for label, file, targets in (
            ("1,000 targets", big, 1000),
            ("5,000 targets", database(folder, 5000) / FILE_NAME, 5000),
            ("1,000 targets, new", small_database(folder, 1000) / FILE_NAME, 1000),
        ):
            with closing(Bench(label, file, targets, given.repeat)) as bench:
                for row in bench.figures(everything="new" not in label):
                    rows.append(row)
                    show(row)
        for name, per_s in (("over HTTP, 4 clients", None), ("over HTTP, 50/s", 50.0)):
            rows.append(served_row(f"1,000 targets, page {name}", big, 30 if FULL else 8, per_s))
            show(rows[-1])
    save(given.json, rows)


if __name__ == "__main__":
    main()
