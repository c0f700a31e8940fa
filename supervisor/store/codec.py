"""Values that the tables keep as JSON text, both ways: failures, timings, metrics, certificates. camelCase names.

A column that holds nothing is NULL; empty fields are left out. Readers get None for NULL.
"""

from __future__ import annotations

import json
from typing import Any

from supervisor.model import Certificate, CheckFailure, Metric, Timings

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
TIMING_NAMES = (
    ("dns", "dns"), ("connect", "connect"), ("tls", "tls"), ("first_byte", "firstByte"), ("transfer", "transfer"),
)  # fmt: skip


def dumps(value: Any) -> str:
    """Compact JSON; NaN and infinities are errors."""
    return _encode(value)


def failure_json(failure: CheckFailure | None) -> str | None:
    """`{"kind", "phase", "path", "message", "expected"?, "actual"?}`."""
    if failure is None:
        return None
    value = {"kind": failure.kind, "phase": failure.phase, "path": failure.path, "message": failure.message}
    if failure.expected is not None:
        value["expected"] = failure.expected
    if failure.actual is not None:
        value["actual"] = failure.actual
    return _encode(value)


def failure_from(text: str | None) -> CheckFailure | None:
    """The failure that `failure_json` wrote."""
    if text is None:
        return None
    value = json.loads(text)
    return CheckFailure(
        value["kind"], value["phase"], value["path"], value["message"], value.get("expected"), value.get("actual")
    )


def timings_json(timings: Timings | None) -> str | None:
    """`{"dns", "connect", "tls", "firstByte", "transfer"}` in ms with 3 decimals, steps that did not happen left out.

    Written out by hand: this runs for every result, and json takes three times as long.
    """
    if timings is None:
        return None
    parts = []
    if timings.dns is not None:
        parts.append(f'"dns":{timings.dns:.3f}')
    if timings.connect is not None:
        parts.append(f'"connect":{timings.connect:.3f}')
    if timings.tls is not None:
        parts.append(f'"tls":{timings.tls:.3f}')
    if timings.first_byte is not None:
        parts.append(f'"firstByte":{timings.first_byte:.3f}')
    if timings.transfer is not None:
        parts.append(f'"transfer":{timings.transfer:.3f}')
    return "{" + ",".join(parts) + "}"


def timings_from(text: str | None) -> Timings | None:
    """The timings that `timings_json` wrote."""
    if text is None:
        return None
    value = json.loads(text)
    return Timings(**{ours: value.get(theirs) for ours, theirs in TIMING_NAMES})


def metrics_json(metrics: tuple[Metric, ...]) -> str | None:
    """An array of `{"label", "value", "unit"?, "warning"?, "critical"?, "minimum"?, "maximum"?}`."""
    if not metrics:
        return None
    return _encode([_metric(metric) for metric in metrics])


def _metric(metric: Metric) -> dict[str, Any]:
    value: dict[str, Any] = {"label": metric.label, "value": metric.value}
    for name in ("unit", "warning", "critical"):
        if getattr(metric, name):
            value[name] = getattr(metric, name)
    for name in ("minimum", "maximum"):
        if getattr(metric, name) is not None:
            value[name] = getattr(metric, name)
    return value


def metrics_from(text: str | None) -> tuple[Metric, ...]:
    """The metrics that `metrics_json` wrote."""
    return tuple(Metric(**value) for value in json.loads(text)) if text is not None else ()


def certificate_json(certificate: Certificate | None) -> str | None:
    """`{"notBefore", "notAfter"}` in UTC ms, `"subject"`, `"issuer"`."""
    if certificate is None:
        return None
    return _encode(
        {
            "notBefore": certificate.not_before_ms,
            "notAfter": certificate.not_after_ms,
            "subject": certificate.subject,
            "issuer": certificate.issuer,
        }
    )


def certificate_from(text: str | None) -> Certificate | None:
    """The certificate that `certificate_json` wrote."""
    if text is None:
        return None
    value = json.loads(text)
    return Certificate(value["notBefore"], value["notAfter"], value["subject"], value["issuer"])
