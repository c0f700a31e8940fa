"""The response time chart: a median line, a band to the 95th percentile, failures and incidents. Pure: SVG paths.

Geometry stands in attributes and colours in classes, because the content security policy allows no inline style.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from webui.words import clock, day

WIDTH, HEIGHT = 1040, 230
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 22, 24
_PLOT_W, _PLOT_H = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
_HOUR, _DAY = 3_600_000, 86_400_000
_ZONE = "The time axis is in UTC."


@dataclass(frozen=True, slots=True)
class Point:
    """One stretch of time: its start, the quantiles of what passed or failed in it, how much failed."""

    at_ms: int
    median: float | None
    p95: float | None
    results: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on an axis: its place in the picture and its text."""

    at: float
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """All that the template draws. `empty` when no result lies in the window."""

    width: int
    height: int
    left: int
    right: int
    top: int
    floor: int
    unit: str
    line: str
    band: str
    failures: str
    incidents: str
    gaps: str
    rows: tuple[Tick, ...]
    columns: tuple[Tick, ...]
    words: str
    empty: bool


def chart(
    points: Sequence[Point], from_ms: int, to_ms: int, step_ms: int, incidents: Iterable[tuple[int, int | None]] = ()
) -> Chart:
    """Draw `points` (oldest first, `step_ms` long each) over the window."""
    values = [value for point in points for value in (point.median, point.p95) if value is not None]
    top_ms, lines = _scale(max(values, default=0.0))
    unit, divisor = ("s", 1000.0) if top_ms >= 2000 else ("ms", 1.0)
    length = max(1, to_ms - from_ms)

    def x(at_ms: float) -> float:
        return round(LEFT + min(1.0, max(0.0, (at_ms - from_ms) / length)) * _PLOT_W, 1)

    def y(value: float) -> float:
        return round(TOP + _PLOT_H * (1 - value / top_ms), 1)

    runs = _runs(points, step_ms)
    middle = [
        [(x(p.at_ms + step_ms / 2), y(p.median or 0.0), y(p.p95 or p.median or 0.0)) for p in run] for run in runs
    ]
    return Chart(
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=WIDTH - RIGHT,
        top=TOP,
        floor=HEIGHT - BOTTOM,
        unit=unit,
        line="".join(_line(run) for run in middle),
        band="".join(_band(run) for run in middle),
        failures="".join(_failure(point, x(point.at_ms), x(point.at_ms + step_ms)) for point in points if point.failed),
        incidents="".join(_strip(x(start), x(end if end is not None else to_ms)) for start, end in incidents),
        gaps="".join(_gap(x(start), x(end)) for start, end in _gaps(points, from_ms, to_ms, step_ms)),
        rows=tuple(Tick(y(value), f"{value / divisor:g}") for value in lines),
        columns=tuple(Tick(x(at), text) for at, text in _columns(from_ms, to_ms)),
        words=_words(points),
        empty=not values,
    )


def _scale(highest: float) -> tuple[float, list[float]]:
    """A round top for the axis, and the values of its lines: 1, 2 or 5 times a power of ten apart."""
    if highest <= 0:
        return 100.0, [0.0, 50.0, 100.0]
    rough = highest / 3
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    lines = [step * index for index in range(math.ceil(highest / step) + 1)]
    return lines[-1], lines


def _runs(points: Sequence[Point], step_ms: int) -> list[list[Point]]:
    """Stretches without a hole: the line is broken where nothing was measured."""
    runs: list[list[Point]] = []
    last: int | None = None
    for point in points:
        if point.median is None:
            continue
        if last is None or point.at_ms - last > step_ms:
            runs.append([])
        runs[-1].append(point)
        last = point.at_ms
    return runs


def _line(run: list[tuple[float, float, float]]) -> str:
    x, y, _ = run[0]
    if len(run) == 1:
        return f"M{x:g} {y:g}h.1"
    return f"M{x:g} {y:g}" + "".join(f"L{x:g} {y:g}" for x, y, _ in run[1:])


def _band(run: list[tuple[float, float, float]]) -> str:
    upper = "".join(f"{'L' if index else 'M'}{x:g} {high:g}" for index, (x, _, high) in enumerate(run))
    lower = "".join(f"L{x:g} {low:g}" for x, low, _ in reversed(run))
    return upper + lower + "z"


def _failure(point: Point, left: float, right: float) -> str:
    """A bar from the floor, as high as the part of the results that failed, and never too small to be seen."""
    height = max(6.0, _PLOT_H * point.failed / max(1, point.results))
    width = max(2.0, right - left)
    return f"M{left:g} {HEIGHT - BOTTOM:g}v-{height:.4g}h{width:.4g}v{height:.4g}z"


def _strip(left: float, right: float) -> str:
    return f"M{left:g} {TOP - 8}h{max(3.0, right - left):.4g}v5h-{max(3.0, right - left):.4g}z"


def _gap(left: float, right: float) -> str:
    return f"M{left:g} {TOP}h{right - left:.4g}v{_PLOT_H}h-{right - left:.4g}z"


def _gaps(points: Sequence[Point], from_ms: int, to_ms: int, step_ms: int) -> list[tuple[int, int]]:
    """Where there is no data for longer than one step."""
    found: list[tuple[int, int]] = []
    end = from_ms
    for point in points:
        if point.at_ms - end >= step_ms:
            found.append((end, point.at_ms))
        end = point.at_ms + step_ms
    if to_ms - end >= step_ms:
        found.append((end, to_ms))
    return found


def _columns(from_ms: int, to_ms: int) -> list[tuple[int, str]]:
    """About seven marks at full hours or days, UTC."""
    length = to_ms - from_ms
    if length <= 2 * _DAY:
        step = 4 * _HOUR
        return [(at, clock(at)) for at in range(from_ms - from_ms % step + step, to_ms, step)]
    days = max(1, round(length / _DAY / 7))
    step = days * _DAY
    return [(at, day(at)) for at in range(from_ms - from_ms % _DAY + _DAY, to_ms, step)]


def _words(points: Sequence[Point]) -> str:
    """What the picture says, for those who do not see it."""
    medians = [point.median for point in points if point.median is not None]
    failed, results = sum(point.failed for point in points), sum(point.results for point in points)
    if not medians:
        return f"No results in this time. {_ZONE}"
    return (
        f"Median response time from {min(medians):.0f} to {max(medians):.0f} ms; {failed} of {results} results failed. "
        f"{_ZONE}"
    )
