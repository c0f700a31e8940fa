"""Templates and what all of them need; the few filters. Autoescape is on for every template, nothing is marked safe."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from flask import Flask, render_template, request
from jinja2 import StrictUndefined
from markupsafe import Markup

from webui import bars, view, words
from webui.cache import BUILD
from webui.db import Snapshot
from webui.history import DAYS
from webui.overview import Head, Latest, Tail

_TIME = Markup('<time datetime="{}"{}>{}</time>')
_ICONS = {"up": "up", "maintenance": "up", "paused": "up", "down": "down", "late": "degraded", "failing": "degraded"}
_MARKS = {"up": "", "down": "✖ ", "unknown": "? ", "failing": "! ", "late": "! ", "degraded": "! "}


def time_tag(ms: int | None, form: str = "") -> Markup | str:
    """A moment: UTC text that the script turns into the reader's zone. `form` is "", "clock" (time only) or "ago"."""
    if ms is None:
        return "–"
    text = words.when(ms)
    if form == "clock":
        text = text.split(", ")[1]
    return _TIME.format(words.rfc3339(ms), Markup(' data-f="{}"').format(form) if form else "", text)


def install(app: Flask) -> None:
    """Set up Jinja."""
    env = app.jinja_env
    env.undefined = StrictUndefined
    env.trim_blocks = True
    env.lstrip_blocks = True
    env.globals.update(
        build=BUILD,
        good_days=bars.good_days(DAYS),
        words=view.WORDS,
        time=time_tag,
        span=words.span,
        duration=words.duration,
        percent=words.percent,
        interval=words.interval,
        plural=words.plural,
        number=words.number,
        threshold=words.threshold,
    )
    app.context_processor(_common)


def _common() -> dict[str, Any]:
    """What the frame of every page needs when nothing is known; `page` overrides it."""
    return {
        "root": request.script_root,
        "page": view.Page(),
        "supervisor": None,
        "stale": False,
        "now_ms": None,
        "overall": "unknown",
        "favicon": "unknown",
        "here": "",
    }


def page(template: str, snapshot: Snapshot, overall: str, here: str, **values: Any) -> str:
    """A page of the frame `base.html`."""
    known = snapshot.supervisor
    overall = "unknown" if known.stale and here != "api" else overall
    return render_template(
        template,
        page=known.page,
        supervisor=known,
        stale=known.stale,
        now_ms=snapshot.now_ms,
        overall=overall,
        favicon=_ICONS.get(overall, "degraded" if overall == "degraded" else "unknown"),
        mark=_MARKS.get(overall, ""),
        here=here,
        **values,
    )


class Rows:
    """The parts of a row of the overview, by the macros of _parts.html, which are looked up once."""

    def __init__(self, app: Flask) -> None:
        self._app = app

    @cached_property
    def _macros(self) -> Any:
        return self._app.jinja_env.get_template("_parts.html").module

    def head(self, shown: Head) -> Markup:
        """State, name, address, what is wrong; the type."""
        return Markup(self._macros.row_head(shown))  # noqa: S704 - an autoescaped template's own output

    def latest(self, shown: Latest) -> Markup:
        """The last result."""
        return Markup(self._macros.row_latest(shown))  # noqa: S704

    def tail(self, shown: Tail) -> Markup:
        """History."""
        return Markup(self._macros.row_tail(shown))  # noqa: S704
