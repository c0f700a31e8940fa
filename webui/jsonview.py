"""The shapes of the JSON API: view values in, plain dicts in camelCase out. schemas.py describes the same. Pure."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import orjson

from webui import view
from webui.view import Failure, Show, Supervisor, Target
from webui.words import rfc3339

if TYPE_CHECKING:
    from supervisor.store.read import DeadLetterRow, IncidentRow, ResultRow, RollupRow
    from webui.trend import Figures

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def dumps(value: Any) -> str:
    """Compact JSON; a NaN or infinity that got into the database becomes null (W19).

    orjson: 0.5 ms for a thousand targets where `json` takes 6. What it refuses (half a surrogate pair, an integer
    above 64 bits), `json` writes.
    """
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return _encode(_finite(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value


def _flag(value: Any) -> bool | None:
    """SQLite's 0 and 1."""
    return None if value is None else bool(value)


def failure(value: Failure | None) -> dict[str, Any] | None:
    """A CheckFailure."""
    if value is None:
        return None
    return {
        "kind": value.kind,
        "phase": value.phase,
        "path": value.path,
        "expected": value.expected,
        "actual": value.actual,
        "message": value.message,
    }


def last_result(one: Target) -> dict[str, Any] | None:
    """The latest result, null before the first."""
    row = one.row
    if row.last_timestamp is None:
        return None
    return {
        "timestamp": rfc3339(row.last_timestamp),
        "success": _flag(row.last_success),
        "matched": _flag(row.last_matched),
        "durationMs": row.last_duration_ms,
        "statusDetail": view.status_detail(row, one.show),
        "failure": failure(one.failure),
        "warning": failure(one.warning),
    }


def target(one: Target) -> dict[str, Any]:
    """An item of `/targets`."""
    row = one.row
    return {
        "id": row.key,
        "name": row.name,
        "type": row.type,
        "group": row.group,
        "target": one.address,
        "labels": view.labels(row),
        "enabled": bool(row.enabled),
        "state": one.state,
        "overlay": one.overlay,
        "status": one.status,
        "late": one.late,
        "stale": one.stale,
        "since": rfc3339(row.since),
        "consecutiveFailures": row.consecutive or 0 if one.state in view.NOT_UP else 0,
        "intervalMs": row.interval_ms,
        "timeoutMs": row.timeout_ms,
        "nextDueAt": rfc3339(row.next_due_at),
        "lastResult": last_result(one),
        "totals": {
            "matched": row.matched_total or 0,
            "failed": row.failed_total or 0,
            "missed": row.missed_total or 0,
            "lost": row.lost_total or 0,
        },
    }


def target_detail(
    one: Target, known: Supervisor, figures: list[Figures], incident: IncidentRow | None
) -> dict[str, Any]:
    """`/targets/{id}`: the item, and all that is known of it."""
    row, show = one.row, one.show
    return target(one) | {
        "windows": [window(each) for each in figures],
        "certificate": certificate(row.certificate, show),
        "timings": view.parse(row.timings, None),
        "metrics": view.parse(row.metrics, []),
        "config": view.parse(row.config, {}) if show.target == "full" else None,
        "expect": view.parse(row.expect, {}) if show.failure == "full" else None,
        "incident": None if incident is None else incident_item(incident, show),
        **freshness(known),
    }


def window(figures: Figures) -> dict[str, Any]:
    """Uptime and coverage of one window."""
    return {
        "window": figures.span.name,
        "from": rfc3339(figures.from_ms),
        "uptime": figures.uptime,
        "coverage": figures.coverage,
        "p50Ms": figures.median_ms,
        "p95Ms": figures.p95_ms,
        "p99Ms": figures.p99_ms,
        "missed": figures.missed,
        "lost": figures.lost,
    }


def certificate(text: str | None, show: Show) -> dict[str, Any] | None:
    """The leaf certificate; names in it are hidden with the address."""
    value = view.parse(text, None)
    if not isinstance(value, dict):
        return None
    hidden = show.target == "none"
    return {
        "notBefore": rfc3339(value.get("notBefore")),
        "notAfter": rfc3339(value.get("notAfter")),
        "subject": None if hidden else value.get("subject"),
        "issuer": None if hidden else value.get("issuer"),
    }


