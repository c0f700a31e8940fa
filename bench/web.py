"""CPU per request of the web app beside a floor (B8 - B10, B15): `python -m bench.web [--targets 1000 --targets 5000]`.

Each database comes from bench.store.generate: 90 days, `--results` in all (10 million take minutes and 1 GB to make).
The application is called in this process, without a socket. Where the figure is of an answer made anew, a third of
the targets got a new result before (`all rows`, `/targets` and `/metrics`: all of them), as with a supervisor that
checks every 30 s. The floors are measured in the same run, on the same rows and bytes:

page            one SELECT of `meta` and of the highest version (served); a SELECT of the rows and gzip of the page
/targets        a SELECT of the rows, json.dumps and gzip of the same answer (uncached); the fingerprint (cached)
target page     the SELECTs of the same rows
/metrics        a SELECT of the rows and gzip of the same answer
"""

from __future__ import annotations

import argparse
import gzip
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from flask import Flask
from werkzeug.test import EnvironBuilder, run_wsgi_app

from bench.store import generate
from supervisor.store.connect import FILE_NAME
from supervisor.store.read import DAY_MS, HOUR_MS
from webui import cache, create_app, settings, warm

DAYS = 90
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
_DAYS = "SELECT * FROM rollups WHERE target_id = ? AND step = ?"
_ALL_DAYS = "SELECT target_id, bucket, matched, failed FROM rollups WHERE step = ?"
AGAIN = object()  # what a floor gives that had to prepare itself
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `floor_ms` is what its floor took in the same run."""

    targets: int
    name: str
    p50_ms: float
    worst_ms: float
    floor_ms: float
    packed_bytes: int

    @property
    def ratio(self) -> float:
        return self.p50_ms / self.floor_ms


def cpu_ms(do: Callable[[], T]) -> tuple[float, T]:
    """CPU time of a call, and its answer."""
    begun = time.process_time()
    answer = do()
    return (time.process_time() - begun) * 1000, answer


class Bench:
    """One database with a writer beside it, the application over it, and a clock that the bench moves."""

    def __init__(self, path: Path, targets: int, repeat: int) -> None:
        self.path, self.targets, self.repeat = path, targets, repeat
        self.raw = sqlite3.connect(path, isolation_level=None)  # keeps the WAL index there, as the supervisor does
        self.raw.execute("PRAGMA synchronous=OFF")
        (beat,) = self.raw.execute("SELECT value FROM meta WHERE key = 'heartbeat_at'").fetchone()
        self.now_ms, self.turn = int(beat), 0
        self._parsed: tuple[bytes, Any] = (b"", None)
        self.new_results(1)
        self.app = self.make_app()

    def make_app(self) -> Flask:
        return create_app(settings.make(database=str(self.path)), now_ms=lambda: self.now_ms)

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
        self, name: str, path: str, floor: Callable[[bytes], object], *, every: int = 0, start: str = ""
    ) -> Figure:
        """Measure one request and its floor in turns. `every`: new results before each; `start`: a new process before
        each, "cold" or "warm" (after the work of warm.py)."""
        took, floors, body = [], [], self.get(path)
        warm.settle()  # as in a worker of the server
        for _ in range(self.repeat):
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
        return Figure(self.targets, name, statistics.median(took), max(took), statistics.median(floors), len(body))

    def rows(self) -> list[Any]:
        return self.raw.execute(_ROWS).fetchall()

    def figures(self) -> Iterator[Figure]:
        """All lines of the table for this database."""
        key, number = self.raw.execute("SELECT key, id FROM targets ORDER BY id LIMIT 1 OFFSET 7").fetchone()

        def small(_: bytes) -> object:
            return self.raw.execute("SELECT key, value, (SELECT max(version) FROM target_states) FROM meta").fetchall()

        def page(plain: bytes) -> object:
            return self.rows(), gzip.compress(plain, cache.PAGE_LEVEL)

        def first(plain: bytes) -> object:
            return page(plain), self.raw.execute(_ALL_DAYS, (DAY_MS,)).fetchall()

        def of_target(_: bytes) -> object:
            return [self.raw.execute(_DAYS, (number, step)).fetchall() for step in (HOUR_MS, DAY_MS)]

        def light(plain: bytes) -> object:
            return self.rows(), gzip.compress(plain, cache.LIGHT_LEVEL)

        yield self.figure("page served", "/", small)
        yield self.figure("page rebuilt", "/", page, every=3)
        yield self.figure("page rebuilt, all rows", "/", page, every=1)
        yield self.figure("page, first of a process", "/", first, every=3, start="cold")
        yield self.figure("page, first after warm.py", "/", page, every=3, start="warm")
        yield self.figure("/api/v1/summary", "/api/v1/summary", small)
        yield self.figure("/api/v1/targets uncached", "/api/v1/targets", self.as_json, every=1)
        yield self.figure("/api/v1/targets cached", "/api/v1/targets", small)
        yield self.figure("target page", f"/targets/{key}", of_target)
        yield self.figure("/metrics", "/metrics", light, every=1)

    def as_json(self, plain: bytes) -> object:
        """The floor of `/targets`. What the answer holds is parsed once, outside of the figure."""
        if self._parsed[0] != plain:
            self._parsed = plain, json.loads(plain)
            return AGAIN
        answer = json.dumps(self._parsed[1], separators=(",", ":")).encode()
        return self.rows(), gzip.compress(answer, cache.LIGHT_LEVEL)


# --- the command line ------------------------------------------------------------------------------------------------


def line(one: Figure) -> str:
    """One line of the table."""
    return (
        f"{one.targets:7} {one.name:26} {one.p50_ms:9.2f} {one.worst_ms:9.2f} {one.floor_ms:9.2f} {one.ratio:6.1f}"
        f" {one.packed_bytes / 1024:8.1f}"
    )


def main() -> None:
    """Make the databases, print the table, write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, action="append", help="of one database; may be repeated")
    parser.add_argument("--results", type=int, default=200_000, help="in each database; the budgets are for 10 million")
    parser.add_argument("--repeat", type=int, default=15, help="how often each request is measured")
    parser.add_argument("--keep", type=Path, help="a directory for the databases: made once, used again")
    parser.add_argument("--json", type=Path, help="write the figures there")
    given = parser.parse_args()
    found: list[Figure] = []
    print(f"{'targets':>7} {'CPU ms per request':26} {'p50':>9} {'worst':>9} {'floor':>9} {'ratio':>6} {'KB gzip':>8}")
    with tempfile.TemporaryDirectory() as temporary:
        for targets in given.targets or (1000, 5000):
            directory = (given.keep or Path(temporary)) / f"{targets}-{given.results}"
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / FILE_NAME
            if not path.exists():
                generate(path, targets, DAYS, DAYS * 86_400 * targets / given.results)
            with closing(Bench(path, targets, given.repeat)) as bench:
                for one in bench.figures():
                    found.append(one)
                    print(line(one), flush=True)
    if given.json:
        figures = [{**asdict(one), "ratio": one.ratio, "results": given.results} for one in found]
        given.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
