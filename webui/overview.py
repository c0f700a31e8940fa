"""The model of the overview: every target as a row, grouped, what is wrong first.

Rows are kept as finished HTML and rendered again only when what they show has changed; at thousands of targets that is
the difference between a page in milliseconds and one in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from supervisor.store import read
from supervisor.store.read import DAY_MS
from webui import bars, history, view
from webui.db import Snapshot
from webui.history import Counts, Days
from webui.words import duration, percent, rfc3339, time_of_day, when

WRONG = ("down", "recovering", "failing")
LISTED = 100  # targets named in each list above the table
_GROUP_MUCH = 0.05
EMPTY = Markup()
NOTHING = bars.Bars()
NO_COUNTS = Counts(0, 0)


class Row(NamedTuple):
    """All that one row shows; equal rows have equal HTML."""

    root: str
    key: str
    name: str
    type: str
    address: str
    status: str
    word: str
    reason: str
    duration: str
    checked: str
    checked_at: str
    spark: str
    bars: bars.Bars
    uptime: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One target of the lists above the table, and its bars."""

    target: view.Target
    bars: bars.Bars


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the configuration with its rendered rows. `wrong` says whether it is shown open."""

    name: str
    anchor: str
    targets: int
    status: str
    words: str
    wrong: bool
    bars: bars.Bars
    uptime: str
    rows: Markup


@dataclass(frozen=True, slots=True)
class Model:
    """All that the template needs."""

    targets: Sequence[view.Target]
    counts: dict[str, int]
    failing: tuple[Entry, ...]
    late: tuple[Entry, ...]
    degraded: tuple[Entry, ...]
    maintenance: tuple[Entry, ...]
    groups: tuple[Group, ...]
    uptime: str
    endpoints: Sequence[read.EndpointRow]
    shown: int


@dataclass(slots=True)
class _Kept:
    """What is remembered of one target between two pages."""

    past: history.Past | None = None
    recent: tuple[tuple[int, int], ...] = ()
    days: bytes = b""  # the rank of each day's severity
    drawn: bars.Bars = NOTHING
    counts: Counts = NO_COUNTS
    means: history.Means | None = None
    spark: str = ""
    row: Row | None = None
    html: Markup = EMPTY


class Overview:
    """Builds the model; one for each process, used under the page cache's lock."""

    def __init__(self, render_row: Callable[[Row], Markup]) -> None:
        self._render = render_row
        self._days = history.DayHistory()
        self._hours = history.HourHistory()
        self._kept: dict[int, _Kept] = {}

    def build(self, snapshot: Snapshot, root: str, *, query: str = "", only_wrong: bool = False) -> Model:
        """Read and assemble. `query` and `only_wrong` leave rows out; the lists above stay whole."""
        known, now_ms = snapshot.supervisor, snapshot.now_ms
        rows = read.all_targets(snapshot.connection)
        targets = [view.target(row, known, now_ms) for row in rows]
        days = self._days.load(snapshot.connection, known.source, now_ms)
        hours = self._hours.load(snapshot.connection, known.source, now_ms)
        kept, self._kept = self._kept, {}
        for one in targets:
            self._kept[one.row.id] = self._update(
                kept.get(one.row.id) or _Kept(), one, days, hours.get(one.row.id), root, now_ms
            )
        shown = [one for one in targets if wanted(one, query, only_wrong)]
        total = [self._kept[row.id].counts for row in rows]
        return Model(
            targets=targets,
            counts=view.count(targets),
            failing=self._entries(targets, failing_now),
            late=self._entries(targets, lambda one: one.status == "late"),
            degraded=self._entries(targets, lambda one: one.status == "degraded"),
            maintenance=self._entries(targets, lambda one: one.status == "maintenance"),
            groups=tuple(self._groups(shown)),
            uptime=percent(Counts(sum(c.matched for c in total), sum(c.failed for c in total)).uptime),
            endpoints=read.endpoints(snapshot.connection, now_ms - DAY_MS),
            shown=len(shown),
        )

    def _update(
        self, kept: _Kept, one: view.Target, days: Days, means: history.Means | None, root: str, now_ms: int
    ) -> _Kept:
        number = one.row.id
        past, recent = days.past_of(number), days.recent(number)
        if kept.past is not past or kept.recent != recent:
            ranks = bytearray(past.ranks)
            for day, rank in recent:
                if 0 <= day < len(ranks):
                    ranks[day] = rank
            kept.past, kept.recent, kept.days = past, recent, bytes(ranks)
            kept.drawn = bars.drawn([bars.NAMES[rank] for rank in ranks])
        if kept.means != means:
            kept.means, kept.spark = means, bars.spark(means) if means is not None else ""
        kept.counts = days.counts(number)
        row = make_row(one, root, now_ms, kept.spark, kept.drawn, percent(kept.counts.uptime))
        if kept.row != row:
            kept.row, kept.html = row, self._render(row)
        return kept

    def _entries(self, targets: Sequence[view.Target], test: Callable[[view.Target], bool]) -> tuple[Entry, ...]:
        found = sorted((one for one in targets if test(one)), key=_urgency)
        return tuple(Entry(one, self._kept[one.row.id].drawn) for one in found)

    def _groups(self, targets: Sequence[view.Target]) -> list[Group]:
        members: dict[str, list[view.Target]] = {}
        for one in targets:
            members.setdefault(one.row.group, []).append(one)
        return [self._group(name, f"g{index}", found) for index, (name, found) in enumerate(members.items())]

    def _group(self, name: str, anchor: str, targets: list[view.Target]) -> Group:
        counts = view.count(targets)
        state = view.overall(counts, stale=targets[0].stale)
        sums = [self._kept[one.row.id].counts for one in targets]
        return Group(
            name=name,
            anchor=anchor,
            targets=len(targets),
            status=state,
            words=view.headline(counts, stale=targets[0].stale) if state == "unknown" else group_words(counts),
            wrong=any(counts[status] for status in (*WRONG, "late", "degraded")),
            bars=group_bars([self._kept[one.row.id].days for one in targets]),
            uptime=percent(Counts(sum(c.matched for c in sums), sum(c.failed for c in sums)).uptime),
            rows=Markup("").join(self._kept[one.row.id].html for one in targets),
        )


