"""/metrics: what the database knows, in the names of blackbox_exporter where it has them.

Of a target that is late, paused or never checked, and of all while the supervisor is silent, there is no sample that
says how it is: an old "up" would be a false green. Counters are lifetime counters, they never fall. Failure text and
addresses are never labels.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence

from flask import Blueprint, Response, request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from supervisor import __version__
from supervisor.logs import event
from supervisor.store import read
from supervisor.store.connect import ReadError
from webui import view
from webui.cache import Cache, body, send
from webui.db import Database, Snapshot

log = logging.getLogger(__name__)
_SHORT_MS = 2_000
_STATES = ("pending", "up", "degraded", "failing", "down", "recovering")
_LABELS = ("target", "type", "group")
_HTTP = re.compile(r"HTTP ([0-9]{3})")
# our names of the steps of a request, and blackbox_exporter's
_PHASES = (
    ("dns", "resolve"), ("connect", "connect"), ("tls", "tls"), ("firstByte", "processing"), ("transfer", "transfer"),
)  # fmt: skip


class Families(Collector):
    """One reading of the database, as metric families."""

    def __init__(self, known: view.Supervisor | None, targets: Sequence[view.Target]) -> None:
        self._known = known
        self._targets = targets

    def collect(self) -> Iterator[Metric]:
        yield _gauge("checkvisor_web_build_info", "Version of the web app.", ("version",), [((__version__,), 1)])
        readable = 0 if self._known is None else 1
        yield _gauge("checkvisor_web_store_readable", "1 if the database could be read.", (), [((), readable)])
        if self._known is None:
            return
        yield from _supervisor(self._known)
        yield from _latest([one for one in self._targets if known_now(one)])
        yield from _kept(self._targets)


def known_now(one: view.Target) -> bool:
    """Whether its last result says how it is now."""
    fresh = not one.stale and not one.late and bool(one.row.enabled)
    return fresh and one.row.last_timestamp is not None and one.state != "pending"


def _supervisor(known: view.Supervisor) -> Iterator[Metric]:
    stale = 1 if known.stale else 0
    yield _gauge("checkvisor_supervisor_stale", "1 if the supervisor is silent for more than 30 s.", (), [((), stale)])
    if known.heartbeat_ms is not None:
        name, text = "checkvisor_supervisor_heartbeat_timestamp_seconds", "When the supervisor last said that it lives."
        yield _gauge(name, text, (), [((), known.heartbeat_ms / 1000)])


def _latest(targets: Sequence[view.Target]) -> Iterator[Metric]:
    rows = [(_labels(one), one) for one in targets]
    yield _gauge(
        "probe_success",
        "1 if the last check matched.",
        _LABELS,
        [(labels, 1 if one.row.last_matched else 0) for labels, one in rows],
    )
    yield _gauge(
        "probe_duration_seconds",
        "How long the last check took.",
        _LABELS,
        [(labels, one.row.last_duration_ms / 1000) for labels, one in rows if one.row.last_duration_ms is not None],
    )
    codes = [(labels, _HTTP.fullmatch(one.row.last_status_detail or "")) for labels, one in rows]
    yield _gauge(
        "probe_http_status_code",
        "HTTP status of the last check.",
        _LABELS,
        [(labels, int(code[1])) for labels, code in codes if code is not None],
    )
    yield _gauge(
        "probe_ssl_earliest_cert_expiry",
        "When the leaf certificate expires, in Unix time.",
        _LABELS,
        [(labels, at / 1000) for labels, one in rows if (at := _expiry(one)) is not None],
    )
    yield _gauge(
        "probe_http_duration_seconds",
        "Duration of the last HTTP check by phase.",
        (*_LABELS, "phase"),
        [((*labels, phase), ms / 1000) for labels, one in rows for phase, ms in _phases(one)],
    )
    yield _gauge(
        "checkvisor_target_state",
        "1 for the state the target is in.",
        (*_LABELS, "state"),
        [((*labels, state), 1 if one.state == state else 0) for labels, one in rows for state in _STATES],
    )


def _kept(targets: Sequence[view.Target]) -> Iterator[Metric]:
    """What stays true whatever the supervisor does."""
    rows = [(_labels(one), one.row) for one in targets]
    flags = [(_labels(one), one) for one in targets]
    late = [(labels, 1 if one.late else 0) for labels, one in flags]
    yield _gauge("checkvisor_target_late", "1 if the last result is older than 2 intervals + timeout.", _LABELS, late)
    for overlay, text in (("paused", "1 if the target is paused."), ("maintenance", "1 if it is in maintenance.")):
        raised = [(labels, 1 if one.overlay == overlay else 0) for labels, one in flags]
        yield _gauge(f"checkvisor_target_{overlay}", text, _LABELS, raised)
    seen = [(labels, row.last_timestamp / 1000) for labels, row in rows if row.last_timestamp is not None]
    yield _gauge("checkvisor_target_last_result_timestamp_seconds", "When the last check began.", _LABELS, seen)
    checks = CounterMetricFamily("checkvisor_checks", "Results over all time.", labels=(*_LABELS, "outcome"))
    missed = CounterMetricFamily("checkvisor_checks_missed", "Checks that were due and did not run.", labels=_LABELS)
    lost = CounterMetricFamily("checkvisor_results_lost", "Results that could not be stored.", labels=_LABELS)
    for labels, row in rows:
        checks.add_metric((*labels, "matched"), row.matched_total or 0)
        checks.add_metric((*labels, "failed"), row.failed_total or 0)
        missed.add_metric(labels, row.missed_total or 0)
        lost.add_metric(labels, row.lost_total or 0)
    yield from (checks, missed, lost)


def _labels(one: view.Target) -> tuple[str, str, str]:
    return one.row.key, one.row.type, one.row.group


def _gauge(
    name: str, text: str, labels: Sequence[str], samples: Sequence[tuple[Sequence[str], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


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
        encode, content_type = choose_encoder(request.headers.get("Accept", ""))
        try:
            with database.snapshot() as snapshot:
                key = (*read.fingerprint(snapshot.connection), snapshot.stale, snapshot.now_ms // _SHORT_MS)
                kept = cache.get(content_type, key, lambda: encode(_registry(_read(snapshot))).decode())
        except ReadError as error:
            event(log, "store.unreadable", level=logging.WARNING, error=str(error), path=request.path)
            kept = body(encode(_registry(Families(None, ()))).decode())
        return send(kept, content_type, cache_control="no-store")

    return metrics


def _read(snapshot: Snapshot) -> Families:
    known = snapshot.supervisor
    rows = read.all_targets(snapshot.connection, detail=True)
    return Families(known, [view.target(row, known, snapshot.now_ms) for row in rows])


def _registry(families: Families) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(families)
    return registry
