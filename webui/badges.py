"""Badges: a small SVG, or the JSON that shields.io reads. Stale or unknown is grey, never green."""

from __future__ import annotations

from typing import NamedTuple

from flask import Blueprint, Response, render_template

from webui import jsonview, trend, view
from webui.api import find
from webui.cache import body, send
from webui.db import Database, Snapshot
from webui.words import duration, percent

_CACHE = "public, max-age=30"
_COLORS = {
    "up": "#0a7d58",
    "degraded": "#8a6100",
    "failing": "#b34700",
    "recovering": "#b34700",
    "down": "#b42318",
    "maintenance": "#2563a8",
}
_GREY = "#5b6472"
_NARROW, _WIDE = "ijlft.,:;|!'()[] ", "mwMW@%"


class Badge(NamedTuple):
    label: str
    message: str
    color: str


def status(one: view.Target) -> Badge:
    """The one word for it."""
    word = "unknown" if one.status == "unknown" else view.WORDS[one.status].lower()
    return Badge(one.row.name, word, _COLORS.get(one.status, _GREY))


def uptime(one: view.Target, ratio: float | None) -> Badge:
    """Uptime of 30 days; grey with its target unknown, late or paused."""
    known = one.status not in ("unknown", "late", "paused", "pending") and ratio is not None
    if not known:
        return Badge("uptime 30 d", "unknown", _GREY)
    color = "#0a7d58" if ratio is not None and ratio >= 0.99 else "#8a6100" if (ratio or 0) >= 0.95 else "#b42318"
    return Badge("uptime 30 d", percent(ratio), color)


def last_duration(one: view.Target) -> Badge:
    """Duration of the last check."""
    known = one.status not in ("unknown", "late", "paused", "pending") and one.row.last_duration_ms is not None
    return Badge("response", duration(one.row.last_duration_ms) if known else "unknown", "#2563a8" if known else _GREY)


def text_width(text: str) -> int:
    """About as wide as the text is in Verdana at 11 px; the SVG then holds it to exactly this."""
    return round(sum(3.9 if c in _NARROW else 10 if c in _WIDE or ord(c) > 0x2E7F else 6.9 for c in text))


def blueprint(database: Database) -> Blueprint:
    """The routes: /badges/ID/status.svg, uptime.json ..."""
    badges = Blueprint("badges", __name__)

    def make(snapshot: Snapshot, one: view.Target, kind: str) -> Badge:
        if kind == "uptime":
            rows = trend.rollups(snapshot, one.row.id, trend.BY_NAME["30d"])
            return uptime(one, trend.uptime(rows))
        return status(one) if kind == "status" else last_duration(one)

    @badges.get("/badges/<string:key>/<any(status, uptime, duration):kind>.<any(svg, json):form>")
    def badge(key: str, kind: str, form: str) -> Response:
        with database.snapshot() as snapshot:
            made = make(snapshot, find(snapshot, key), kind)
        if form == "json":
            value = {"schemaVersion": 1, "label": made.label, "message": made.message, "color": made.color}
            value |= {"cacheSeconds": 30, "isError": made.color == _GREY}
            return _open(send(body(jsonview.dumps(value)), "application/json", cache_control=_CACHE))
        left, right = text_width(made.label[:60]) + 12, text_width(made.message) + 12
        svg = render_template(
            "badge.html", label=made.label[:60], message=made.message, color=made.color, left=left, right=right
        )
        return _open(send(body(svg), "image/svg+xml; charset=utf-8", cache_control=_CACHE))

    return badges


def _open(response: Response) -> Response:
    """Badges stand on other people's pages."""
    response.headers["Cross-Origin-Resource-Policy"] = "cross-origin"
    return response
