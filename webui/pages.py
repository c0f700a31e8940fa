"""The pages for people. Everything works without JavaScript."""

from __future__ import annotations

from flask import Blueprint, Flask, Response, request

from supervisor.store import read
from webui import render, view
from webui.cache import PAGE_LEVEL, Cache, body, send
from webui.db import Database, Snapshot
from webui.overview import LISTED, Overview

HTML = "text/html; charset=utf-8"
BUCKET_MS = 10_000
_MAX_QUERY = 200
_DEADLINE_S = 10.0  # if warm.py has not, the first page of a day reads the history of every target


def blueprint(app: Flask, database: Database, cache: Cache, overview: Overview) -> Blueprint:
    """The pages, over one database."""
    pages = Blueprint("pages", __name__)

    def build(snapshot: Snapshot, query: str, only: bool) -> str:
        model = overview.build(snapshot, request.script_root, query=query, only_wrong=only)
        counts = model.counts
        return render.page(
            "overview.html",
            snapshot,
            view.overall(counts, stale=snapshot.stale),
            "overview",
            m=model,
            limit=LISTED,
            query=query,
            only=only,
            groups=len({one.row.group for one in model.targets}),
            headline=view.headline(counts, stale=snapshot.stale),
            summary=view.summary_line(view.count_last_known(model.targets) if snapshot.stale else counts),
            troubled=[e for e in model.endpoints if e.state != "closed" or e.dead_letters],
        )

    @pages.get("/")
    def index() -> Response:
        query, only = request.args.get("q", "")[:_MAX_QUERY].strip(), "only" in request.args
        with database.snapshot(_DEADLINE_S) as snapshot:
            if query or only:  # as many as there are readers: made each time
                return send(body(build(snapshot, query, only)), HTML)
            version = read.highest_version(snapshot.connection)
            bucket = snapshot.now_ms // BUCKET_MS
            key = (version, snapshot.stale, snapshot.meta_hash, request.script_root, bucket)
            return send(cache.get("overview", key, lambda: build(snapshot, "", False), PAGE_LEVEL), HTML)

    @pages.get("/api")
    def api() -> Response:
        with database.snapshot() as snapshot:
            document = app.extensions["openapi"]
            return send(body(render.page("api.html", snapshot, "api", "api", paths=document["paths"])), HTML)

    return pages
