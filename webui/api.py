"""The JSON API under /api/v1. Each function reads one snapshot and answers with a shape of jsonview.py.

Answers are made by hand and only described by the schemas: marshmallow would take ten times as long over a thousand
targets. tests/webui holds that both say the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import flask_smorest
from flask import Flask, Response
from marshmallow import RAISE, Schema
from webargs.flaskparser import FlaskParser

from supervisor import __version__
from supervisor.store import read
from webui import errors, jsonview, schemas, trend, view
from webui.cache import Body, Cache, body, send, tag
from webui.db import Database, Snapshot
from webui.words import rfc3339

JSON = "application/json"
PREFIX = "/api/v1"
_SHORT_MS = 2_000  # lateness is looked at anew this often
SUPERVISOR_STREAM = "_supervisor"

Query = dict[str, Any]
Endpoint = Callable[..., Response]


class _Parser(FlaskParser):
    """An unknown parameter is an error: a misspelt filter must not look as if it filtered."""

    DEFAULT_UNKNOWN_BY_LOCATION = {**FlaskParser.DEFAULT_UNKNOWN_BY_LOCATION, "query": RAISE}  # noqa: RUF012


class _Blueprint(flask_smorest.Blueprint):  # type: ignore[misc]
    ARGUMENTS_PARSER = _Parser()


class _Api(flask_smorest.Api):  # type: ignore[misc]
    """flask-smorest with RFC 9457 errors."""

    ERROR_SCHEMA = schemas.Problem

    def handle_http_exception(self, error: Any) -> Response:
        return errors.handle_http(error)

    def _register_responses(self) -> None:
        for status, title in errors.TITLES.items():
            content = {"application/problem+json": {"schema": self.ERROR_SCHEMA}}
            self.spec.components.response(_NAMES[status], {"description": title, "content": content}, lazy=True)
        content = {"application/problem+json": {"schema": self.ERROR_SCHEMA}}
        self.spec.components.response("DEFAULT_ERROR", {"description": "Error", "content": content}, lazy=True)


_NAMES = {
    400: "BAD_REQUEST",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    422: "UNPROCESSABLE_ENTITY",
    500: "INTERNAL_SERVER_ERROR",
    503: "SERVICE_UNAVAILABLE",
}


# --- sending ---------------------------------------------------------------------------------------------------------


def answer(value: dict[str, Any], status: int = 200) -> Response:
    """Send a dict. The heartbeat is no part of its ETag: it moves every few seconds and changes nothing else."""
    text = jsonview.dumps(value)
    bare = jsonview.dumps({name: item for name, item in value.items() if name != "heartbeatAt"})
    return send(_body(text, tag(bare)), JSON, status=status)


def _body(text: str, etag: str) -> Body:
    return body(text, etag)


def listing(
    items: Sequence[dict[str, Any]], rows: Sequence[Any], limit: int, cursor: Callable[[Any], str], **more: Any
) -> Response:
    """Send a page of a list: one row more than `limit` was read to know whether there is a next one."""
    following = cursor(rows[limit - 1]) if len(rows) > limit else None
    return answer({"items": list(items[:limit]), "nextCursor": following, **more})


def _pair(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    first, second = text.split("-")
    return int(first), int(second)


def find(snapshot: Snapshot, key: str) -> view.Target:
    """The target with this id, or 404."""
    row = read.one_target(snapshot.connection, key)
    if row is None:
        raise errors.UnknownTargetError(key)
    return view.target(row, snapshot.supervisor, snapshot.now_ms)


# --- the endpoints ---------------------------------------------------------------------------------------------------


class Endpoints:
    """The functions behind the routes, over one database."""

    def __init__(self, database: Database, cache: Cache) -> None:
        self._database = database
        self._cache = cache
        self._counted: tuple[tuple[object, ...], dict[str, int]] | None = None

    def summary(self, query: Query) -> Response:
        """How everything is, in a few numbers.

        The ETag changes with the state of any target, not with every result: made to be asked for every few seconds.
        """
        with self._database.snapshot() as snapshot:
            version = read.highest_version(snapshot.connection)
            counts = self._counts(snapshot, version)
        return answer(jsonview.summary(counts, snapshot.supervisor, version))

    def _counts(self, snapshot: Snapshot, version: int) -> dict[str, int]:
        """Every open page asks for these every ten seconds: they are counted once for all of them."""
        key = (version, snapshot.stale, snapshot.meta_hash, snapshot.now_ms // _SHORT_MS)
        kept = self._counted
        if kept is None or kept[0] != key:
            known = snapshot.supervisor
            rows = read.all_targets(snapshot.connection)
            kept = self._counted = (key, view.count(view.target(row, known, snapshot.now_ms) for row in rows))
        return kept[1]

    def targets(self, query: Query) -> Response:
        """Every target with its state and latest result, in the order of the configuration.

        A flat array, so that dashboards read it without selectors.
        """
        with self._database.snapshot() as snapshot:
            if query:
                return send(body(self._targets(snapshot, query)), JSON)
            mark = read.fingerprint(snapshot.connection)
            key = (*mark, snapshot.stale, snapshot.meta_hash, snapshot.now_ms // _SHORT_MS)
            kept = self._cache.get("targets", key, lambda: self._targets(snapshot, query))
            return send(kept, JSON)

    def _targets(self, snapshot: Snapshot, query: Query) -> str:
        rows = read.all_targets(snapshot.connection)
        found = [view.target(row, snapshot.supervisor, snapshot.now_ms) for row in rows]
        group, status = query.get("group"), query.get("status")
        kept = [one for one in found if group in (None, one.row.group) and status in (None, one.status)]
        return jsonview.dumps([jsonview.target(one) for one in kept])

    def target(self, query: Query, key: str) -> Response:
        """One target with everything that is known of it now."""
        with self._database.snapshot() as snapshot:
            one = find(snapshot, key)
            figures = trend.figures(snapshot, one.row.id, one.row.first_result_at)
            ongoing = read.list_incidents(snapshot.connection, limit=1, target_id=one.row.id, ongoing=True)
            shown = jsonview.target_detail(one, snapshot.supervisor, figures, ongoing[0] if ongoing else None)
        return answer(shown)

    def results(self, query: Query, key: str) -> Response:
        """Results of one target, newest first."""
        limit = query["limit"]
        with self._database.snapshot() as snapshot:
            one = find(snapshot, key)
            rows = read.results(
                snapshot.connection,
                one.row.id,
                limit=limit + 1,
                outcome=query.get("outcome"),
                from_ms=query.get("from_"),
                to_ms=query.get("to"),
                before=_pair(query.get("cursor")),
            )
            fresh = jsonview.freshness(snapshot.supervisor)
        items = [jsonview.result(row, one.show) for row in rows]
        return listing(items, rows, limit, lambda row: f"{max(0, row.timestamp)}-{row.id}", **fresh)

    def trend(self, query: Query, key: str) -> Response:
        """Counts, durations and percentiles of one target over time, oldest first."""
        span = trend.BY_NAME[query["window"]]
        with self._database.snapshot() as snapshot:
            one = find(snapshot, key)
            rows = trend.rollups(snapshot, one.row.id, span)
            now_ms, known = snapshot.now_ms, snapshot.supervisor
        start = trend.start_of(span, now_ms)
        return answer(
            {
                "window": span.name,
                "from": rfc3339(start),
                "stepMs": span.step_ms,
                "uptime": trend.uptime(rows),
                "coverage": trend.coverage(rows, start, now_ms, one.row.first_result_at),
                "items": [jsonview.bucket(row, read.quantiles(row.histogram, (0.5, 0.95, 0.99))) for row in rows],
                "nextCursor": None,
                **jsonview.freshness(known),
            }
        )

    def target_incidents(self, query: Query, key: str) -> Response:
        """Times in which one target was down, newest first."""
        with self._database.snapshot() as snapshot:
            return self._incidents(snapshot, query, find(snapshot, key).row.id)

    def incidents(self, query: Query) -> Response:
        """Times in which any target was down, newest first; also of targets that are no longer configured."""
        with self._database.snapshot() as snapshot:
            return self._incidents(snapshot, query, None)

    def _incidents(self, snapshot: Snapshot, query: Query, target_id: int | None) -> Response:
        limit, ongoing, page = query["limit"], query.get("ongoing"), snapshot.supervisor.page
        rows = read.list_incidents(
            snapshot.connection,
            limit=limit + 1,
            target_id=target_id,
            ongoing=None if ongoing is None else ongoing == "true",
            before=_pair(query.get("cursor")),
        )
        items = [jsonview.incident_item(row, page.show_for(row.group)) for row in rows]
        fresh = jsonview.freshness(snapshot.supervisor)
        return listing(items, rows, limit, lambda row: f"{max(0, row.started_at)}-{row.id}", **fresh)

    def target_errors(self, query: Query, key: str) -> Response:
        """Events of one target that were not delivered (dead letters), newest first."""
        with self._database.snapshot() as snapshot:
            find(snapshot, key)
            return self._letters(snapshot, query, key)

    def errors(self, query: Query) -> Response:
        """Events that were not delivered (dead letters), newest first."""
        with self._database.snapshot() as snapshot:
            return self._letters(snapshot, query, query.get("stream"))

    def _letters(self, snapshot: Snapshot, query: Query, stream: str | None) -> Response:
        limit, cursor, known = query["limit"], query.get("cursor"), snapshot.supervisor
        before = None if cursor is None else (int(cursor.split("-")[0]), cursor.split("-", 1)[1])
        rows = read.dead_letters(snapshot.connection, limit=limit + 1, stream=stream, before=before)
        shows = {row.key: known.page.show_for(row.group) for row in read.all_targets(snapshot.connection)}
        items = [jsonview.dead_letter(row, shows.get(row.stream, known.page.show)) for row in rows]
        return listing(items, rows, limit, lambda row: f"{max(0, row.timestamp)}-{row.id}")

    def health(self, query: Query, key: str) -> Response:
        """200 if the target is up, degraded or failing (not yet down) by a fresh result, else 503."""
        with self._database.snapshot() as snapshot:
            one = find(snapshot, key)
            known = snapshot.supervisor
        response = answer(jsonview.health(one, known), 200 if one.healthy else 503)
        response.headers["Cache-Control"] = "no-store"
        return response


# --- putting it together ---------------------------------------------------------------------------------------------


def install(app: Flask, database: Database, cache: Cache, base_path: str) -> dict[str, Any]:
    """Register the API; gives the OpenAPI document, which is also served."""
    app.config.update(
        API_TITLE="Checkvisor",
        API_VERSION="v1",
        OPENAPI_VERSION="3.1.0",
        API_SPEC_OPTIONS={"info": {"description": "What Checkvisor knows, read-only.", "x-version": __version__}},
    )
    api = _Api(app)
    blueprint = _Blueprint("api", __name__, url_prefix=PREFIX, description="Targets, results, incidents")
    _routes(blueprint, Endpoints(database, cache))
    api.register_blueprint(blueprint)
    document = _document(api.spec.to_dict())
    served = body(jsonview.dumps({**document, "servers": [{"url": base_path or "/"}]}))
    app.add_url_rule(PREFIX + "/openapi.json", "openapi", lambda: send(served, JSON), methods=["GET"])
    return document


def _routes(blueprint: Any, do: Endpoints) -> None:
    target = "/targets/<string:id>"
    for rule, function, query, answered in (
        ("/summary", do.summary, schemas.NoQuery, schemas.Summary),
        ("/targets", do.targets, schemas.TargetsQuery, schemas.Target(many=True)),
        (target, do.target, schemas.NoQuery, schemas.TargetDetail),
        (target + "/results", do.results, schemas.ResultsQuery, schemas.Results),
        (target + "/trend", do.trend, schemas.TrendQuery, schemas.Trend),
        (target + "/incidents", do.target_incidents, schemas.IncidentsQuery, schemas.Incidents),
        (target + "/errors", do.target_errors, schemas.LettersQuery, schemas.DeadLetters),
        (target + "/health", do.health, schemas.NoQuery, schemas.Health),
        ("/incidents", do.incidents, schemas.IncidentsQuery, schemas.Incidents),
        ("/errors", do.errors, schemas.AllLettersQuery, schemas.DeadLetters),
    ):
        _route(blueprint, rule, function, query, answered)


def _route(blueprint: Any, rule: str, function: Endpoint, query: type[Schema], answered: type[Schema] | Schema) -> None:
    def call(arguments: Query, **path: str) -> Response:
        return function(arguments, *path.values())

    call.__name__, call.__doc__ = function.__name__, function.__doc__
    shown = blueprint.arguments(query, location="query")(call)
    if rule.endswith("/health"):
        shown = blueprint.alt_response(503, schema=schemas.Health, description="Down, late, paused or unknown")(shown)
    else:
        shown = blueprint.alt_response(503, "SERVICE_UNAVAILABLE")(shown)
    shown = blueprint.alt_response(400, "BAD_REQUEST")(shown)
    if "<" in rule:
        shown = blueprint.alt_response(404, "NOT_FOUND")(shown)
    shown = blueprint.response(200, answered, description="Done")(shown)
    blueprint.route(rule, methods=["GET"])(shown)


def _document(found: dict[str, Any]) -> dict[str, Any]:
    """What flask-smorest can't say: 304; and no catch-all, as every answer is listed."""
    for path in found["paths"].values():
        for name, operation in path.items():
            if name != "get":
                continue
            operation["responses"]["304"] = {"description": "Not changed since the ETag of If-None-Match"}
            operation["responses"].pop("default", None)
    return found
