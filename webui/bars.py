"""The geometry of the small pictures in a row: one bar a day, the line of the last hours. Pure: counts in, paths out.

A day without failures is no path at all: all such days are one symbol drawn once for the whole page. Colour is never
the only sign: a worse day is a taller bar, a day without data a flat line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from supervisor.store.read import DayRow, RollupRow

PITCH = 2  # width of a day
HEIGHT = 16
GOOD_TOP = 6  # a good day is 10 high
_SOME_TOP, _MUCH_TOP = 3, 0
_MUCH = 0.05  # a day with this part of its results failed is drawn at full height
RANKS = {"empty": 0, "maintenance": 1, "good": 2, "some": 3, "much": 4}
_NOT_GOOD = re.compile(rb"\x00+|[^\x02]")  # a run of empty days, or one other
SPARK_POINTS = 12
SPARK_WIDTH = 4
SPARK_LEVELS = 8


class Bars(NamedTuple):
    """Paths to be stroked one wide; "" where there is nothing to draw. `empty` is filled: it covers good days;
    `line` is what is drawn there instead."""

    empty: str = ""
    line: str = ""
    maintenance: str = ""
    some: str = ""
    much: str = ""
    words: str = ""


def severity(row: DayRow | RollupRow | None) -> str:
    """What a day was: empty, good, some (failures or warnings), much, or maintenance alone."""
    if row is None:
        return "empty"
    judged = row.matched + row.failed
    if judged == 0:
        return "maintenance" if row.maintenance else "empty"
    if row.failed == 0:
        return "some" if row.degraded else "good"
    return "much" if row.failed / judged >= _MUCH else "some"


_DRAWN = {RANKS["maintenance"]: GOOD_TOP, RANKS["some"]: _SOME_TOP, RANKS["much"]: _MUCH_TOP}


@lru_cache(maxsize=4096)
def drawn(ranks: bytes) -> Bars:
    """The days of one target (or group) by their ranks, oldest first.

    Most targets have the same days (all good, or none before they were added): those are drawn once. 25 us else.
    """
    paths: dict[int, list[str]] = {rank: [] for rank in _DRAWN}
    empty, line = "", ""
    for run in _NOT_GOOD.finditer(ranks):
        at, days = run.start(), run.group()
        if days[0] == RANKS["empty"]:
            width = len(days) * PITCH
            empty += f"M{at * PITCH} 0h{width}v{HEIGHT}h-{width}z"
            line += f"M{at * PITCH} 15h{width}"
        else:
            paths[days[0]].append(f"M{at * PITCH + 1} {_DRAWN[days[0]]}V{HEIGHT}")
    maintenance, some, much = ("".join(parts) for parts in paths.values())
    return Bars(empty, line, maintenance, some, much, _words(ranks))


def ranked(days: Iterable[str]) -> bytes:
    """Severities as `drawn` takes them."""
    return bytes(RANKS[day] for day in days)


def _words(ranks: bytes) -> str:
    bad, none = ranks.count(RANKS["some"]) + ranks.count(RANKS["much"]), ranks.count(RANKS["empty"])
    length = len(ranks)
    told = [f"{bad} of {length} days with failures or warnings" if bad else f"no failure in {length} days"]
    return ", ".join([*told, f"{none} without data"] if none else told)


def good_days(length: int) -> str:
    """The path of the symbol: every day good."""
    return "".join(f"M{index * PITCH + 1} {GOOD_TOP}V{HEIGHT}" for index in range(length))


def spark(means: list[float | None]) -> str:
    """A line through the mean durations, scaled from 0 to the highest; gaps where there was no result."""
    known = [value for value in means if value is not None]
    if len(known) < 2:
        return ""
    highest = max(known) or 1.0
    path: list[str] = []
    x = y = 0
    pen_down = False
    for index, value in enumerate(means):
        if value is None:
            pen_down = False
            continue
        to_x, to_y = index * SPARK_WIDTH, SPARK_LEVELS - round(value / highest * SPARK_LEVELS)
        if pen_down:
            path.append(_step(to_x - x, to_y - y))
        else:
            path.append(f"M{to_x} {to_y}l0 0")  # the step of nothing shows a lone point with round caps
        x, y, pen_down = to_x, to_y, True
    return "".join(path)


def _step(dx: int, dy: int) -> str:
    return f" {dx}{dy}" if dy < 0 else f" {dx} {dy}"
