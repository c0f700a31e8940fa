"""Ratios that a test guards: CPU of one piece of the product's work over CPU of a floor, never a time.

Work and floor take turns, and the least of each counts: what else the machine does makes a turn longer, never shorter.
The bounds are about twice what was measured, so they fail on a doubling, not on noise. tests/bench/test_guard.py.
"""

from __future__ import annotations

import gzip
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench import pool, store, web
from bench.floors import raw_client
from bench.generate import small_database
from bench.http_check import checked, target
from bench.origin import WORD, own
from bench.proc import own_cpu_s
from supervisor.checkers.command.settings import CommandSettings
from supervisor.checkers.http import HttpChecker
from supervisor.checkers.http.settings import TlsSettings
from supervisor.expect.spec import CommandExpect
from supervisor.store.connect import FILE_NAME
from tests.make import make_target
from tests.pool.driver import driven

TURNS = 9
HTTP_MOST, HTTPS_MOST = 5.0, 2.5

Turn = Callable[[], float]
"""One turn: does the work many times and gives the CPU seconds of one, children included."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Work and its floor; `most` is the ratio that must not be exceeded."""

    work: Turn
    floor: Turn
    most: float

    def ratio(self, turns: int = TURNS) -> float:
        """The least of the work over the least of the floor, after a turn of each that warms up."""
        found = [(self.work(), self.floor()) for _ in range(turns + 1)][1:]
        return min(work for work, _ in found) / min(floor for _, floor in found)

    def complaint(self, turns: int = TURNS) -> str | None:
        """A sentence if the bound is exceeded. What seems too much is measured once more: a busy machine, perhaps."""
        found = self.ratio(turns)
        if found > self.most:
            found = min(found, self.ratio(turns * 2))
        if found <= self.most:
            return None
        return f"costs {found:.1f} times its floor, at most {self.most:g} is expected: look at what was changed last"


def repeated(work: Callable[[], object], count: int) -> Turn:
    """A turn of `count` calls."""

    def turn() -> float:
        before = own_cpu_s()
        for _ in range(count):
            work()
        return (own_cpu_s() - before) / count

    return turn


@contextmanager
def http(folder: Path) -> Iterator[Pair]:
    """One HTTP check without pool and store over a Python socket: 2.7 was measured."""
    checkers = {"http": HttpChecker()}
    with own(folder) as origin:
        it = target(origin.small_url, WORD)
        floor = raw_client(origin.http, "small", WORD)
        yield Pair(repeated(partial(checked, checkers, it), 200), repeated(floor, 200), HTTP_MOST)


@contextmanager
def https(folder: Path) -> Iterator[Pair]:
    """One HTTPS check over a Python socket with one context for all: 1.3 was measured."""
    checkers = {"http": HttpChecker()}
    with own(folder) as origin:
        it = target(origin.secure_url, WORD, TlsSettings(ca_file=str(origin.ca_file)))
        context = ssl.create_default_context(cafile=str(origin.ca_file))
        floor = raw_client(origin.https, "small", WORD, context)
        yield Pair(repeated(partial(checked, checkers, it), 40), repeated(floor, 40), HTTPS_MOST)


@contextmanager
def command(_folder: Path) -> Iterator[Pair]:
    """One command check through the pool over posix_spawn: 1.6 was measured."""
    true = make_target(type="command", settings=CommandSettings("/bin/true"), expect=CommandExpect())

    def spawn() -> None:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

    with driven(2, registry="bench.noop") as driver:
        yield Pair(lambda: pool.saturated(driver, [true], 60)["us"] / 1e6, repeated(spawn, 60), 3.2)


@contextmanager
def empty(_folder: Path) -> Iterator[Pair]:
    """A check that does nothing, through the pool, over a byte to another process and back: 7 was measured."""
    targets = pool.empty_targets(20)  # and few checks a turn: a worker that is replaced after 10,000 would spoil one
    with closing(pool.Echo()) as echo, driven(2, registry="bench.noop") as driver:
        yield Pair(lambda: pool.saturated(driver, targets, 300)["us"] / 1e6, lambda: echo.us(300) / 1e6, 16.0)


@contextmanager
def write(folder: Path) -> Iterator[Pair]:
    """Writing one result with state and rollups over a plain INSERT of the same values: 6 was measured."""
    targets = 300
    with (
        closing(store.Product(folder / FILE_NAME, targets)) as product,
        closing(store.Plain(folder / "plain.db", targets)) as plain,
    ):
        yield Pair(lambda: min(product.write(3000))[0], lambda: min(plain.write(3000))[0], 13.0)


@contextmanager
def state(folder: Path) -> Iterator[Pair]:
    """The state of 1,000 targets as JSON over SELECT, json.dumps and gzip of the same answer: 1.5 was measured."""
    with _web(folder) as bench:
        yield _of(bench, "/api/v1/targets", bench.as_json, 3.0)


@contextmanager
def page(folder: Path) -> Iterator[Pair]:
    """The page of 1,000 targets made anew, over a SELECT of its rows and gzip: 4.2 was measured."""
    with _web(folder) as bench:
        yield _of(bench, "/", bench.as_page, 9.0)


@contextmanager
def _web(folder: Path) -> Iterator[web.Bench]:
    with closing(web.Bench("guard", small_database(folder, 1000) / FILE_NAME, 1000, 1)) as bench:
        yield bench


def _of(bench: web.Bench, path: str, floor: Callable[[bytes], object], most: float) -> Pair:
    """A request after new results of all targets, and its floor on the same answer."""

    def work() -> float:
        bench.new_results(1)
        return repeated(lambda: bench.get(path), 1)()

    def beneath() -> float:
        plain = gzip.decompress(bench.get(path))
        floor(plain)  # it may have to prepare itself
        return repeated(lambda: floor(plain), 1)()

    return Pair(work, beneath, most)


GUARDED = {one.__name__: one for one in (http, https, command, empty, write, state, page)}