def freshness(known: Supervisor) -> dict[str, Any]:
    """What stands in every answer that carries state."""
    return {"heartbeatAt": rfc3339(known.heartbeat_ms), "stale": known.stale}


def result(row: ResultRow, show: Show) -> dict[str, Any]:
    """One result."""
    text = row.status_detail or ""
    return {
        "id": str(row.id),
        "timestamp": rfc3339(row.timestamp),
        "success": bool(row.success),
        "matched": bool(row.matched),
        "durationMs": row.duration_ms,
        "statusDetail": view.shown_detail(text, show),
        "failure": failure(view.failure(row.failure, show)),
        "warning": failure(view.failure(row.warning, show)),
        "timings": view.parse(row.timings, None),
        "metrics": view.parse(row.metrics, []),
        "maintenance": bool(row.maintenance),
    }


def bucket(row: RollupRow, quantiles: list[float | None]) -> dict[str, Any]:
    """One bucket of a trend."""
    ran = row.matched + row.failed + row.maintenance
    return {
        "timestamp": rfc3339(row.bucket),
        "matched": row.matched,
        "failed": row.failed,
        "degraded": row.degraded,
        "maintenance": row.maintenance,
        "missed": row.missed,
        "lost": row.lost,
        "coveredMs": row.covered_ms,
        "meanMs": row.duration_sum / ran if ran else None,
        "minMs": row.duration_min,
        "maxMs": row.duration_max,
        "p50Ms": quantiles[0],
        "p95Ms": quantiles[1],
        "p99Ms": quantiles[2],
    }


def incident_item(row: IncidentRow, show: Show) -> dict[str, Any]:
    """One incident; `durationMs` is null while it goes on."""
    return {
        "id": str(row.id),
        "targetId": row.key,
        "targetName": row.name,
        "group": row.group,
        "startedAt": rfc3339(row.started_at),
        "resolvedAt": rfc3339(row.resolved_at),
        "durationMs": None if row.resolved_at is None else max(0, row.resolved_at - row.started_at),
        "failures": row.failures,
        "firstFailure": failure(view.failure(row.first_failure, show)),
        "lastFailure": failure(view.failure(row.last_failure, show)),
        "notified": bool(row.notified),
        "resolution": row.resolution,
    }


def dead_letter(row: DeadLetterRow, show: Show) -> dict[str, Any]:
    """One event that was not delivered."""
    return {
        "id": row.id,
        "timestamp": rfc3339(row.timestamp),
        "url": row.url if show.target != "none" else "",
        "code": row.code,
        "error": row.error if show.failure != "none" else "",
        "eventId": f"{row.stream}:{row.seq}",
        "seq": row.seq,
        "type": row.type,
        "endpoint": row.endpoint,
        "outcome": row.outcome,
    }


def summary(counts: dict[str, int], known: Supervisor, version: int) -> dict[str, Any]:
    """`/summary`: what a wall display or a script wants to know at once."""
    return {
        "overall": view.overall(counts, stale=known.stale),
        "headline": view.headline(counts, stale=known.stale),
        "counts": counts,
        "targets": sum(counts.values()),
        "version": str(version),
        "supervisor": {
            "version": known.version,
            "startedAt": rfc3339(known.started_ms),
            "reloadError": known.reload_error or None,
            "degraded": known.degraded or None,
        },
        **freshness(known),
    }


def health(one: Target, known: Supervisor) -> dict[str, Any]:
    """`/targets/{id}/health`."""
    return {
        "id": one.row.key,
        "healthy": one.healthy,
        "state": one.state,
        "overlay": one.overlay,
        "status": one.status,
        "late": one.late,
        "lastResultAt": rfc3339(one.row.last_timestamp),
        "failure": failure(one.failure),
        **freshness(known),
    }
