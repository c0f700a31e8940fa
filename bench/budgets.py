"""The budgets B1 to B15: which rows of which module make a line of the table, and what they may be.

A part reads one value, "module/row/field", or makes one of several. A line is in its budget if every part that has a
bound holds it. A part without its row (a module that did not run, a peer that is not installed) is left out, and shows
as "-" if nothing else is there; a line with a missing bounded part is never in its budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.rows import Row

Found = dict[str, float]
"""Every value of a run: "module/row/field" -> value."""


@dataclass(frozen=True, slots=True)
class Part:
    """A value with its label and unit. `most` and `least` are its bounds; `divide` makes it a ratio of two values."""

    label: str
    key: str
    unit: str = "µs"
    most: float | None = None
    least: float | None = None
    divide: str | None = None

    def value(self, found: Found) -> float | None:
        """None if the run has no such row."""
        value = found.get(self.key)
        if value is not None and self.divide is not None:
            other = found.get(self.divide)
            return None if not other else value / other
        return value

    @property
    def bounded(self) -> bool:
        return self.most is not None or self.least is not None

    def holds(self, found: Found) -> bool:
        """Whether the value is there and within its bounds."""
        value = self.value(found)
        if value is None:
            return not self.bounded
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


@dataclass(frozen=True, slots=True)
class Line:
    """One budget. `ratio` is the numerator and the denominator of the last column: more than 1 is above the floor."""

    name: str
    work: str
    floor: tuple[Part, ...]
    peer: tuple[Part, ...]
    budget: str
    reached: tuple[Part, ...]
    ratio: tuple[str, str] | None = None


def product(row: str, field: str = "us") -> str:
    return f"product/{row}/{field}"


def _at(rates: dict[str, str], most: float, unit: str = "µs") -> tuple[Part, ...]:
    return tuple(Part(label, product(row), unit, most=most) for label, row in rates.items())


HTTP, HTTPS, BIG = "floor HTTP, Python socket", "floor HTTPS, Python socket", "floor 1 MB, Python socket"
BUSY = "HTTP, 1,000/s"
EMPTY_WRITE, FULL_WRITE = "store/empty database, 1,000 targets/us", "store/big database, 1,000 targets/us"

LINES = (
    Line(
        "B1", "HTTP check, 100-byte body, status and a body rule, stored",
        (Part("C", product("floor HTTP, C")), Part("Python socket", product(HTTP)),
         Part("`requests` prepared", product("floor HTTP, requests prepared"))),
        (Part("blackbox 100/s", product("peer HTTP, 100/s, blackbox")),
         Part("1,000/s", product("peer HTTP, 1,000/s, blackbox")),
         Part("check_http", product("peer HTTP, check_http spawned"))),
        "≤ 600 µs", _at({"100/s": "HTTP, 100/s", "1,000/s": BUSY, "saturated": "HTTP, saturated"}, 600),
        (product(BUSY), product(HTTP)),
    ),
    Line(
        "B2", "HTTPS check, stored",
        (Part("Python socket", product(HTTPS)), Part("`requests`", product("floor HTTPS, requests prepared"))),
        (Part("blackbox 100/s", product("peer HTTPS, 100/s, blackbox")),
         Part("400/s", product("peer HTTPS, 400/s, blackbox"))),
        "≤ 1,200 µs", _at({"100/s": "HTTPS, 100/s", "400/s": "HTTPS, 400/s"}, 1200),
        (product("HTTPS, 400/s"), product(HTTPS)),
    ),
    Line(
        "B3", "stored HTTP checks a second, 20 workers",
        (Part("20 clients in C", product("floor HTTP, C, 20 clients", "per_s"), "/s"),),
        (Part("blackbox", product("peer HTTP, saturated, blackbox", "per_s"), "/s"),),
        "≥ 2,200", (Part("", product("HTTP, saturated", "per_s"), "/s", least=2200),),
        (product("floor HTTP, C, 20 clients", "per_s"), product("HTTP, saturated", "per_s")),
    ),
    Line(
        "B4", "HTTP check of a 1 MB body, regex over it, stored",
        (Part("C", product("floor 1 MB, C")), Part("Python socket", product(BIG))),
        (Part("blackbox 20/s", product("peer 1 MB, 20/s, blackbox")),
         Part("100/s", product("peer 1 MB, 100/s, blackbox"))),
        "≤ 2,500 µs",
        (*_at({"20/s": "1 MB regex, 20/s", "100/s": "1 MB regex, 100/s"}, 2500),
         Part("json rule", product("1 MB json, 20/s"))),
        (product("1 MB regex, 100/s"), product(BIG)),
    ),
    Line(
        "B5", "command check (`/bin/true`), stored, over posix_spawn in C",
        (Part("C", product("floor command, C posix_spawn")),
         Part("`subprocess.run`", product("floor command, subprocess.run"))),
        (Part("check_http", product("peer HTTP, check_http spawned")),),
        "≤ +250 µs",
        (Part("100/s +", "derived/command over spawn, 100/s/us", most=250),
         Part("400/s +", "derived/command over spawn, 400/s/us", most=250)),
        (product("command, 400/s"), product("floor command, C posix_spawn")),
    ),
    Line(
        "B6", "schedule error, 1,000 targets every 1 s",
        (Part("select loop p99", product("floor schedule, a select loop", "lag_p99_ms"), "ms"),), (),
        "p99 ≤ 5 ms",
        (Part("p50", product(BUSY, "lag_p50_ms"), "ms"), Part("p99", product(BUSY, "lag_p99_ms"), "ms", most=5),
         Part("own histogram p99", product(BUSY, "lag_histogram_p99_ms"), "ms")),
        (product(BUSY, "lag_p99_ms"), product("floor schedule, a select loop", "lag_p99_ms")),
    ),
    Line(
        "B7", "memory (PSS), 20 workers, 1,000 targets at 10 s; each worker",
        (Part("imports alone", product("floor memory, imports alone", "pss_mb"), "MB"),), (),
        "≤ 220 MB; ≤ 6.5 MB",
        (Part("", product("1,000 targets at 10 s", "pss_mb"), "MB", most=220),
         Part("a worker", product("1,000 targets at 10 s", "worker_mb"), "MB", most=6.5)),
        (product("1,000 targets at 10 s", "pss_mb"), product("floor memory, imports alone", "pss_mb")),
    ),
    Line(
        "B8", "state of 1,000 targets as JSON, not cached / cached",
        (Part("SELECT, json, gzip", "web/1,000 targets, /api/v1/targets uncached/floor_ms", "ms"),), (),
        "≤ 25 / ≤ 3 ms",
        (Part("", "web/1,000 targets, /api/v1/targets uncached/p50_ms", "ms", most=25),
         Part("cached", "web/1,000 targets, /api/v1/targets cached/p50_ms", "ms", most=3)),
        ("web/1,000 targets, /api/v1/targets uncached/p50_ms", "web/1,000 targets, /api/v1/targets uncached/floor_ms"),
    ),
    Line(
        "B9", "overview page, 1,000 targets, 10 million results: served to 4 clients / rebuilt / gzipped",
        (Part("SELECT, gzip", "web/1,000 targets, page rebuilt/floor_ms", "ms"),), (),
        "p50 ≤ 2, p99 ≤ 25 / ≤ 150 ms / ≤ 45 KB",
        (Part("p50", "web/1,000 targets, page over HTTP, 4 clients/p50_ms", "ms", most=2),
         Part("p99", "web/1,000 targets, page over HTTP, 4 clients/p99_ms", "ms", most=25),
         Part("rebuilt", "web/1,000 targets, page rebuilt/p50_ms", "ms", most=150),
         Part("", "web/1,000 targets, page rebuilt/gzip_kb", "KB", most=45)),
        ("web/1,000 targets, page rebuilt/p50_ms", "web/1,000 targets, page rebuilt/floor_ms"),
    ),
    Line(
        "B10", "the same at 5,000 targets, rebuilt / gzipped",
        (Part("SELECT, gzip", "web/5,000 targets, page rebuilt/floor_ms", "ms"),), (),
        "≤ 400 ms / ≤ 200 KB",
        (Part("", "web/5,000 targets, page rebuilt/p50_ms", "ms", most=400),
         Part("", "web/5,000 targets, page rebuilt/gzip_kb", "KB", most=200)),
        ("web/5,000 targets, page rebuilt/p50_ms", "web/5,000 targets, page rebuilt/floor_ms"),
    ),
    Line(
        "B11", "writing one result with state and rollups, in batches",
        (Part("plain INSERT", "store/floor, plain INSERT, 1,000 targets/us"),), (),
        "≤ 40 µs, flat",
        (Part("1,000 targets", EMPTY_WRITE, most=40),
         Part("5,000", "store/empty database, 5,000 targets/us", most=40),
         Part("5,000 : 1,000", "store/empty database, 5,000 targets/us", "", most=1.2, divide=EMPTY_WRITE)),
        (EMPTY_WRITE, "store/floor, plain INSERT, 1,000 targets/us"),
    ),
    Line(
        "B12", "bytes on disk per passing result, with index",
        (Part("plain table", "store/floor, plain INSERT, 1,000 targets/bytes", "B"),), (),
        "≤ 60", (Part("", "store/empty database, 1,000 targets/bytes", "B", most=60),),
        ("store/empty database, 1,000 targets/bytes", "store/floor, plain INSERT, 1,000 targets/bytes"),
    ),
    Line(
        "B13", "start with 2,000 targets: first result / every target's first (interval 1 s)",
        (), (), "≤ 3 / ≤ 8 s",
        (Part("", product("start, 2,000 targets at 1 s", "first_s"), "s", most=3),
         Part("", product("start, 2,000 targets at 1 s", "last_s"), "s", most=8),
         Part("last at 30 s", product("start, 2,000 targets at 30 s", "last_s"), "s")),
    ),
    Line(
        "B14", "webhook deliveries a second over 1,000 streams, order kept",
        (Part("raw posts in a row", "webhooks/floor, raw sockets/per_s", "/s"),), (),
        "≥ 500",
        (Part("", "webhooks/one receiver/per_s", "/s", least=500),
         Part("beside a slow one", "webhooks/beside a slow receiver/per_s", "/s", least=500)),
        ("webhooks/floor, raw sockets/per_s", "webhooks/one receiver/per_s"),
    ),
    Line(
        "B15", "10 million results against none: check / page / write",
        (), (), "≤ 1.2",
        (Part("check", product("HTTP, 1,000/s, 10 million results"), "", most=1.2, divide=product(BUSY)),
         Part("page", "web/1,000 targets, page rebuilt/p50_ms", "", most=1.2,
              divide="web/1,000 targets, new, page rebuilt/p50_ms"),
         Part("write", FULL_WRITE, "", most=1.2, divide=EMPTY_WRITE)),
    ),
)  # fmt: skip


def values(modules: dict[str, list[Row]]) -> Found:
    """All numbers of a run, by "module/row/field", and those that are differences of others."""
    found: Found = {}
    for module, rows in modules.items():
        for row in rows:
            for field, value in row.items():
                if field != "name":
                    found[f"{module}/{row['name']}/{field}"] = value
    without_c = found.get(product("floor command, Python posix_spawn"))
    spawn = found.get(product("floor command, C posix_spawn"), without_c)
    for rate in ("100/s", "400/s"):
        command = found.get(product(f"command, {rate}"))
        if spawn is not None and command is not None:
            found[f"derived/command over spawn, {rate}/us"] = command - spawn
    return found


def number(value: float) -> str:
    """Three digits that say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def cell(parts: tuple[Part, ...], found: Found) -> str:
    """The text of a cell; what is out of its bounds is bold."""
    told = []
    for part in parts:
        value = part.value(found)
        if value is None:
            if part.bounded:
                told.append(f"{part.label} **not measured**".strip())
            continue
        text = f"{number(value)} {part.unit}".strip()
        if not part.holds(found):
            text = f"**{text}**"
        told.append(text if not part.label else f"{part.label}{'' if part.label.endswith('+') else ' '}{text}")
    return ", ".join(told) or "-"


def table(found: Found, lines: tuple[Line, ...] = LINES) -> list[list[str]]:
    """The table's rows, its head first."""
    rows = [["", "work", "floor in this run", "peer in this run", "budget", "reached", "in budget", "to the floor"]]
    for line in lines:
        ratio = "-"
        if line.ratio is not None:
            above, below = (found.get(key) for key in line.ratio)
            ratio = number(above / below) if above is not None and below else "-"
        inside = "yes" if all(part.holds(found) for part in line.reached) else "no"
        rows.append(
            [line.name, line.work, cell(line.floor, found), cell(line.peer, found), line.budget,
             cell(line.reached, found), inside, ratio]
        )  # fmt: skip
    return rows
