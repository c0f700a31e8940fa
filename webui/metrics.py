"""/metrics: what the database knows, in the names of blackbox_exporter where it has them.

Of a target that is late, paused or never checked, and of all while the supervisor is silent, there is no sample that
says how it is: an old "up" would be a false green. Counters are lifetime counters, they never fall. Failure text and
addresses are never labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from flask import Blueprint, Response, request

from supervisor import __version__
from supervisor.store import read
from supervisor.store.connect import ReadError
from webui import exposition, view
from webui.cache import Cache, body, send
from webui.db import Database, Snapshot
from webui.exposition import OPENMETRICS, TEXT, Page

_SHORT_MS = 2_000
_STATES = ("pending", "up", "degraded", "failing", "down", "recovering")
_HTTP = re.compile(r"HTTP ([0-9]{3})")
# our names of the steps of a request, and blackbox_exporter's
_PHASES = (
    ("dns", "resolve"), ("connect", "connect"), ("tls", "tls"), ("firstByte", "processing"), ("transfer", "transfer"),
)  # fmt: skip

Labelled = tuple[str, view.Target]  # a target and its labels, escaped


def write(content_type: str, known: view.Supervisor | None, targets: Sequence[view.Target]) -> str:
    """One reading of the database; `known` is None when it could not be read."""
    page = Page(content_type)
    version = exposition.labels(version=__version__)
    page.gauge("checkvisor_web_build_info", "Version of the web app.", [(version, 1)])
    page.gauge("checkvisor_web_store_readable", "1 if the database could be read.", [("", 0 if known is None else 1)])
    if known is not None:
        rows = [(_labels(one), one) for one in targets]
        _supervisor(page, known)
        _latest(page, [(labels, one) for labels, one in rows if known_now(one)])
        _kept(page, rows)
    return page.text()


def known_now(one: view.Target) -> bool:
    """Whether its last result says how it is now."""
    fresh = not one.stale and not one.late and bool(one.row.enabled)
    return fresh and one.row.last_timestamp is not None and one.state != "pending"


def _supervisor(page: Page, known: view.Supervisor) -> None:
    stale = 1 if known.stale else 0
    page.gauge("checkvisor_supervisor_stale", "1 if the supervisor is silent for more than 30 s.", [("", stale)])
    if known.heartbeat_ms is not None:
        words = "When the supervisor last said that it lives."
        page.gauge("checkvisor_supervisor_heartbeat_timestamp_seconds", words, [("", known.heartbeat_ms / 1000)])


def _latest(page: Page, rows: Sequence[Labelled]) -> None:
    page.gauge(
        "probe_success",
        "1 if the last check matched.",
        ((labels, 1 if one.row.last_matched else 0) for labels, one in rows),
    )
    page.gauge(
        "probe_duration_seconds",
        "How long the last check took.",
        ((labels, one.row.last_duration_ms / 1000) for labels, one in rows if one.row.last_duration_ms is not None),
    )
    codes = ((labels, _HTTP.fullmatch(one.row.last_status_detail or "")) for labels, one in rows)
    page.gauge(
        "probe_http_status_code",
        "HTTP status of the last check.",
        ((labels, int(code[1])) for labels, code in codes if code is not None),
    )
    page.gauge(
        "probe_ssl_earliest_cert_expiry",
        "When the leaf certificate expires, in Unix time.",
        ((labels, at / 1000) for labels, one in rows if (at := _expiry(one)) is not None),
    )
    page.gauge(
        "probe_http_duration_seconds",
        "Duration of the last HTTP check by phase.",
        ((f'{labels},phase="{phase}"', ms / 1000) for labels, one in rows for phase, ms in _phases(one)),
    )
    page.gauge(
        "checkvisor_target_state",
        "1 for the state the target is in.",
        ((f'{labels},state="{state}"', 1 if one.state == state else 0) for labels, one in rows for state in _STATES),
    )


def _kept(page: Page, rows: Sequence[Labelled]) -> None:
    """What stays true whatever the supervisor does."""
    late = ((labels, 1 if one.late else 0) for labels, one in rows)
    page.gauge("checkvisor_target_late", "1 if the last result is older than 2 intervals + timeout.", late)
    for overlay, words in (("paused", "1 if the target is paused."), ("maintenance", "1 if it is in maintenance.")):
        raised = [(labels, 1 if one.overlay == overlay else 0) for labels, one in rows]
        page.gauge(f"checkvisor_target_{overlay}", words, raised)
    seen = ((labels, at / 1000) for labels, one in rows if (at := one.row.last_timestamp) is not None)
    page.gauge("checkvisor_target_last_result_timestamp_seconds", "When the last check began.", seen)
    page.counter("checkvisor_checks", "Results over all time.", _outcomes(rows))
    missed = ((labels, one.row.missed_total or 0) for labels, one in rows)
    page.counter("checkvisor_checks_missed", "Checks that were due and did not run.", missed)
    lost = ((labels, one.row.lost_total or 0) for labels, one in rows)
    page.counter("checkvisor_results_lost", "Results that could not be stored.", lost)


def _outcomes(rows: Sequence[Labelled]) -> Iterator[tuple[str, float]]:
    for labels, one in rows:
        yield f'{labels},outcome="matched"', one.row.matched_total or 0
        yield f'{labels},outcome="failed"', one.row.failed_total or 0


def _labels(one: view.Target) -> str:
    return exposition.labels(target=one.row.key, type=one.row.type, group=one.row.group)


def _expiry(one: view.Target) -> float | None:
    value = view.parse(one.row.certificate, None)
    at = value.get("notAfter") if isinstance(value, dict) else None
    return at if isinstance(at, (int, float)) else None


def _phases(one: view.Target) -> Iterator[tuple[str, float]]:
    value = view.parse(one.row.timings, None)
    if not isinstance(value, dict):
        return
    for ours, theirs in _PHASES:
        if isinstance(value.get(ours), (int, float)):
            yield theirs, value[ours]


def blueprint(database: Database, cache: Cache) -> Blueprint:
    """The route."""
    metrics = Blueprint("metrics", __name__)

    @metrics.get("/metrics")
    def scrape() -> Response:
        content_type = OPENMETRICS if _wants_openmetrics() else TEXT
        try:
            with database.snapshot() as snapshot:
                key = (*read.fingerprint(snapshot.connection), snapshot.stale, snapshot.now_ms // _SHORT_MS)
                kept = cache.get(content_type, key, lambda: _read(content_type, snapshot))
        except ReadError:
            kept = body(write(content_type, None, ()))
        return send(kept, content_type, cache_control="no-store")

    return metrics


def _wants_openmetrics() -> bool:
    wanted = OPENMETRICS.partition(";")[0]
    return any(kind.startswith(wanted) and quality > 0 for kind, quality in request.accept_mimetypes)


def _read(content_type: str, snapshot: Snapshot) -> str:
    known = snapshot.supervisor
    rows = read.all_targets(snapshot.connection, detail=True)
    return write(content_type, known, [view.target(row, known, snapshot.now_ms) for row in rows])
