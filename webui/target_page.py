"""The page of one target: what is wrong, how it has been, every result; and the page of all incidents."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Blueprint, Response, request
from werkzeug.datastructures import MultiDict
from werkzeug.exceptions import NotFound

from supervisor.store import read
from supervisor.store.read import DAY_MS, IncidentRow, ResultRow
from webui import bars, render, trend, view
from webui.api import find
from webui.cache import body, send
from webui.chart import Chart, chart
from webui.db import Database, Snapshot
from webui.history import DAYS
from webui.schemas import CURSOR, OUTCOMES

HTML = "text/html; charset=utf-8"
_RESULTS, _INCIDENTS, _EVENTS = 25, 10, 20
_PER_PAGE = 50


class Shown(NamedTuple):
    """A result as the table shows it."""

    row: ResultRow
    outcome: str
    word: str
    detail: str
    failure: view.Failure | None


class Outage(NamedTuple):
    """An incident as a list shows it."""

    row: IncidentRow
    failure: view.Failure | None
    last: view.Failure | None
    length_ms: int


class Step(NamedTuple):
    """One step of a request in the bar of timings."""

    name: str
    ms: float
    x: float
    width: float


class Queued(NamedTuple):
    """An event of the target and what became of it."""

    seq: int
    type: str
    at_ms: int
    outcome: str


@dataclass(frozen=True, slots=True)
class Model:
    """All that the template needs."""

    t: view.Target
    figures: list[trend.Figures]
    chart: Chart
    days: bars.Bars
    timings: tuple[Step, ...]
    certificate: dict[str, Any] | None
    metrics: list[dict[str, Any]]
    labels: dict[str, str]
    incidents: list[Outage]
    results: list[Shown]
    older: str | None
    events: list[Queued]
    letters: Sequence[read.DeadLetterRow]
    config: str
    expect: str


def blueprint(database: Database) -> Blueprint:
    """The two pages."""
    pages = Blueprint("targets", __name__)

    @pages.get("/targets/<string:key>")
    def target(key: str) -> Response:
        span = trend.BY_NAME.get(request.args.get("range", "24h"), trend.SPANS[0])
        outcome = _one_of(request.args, "outcome", OUTCOMES)
        with database.snapshot() as snapshot:
            model = build(snapshot, key, span, outcome, _cursor(request.args))
            html = render.page(
                "target.html", snapshot, model.t.status, "target", m=model, t=model.t, f=model.t.failure,
                range=span.name, spans=trend.SPANS, outcome=outcome, outcomes=("matched", "failed", "degraded"),
                link=lambda **change: _link({"range": span.name, "outcome": outcome}, change),
                cursor=request.args.get("cursor"), steps=_STEPS,
                address_link=view.web_address(model.t.address) if model.t.row.type == "http" else None,
            )  # fmt: skip
        return send(body(html), HTML)

    @pages.get("/incidents")
    def incidents() -> Response:
        with database.snapshot() as snapshot:
            rows = read.list_incidents(snapshot.connection, limit=_PER_PAGE + 1, before=_cursor(request.args))
            ongoing = read.list_incidents(snapshot.connection, limit=_PER_PAGE, ongoing=True)
            counts = view.count(
                view.target(row, snapshot.supervisor, snapshot.now_ms) for row in read.all_targets(snapshot.connection)
            )
            html = render.page(
                "incidents.html", snapshot, view.overall(counts, stale=snapshot.stale), "incidents",
                list=[_outage(snapshot, row) for row in rows[:_PER_PAGE]], ongoing=len(ongoing),
                older=f"{rows[_PER_PAGE - 1].started_at}-{rows[_PER_PAGE - 1].id}" if len(rows) > _PER_PAGE else None,
                first="cursor" not in request.args,
            )  # fmt: skip
        return send(body(html), HTML)

    return pages


def _cursor(args: MultiDict[str, str]) -> tuple[int, int] | None:
    """The cursor of the address; a broken one is no page."""
    text = args.get("cursor")
    if text is None:
        return None
    first, dash, second = text.partition("-")
    plain = first.isascii() and first.isdecimal() and second.isascii() and second.isdecimal()
    if not dash or not plain or max(len(first), len(second)) > _digits():
        raise NotFound
    return int(first), int(second)


def _digits() -> int:
    return int(CURSOR.split("{1,")[1].split("}")[0])


def _one_of(args: MultiDict[str, str], name: str, allowed: Sequence[str]) -> str:
    value = args.get(name, "")
    return value if value in allowed else ""


def _link(now: dict[str, Any], change: dict[str, Any]) -> str:
    """The address of this page with another range, outcome or cursor."""
    wanted = {name: value for name, value in (now | change).items() if value and (name, value) != ("range", "24h")}
    return "?" + urlencode(wanted)


def build(snapshot: Snapshot, key: str, span: trend.Span, outcome: str, before: tuple[int, int] | None) -> Model:
    """Read everything of one target."""
    t = find(snapshot, key)
    row, show, connection = t.row, t.show, snapshot.connection
    found = read.results(connection, row.id, limit=_RESULTS + 1, outcome=outcome or None, before=before)
    last = found[_RESULTS - 1] if len(found) > _RESULTS else None
    outages = [_outage(snapshot, one) for one in read.list_incidents(connection, limit=_INCIDENTS, target_id=row.id)]
    start = trend.start_of(trend.BY_NAME["90d"], snapshot.now_ms)
    days = {(one.bucket - start) // DAY_MS: one for one in trend.rollups(snapshot, row.id, trend.BY_NAME["90d"])}
    timings = view.parse(row.timings, None)
    return Model(
        t=t,
        figures=trend.figures(snapshot, row.id, row.first_result_at),
        chart=_chart(snapshot, t, span),
        days=bars.drawn(bars.ranked(bars.severity(days.get(index)) for index in range(DAYS))),
        timings=steps(timings) if isinstance(timings, dict) else (),
        certificate=_certificate(row.certificate, show),
        metrics=[one for one in view.parse(row.metrics, []) if isinstance(one, dict)],
        labels=view.labels(row),
        incidents=outages,
        results=[shown(one, show) for one in found[:_RESULTS]],
        older=f"{last.timestamp}-{last.id}" if last is not None else None,
        events=_events(snapshot, key),
        letters=read.dead_letters(connection, limit=_EVENTS, stream=key) if show.failure != "none" else (),
        config=_pretty(row.config) if show.target == "full" and show.failure == "full" else "",
        expect=_pretty(row.expect) if show.failure == "full" else "",
    )


def _chart(snapshot: Snapshot, t: view.Target, span: trend.Span) -> Chart:
    line = trend.line(snapshot, t.row.id, t.row.interval_ms, span)
    outages = read.list_incidents(snapshot.connection, limit=200, target_id=t.row.id, from_ms=line.from_ms)
    times = [(max(one.started_at, line.from_ms), one.resolved_at) for one in outages]
    return chart(line.points, line.from_ms, line.to_ms, line.step_ms, times)


_STEPS = (
    ("dns", "Name look-up"), ("connect", "Connect"), ("tls", "TLS"), ("firstByte", "Waiting"),
    ("transfer", "Transfer"),
)  # fmt: skip


def steps(timings: dict[str, Any]) -> tuple[Step, ...]:
    """The steps of the latest request, to scale on a line 100 wide."""
    known = [(name, timings[key]) for key, name in _STEPS if isinstance(timings.get(key), (int, float))]
    total = sum(ms for _, ms in known) or 1.0
    found, x = [], 0.0
    for name, ms in known:
        width = ms / total * 100
        found.append(Step(name, ms, round(x, 2), round(width, 2)))
        x += width
    return tuple(found)


def shown(row: ResultRow, show: view.Show) -> Shown:
    """One result with its word."""
    text = view.failure(row.failure if not row.matched else row.warning, show)
    if row.matched:
        outcome, word = ("degraded", "Degraded") if row.warning else ("up", "Matched")
    else:
        outcome, word = "down", "Mismatch" if row.success else "Error"
    return Shown(row, outcome, word, view.shown_detail(row.status_detail or "", show), text)


def _outage(snapshot: Snapshot, row: IncidentRow) -> Outage:
    show = snapshot.supervisor.page.show_for(row.group)
    end = row.resolved_at if row.resolved_at is not None else snapshot.now_ms
    first, last = view.failure(row.first_failure, show), view.failure(row.last_failure, show)
    return Outage(row, first, last if last != first else None, max(0, end - row.started_at))


def _events(snapshot: Snapshot, key: str) -> list[Queued]:
    """The newest events of the target, each with the worst of what became of it at its endpoints."""
    acked = read.acknowledged(snapshot.connection, key)
    letters = {(one.endpoint, one.seq): one.outcome for one in read.dead_letters(
        snapshot.connection, limit=100, stream=key
    )}  # fmt: skip
    found = []
    for event in read.events(snapshot.connection, key, _EVENTS):
        names = [str(name) for name in view.parse(event.endpoints, [])]
        outcomes = []
        for name in names:
            if (name, event.seq) in letters:
                outcomes.append(f"{name}: {letters[name, event.seq]}")
            elif name in acked and acked[name][0] >= event.seq:
                outcomes.append(f"{name}: delivered")
            else:
                outcomes.append(f"{name}: waiting")
        found.append(Queued(event.seq, event.type, event.created_at, ", ".join(outcomes)))
    return found


def _certificate(text: str | None, show: view.Show) -> dict[str, Any] | None:
    value = view.parse(text, None)
    if not isinstance(value, dict) or not isinstance(value.get("notAfter"), (int, float)):
        return None
    names = {} if show.target == "none" else {name: str(value.get(name) or "") for name in ("subject", "issuer")}
    return {"until": int(value["notAfter"]), "since": value.get("notBefore"), "subject": "", "issuer": ""} | names


def _pretty(text: str | None) -> str:
    value = view.parse(text, {})
    return json.dumps(value, indent=2, ensure_ascii=False) if value else ""
