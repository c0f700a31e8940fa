"""/healthz and /readyz: is the web app alive, can it read, does the supervisor live."""

from __future__ import annotations

from flask import Blueprint, Response, request

from supervisor.store.connect import ReadError
from webui import jsonview
from webui.db import Database
from webui.errors import RETRY_AFTER_S, problem

_OFF = ("", "0", "false", "no")


def blueprint(database: Database) -> Blueprint:
    """The two routes."""
    probes = Blueprint("probes", __name__)

    @probes.get("/healthz")
    def alive() -> Response:
        return _answer({"status": "ok"}, 200)

    @probes.get("/readyz")
    def ready() -> Response:
        """503 when the store can't be read; with `?strict=1` also when the heartbeat is more than 30 s away."""
        strict = request.args.get("strict", "") not in _OFF
        try:
            with database.snapshot() as snapshot:
                known = snapshot.supervisor
        except ReadError:
            headers = {"Retry-After": str(RETRY_AFTER_S)}
            return problem(503, "the store can't be read; the log of the web process says why", headers=headers)
        value = {"status": "ok", "supervisorStale": known.stale, **jsonview.freshness(known)}
        if known.stale and strict:
            return _answer(value | {"status": "stale"}, 503)
        return _answer(value, 200)

    return probes


def _answer(value: dict[str, object], status: int) -> Response:
    response = Response(jsonview.dumps(value), status, content_type="application/json")
    response.headers["Cache-Control"] = "no-store"
    return response