def failing_now(one: view.Target) -> bool:
    """Down, on its way there or back; with a silent supervisor, by the last known state."""
    if one.stale:
        return one.row.enabled and one.state in WRONG
    return one.status in WRONG


def _urgency(one: view.Target) -> tuple[int, int]:
    order = WRONG.index(one.state) if one.state in WRONG else len(WRONG)
    return order, -(one.row.since or 0)


def wanted(one: view.Target, query: str, only_wrong: bool) -> bool:
    """Whether the filter keeps this row: every word of the query in name, id, address, group or type."""
    if only_wrong and one.status in ("up", "paused", "maintenance", "pending"):
        return False
    text = " ".join((one.row.name, one.row.key, one.address, one.row.group, one.row.type)).casefold()
    return all(word in text for word in query.casefold().split())


def group_words(counts: dict[str, int]) -> str:
    """What a closed group says: "2 down, 1 late", "all up"."""
    told = [f"{counts[status]} {status}" for status in (*WRONG, "late", "degraded", "maintenance") if counts[status]]
    if told:
        return ", ".join(told)
    return "all up" if counts["up"] == sum(counts.values()) else view.summary_line(counts)


def group_bars(days: Sequence[bytes]) -> bars.Bars:
    """One bar a day over all targets of a group: "much" if a good part of them had much, "some" if any had anything."""
    return bars.drawn([_together(column) for column in zip(*days, strict=True)])


def _together(ranks: tuple[int, ...]) -> str:
    worst = max(ranks)
    if worst == bars.RANKS["much"] and ranks.count(worst) < _GROUP_MUCH * len(ranks):
        return "some"
    return bars.NAMES[worst]


def _checked(at_ms: int | None, today: bool) -> str:
    if at_ms is None:
        return ""
    return time_of_day(at_ms) if today else when(at_ms).split(",")[0]


def make_row(one: view.Target, root: str, now_ms: int, spark: str, days: bars.Bars, uptime: str) -> Row:
    """One target as its row shows it."""
    row = one.row
    reason = one.failure or one.warning
    today = row.last_timestamp is not None and 0 <= now_ms - row.last_timestamp < 12 * 3_600_000
    return Row(
        root=root,
        key=row.key,
        name=row.name,
        type=row.type,
        address=one.address,
        status=one.status,
        word=view.WORDS[one.status],
        reason=reason.message if reason is not None and one.status not in ("up", "paused") else "",
        duration=duration(row.last_duration_ms) if row.last_timestamp is not None else "",
        checked=_checked(row.last_timestamp, today),
        checked_at="" if today or row.last_timestamp is None else rfc3339(row.last_timestamp) or "",
        spark=spark,
        bars=days,
        uptime=uptime,
    )
