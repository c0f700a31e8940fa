"""The model of the overview: every target as a row, grouped, what is wrong first.

Rows are kept as finished HTML, in three parts, and a part is rendered again only when what it shows has changed. With
Jinja's work for every row of every page, a page of a thousand targets takes 0.5 s.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

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


class Head(NamedTuple):
    """The left of a row: what changes with the state. Equal ones have equal HTML, here and below."""

    root: str
    key: str
    name: str
    type: str
    address: str
    status: str
    word: str
    reason: str


class Latest(NamedTuple):
    """The middle of a row: what changes with every result."""

    duration: str
    checked: str
    checked_at: str


class Tail(NamedTuple):
    """The right of a row: what changes slowly."""

    spark: str
    bars: bars.Bars
    uptime: str


class Renderer(Protocol):
    """The templates of a row's parts."""

    def head(self, shown: Head) -> Markup: ...
    def latest(self, shown: Latest) -> Markup: ...
    def tail(self, shown: Tail) -> Markup: ...


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
    present: Sequence[read.DayRow] = ()
    days: bytes = b""  # the rank of each day's severity
    drawn: bars.Bars = NOTHING
    counts: Counts = NO_COUNTS
    uptime: str = ""
    means: history.Means | None = None
    spark: str = ""
    head: Head | None = None
    latest: Latest | None = None
    tail: Tail | None = None
    parts: list[Markup] = field(default_factory=lambda: [EMPTY] * 3)


class Overview:
    """Builds the model; one for each process, by one thread at a time."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._lock = threading.Lock()
        self._days = history.DayHistory()
        self._hours = history.HourHistory()
        self._kept: dict[int, _Kept] = {}

    def read_ahead(self, snapshot: Snapshot) -> None:
        """Read the history that the next pages need, while none waits for it."""
        for one in (self._days, self._hours):
            one.read_ahead(snapshot.connection, snapshot.supervisor.source, snapshot.now_ms)

    def build(self, snapshot: Snapshot, root: str, *, query: str = "", only_wrong: bool = False) -> Model:
        """Read and assemble. `query` and `only_wrong` leave rows out; the lists above stay whole."""
        with self._lock:
            return self._build(snapshot, root, query, only_wrong)

    def _build(self, snapshot: Snapshot, root: str, query: str, only_wrong: bool) -> Model:
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
        past, present = days.past_of(one.row.id), days.present_of(one.row.id)
        if kept.past is not past or kept.present != present:
            kept.past, kept.present = past, present
            kept.counts, kept.days = days.counts(past, present), days.ranks(past, present)
            kept.drawn, kept.uptime = bars.drawn(kept.days), percent(kept.counts.uptime)
        if kept.means != means:
            kept.means, kept.spark = means, bars.spark(means) if means is not None else ""
        head, latest, tail = _head(one, root), _latest(one.row, now_ms), Tail(kept.spark, kept.drawn, kept.uptime)
        if kept.head != head:
            kept.head, kept.parts[0] = head, self._renderer.head(head)
        if kept.latest != latest:
            kept.latest, kept.parts[1] = latest, self._renderer.latest(latest)
        if kept.tail != tail:
            kept.tail, kept.parts[2] = tail, self._renderer.tail(tail)
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
            rows=EMPTY.join(part for one in targets for part in self._kept[one.row.id].parts),
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
    length = len(days[0])
    flat = b"".join(days)
    return bars.drawn(bytes(_together(flat[index::length]) for index in range(length)))


def _together(ranks: bytes) -> int:
    worst = max(ranks)
    if worst == bars.RANKS["much"] and ranks.count(worst) < _GROUP_MUCH * len(ranks):
        return bars.RANKS["some"]
    return worst


def _checked(at_ms: int, today: bool) -> str:
    return time_of_day(at_ms) if today else when(at_ms).split(",")[0]


def _head(one: view.Target, root: str) -> Head:
    row, reason = one.row, one.failure or one.warning
    return Head(
        root,
        row.key,
        row.name,
        row.type,
        one.address,
        one.status,
        view.WORDS[one.status],
        reason.message if reason is not None and one.status not in ("up", "paused") else "",
    )


def _latest(row: read.TargetRow, now_ms: int) -> Latest:
    at_ms = row.last_timestamp
    if at_ms is None:
        return Latest("", "", "")
    today = 0 <= now_ms - at_ms < 12 * 3_600_000
    checked_at = "" if today else rfc3339(at_ms) or ""
    return Latest(duration(row.last_duration_ms), _checked(at_ms, today), checked_at)
