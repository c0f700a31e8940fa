"""What an event says: the envelope (W5) and the bodies made from it. Pure; nothing here knows of time or sockets.

The envelope is stored without the endpoint's metadata. The body for one endpoint is made from the stored bytes at each
attempt, so it is the same each time while the endpoint's metadata, format and template are.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from supervisor.model import CheckFailure, CheckResult, EventDraft, JsonValue, Metric, ResolvedTarget
from supervisor.text import clean, cut, show

SUPERVISOR_STREAM = "_supervisor"


class UnreadableEventError(Exception):
    """The stored bytes of an event are not a JSON object (W13)."""


def rfc3339(timestamp_ms: int) -> str:
    """UTC with milliseconds: `2026-01-02T03:04:05.678Z`."""
    moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def _json(value: JsonValue) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _storable(value: JsonValue) -> JsonValue:
    """The value with what JSON or UTF-8 can't carry made visible: lone surrogates as `\\udxxx`, NaN as null."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_storable(str(name)): _storable(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in value]
    return value


# --- data ------------------------------------------------------------------------------------------------------------


def result_data(result: CheckResult) -> dict[str, JsonValue]:
    """A CheckResult in camelCase; what it does not have is left out."""
    data: dict[str, JsonValue] = {
        "targetId": result.target_id,
        "timestamp": rfc3339(result.timestamp_ms),
        "success": result.success,
        "matched": result.matched,
        "durationMs": round(result.duration_ms, 3),
        "statusDetail": result.status_detail,
    }
    if result.failure is not None:
        data["failure"] = _failure(result.failure)
    if result.warning is not None:
        data["warning"] = _failure(result.warning)
    if result.timings is not None:
        steps = {
            "dns": result.timings.dns,
            "connect": result.timings.connect,
            "tls": result.timings.tls,
            "firstByte": result.timings.first_byte,
            "transfer": result.timings.transfer,
        }
        data["timings"] = {name: round(value, 3) for name, value in steps.items() if value is not None}
    if result.metrics:
        data["metrics"] = [_metric(metric) for metric in result.metrics]
    return data


def _failure(failure: CheckFailure) -> dict[str, JsonValue]:
    data: dict[str, JsonValue] = {
        "kind": failure.kind,
        "phase": failure.phase,
        "path": failure.path,
        "message": failure.message,
    }
    if failure.expected is not None:
        data["expected"] = failure.expected
    if failure.actual is not None:
        data["actual"] = failure.actual
    return data


def _metric(metric: Metric) -> dict[str, JsonValue]:
    texts = {"unit": metric.unit, "warning": metric.warning, "critical": metric.critical}
    numbers = {"minimum": metric.minimum, "maximum": metric.maximum}
    return (
        {"label": metric.label, "value": metric.value}
        | {name: text for name, text in texts.items() if text}
        | {name: number for name, number in numbers.items() if number is not None}
    )


def target_data(target: ResolvedTarget, draft: EventDraft) -> dict[str, JsonValue]:
    """`data[0]` of a target's event: the result, the target's names, and what the type of event adds."""
    data = {} if draft.result is None else result_data(draft.result)
    data |= {"targetId": target.id, "name": target.name, "group": target.group, "checkType": target.type}
    if draft.previous_state is not None:
        data["previousState"] = draft.previous_state
    if draft.since_ms is not None:
        data["since"] = rfc3339(draft.since_ms)
    if draft.type in ("target.down", "target.reminder"):
        data["consecutiveFailures"] = draft.consecutive_failures
    if draft.down_since_ms is not None:
        data["downSince"] = rfc3339(draft.down_since_ms)
    if draft.down_for_ms is not None:
        data["downForMs"] = draft.down_for_ms
    if draft.type == "target.reminder":
        data["reminder"] = draft.reminder
    if draft.reason is not None:
        data["reason"] = draft.reason
    return data


def error_of(draft: EventDraft) -> str | None:
    """The failure message of an event that tells of a failure."""
    if draft.type not in ("target.down", "target.reminder", "target.result"):
        return None
    failure = None if draft.result is None else draft.result.failure
    if failure is not None:
        return failure.message
    return None if draft.type == "target.result" else "the target is down"


# --- the envelope and the bodies -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Envelope:
    """The fields of W5 but the endpoint's metadata. `seq` is None for `target.test` alone."""

    stream: str
    event_id: str
    seq: int | None
    type: str
    source: str
    timestamp_ms: int
    data: tuple[Mapping[str, JsonValue], ...]
    error: str | None = None

    def json(self) -> str:
        """What is stored: sorted keys, no spaces."""
        fields: dict[str, JsonValue] = {
            "data": self.data,
            "eventId": self.event_id,
            "id": self.stream,
            "source": self.source,
            "success": self.error is None,
            "timestamp": rfc3339(self.timestamp_ms),
            "type": self.type,
        }
        if self.seq is not None:
            fields["seq"] = self.seq
        if self.error is not None:
            fields["error"] = self.error
        return _json(_storable(fields))


def parse(stored: bytes) -> dict[str, JsonValue]:
    """The stored envelope as an object; raises UnreadableEventError."""
    try:
        envelope = json.loads(stored.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise UnreadableEventError(f"its stored bytes are not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise UnreadableEventError("its stored bytes are JSON, but not an object")
    return envelope


def native_body(envelope: Mapping[str, JsonValue], metadata_json: str) -> bytes:
    """The body of `format: checkvisor`: the envelope with the endpoint's metadata, echoed unchanged."""
    return _json(_storable({**envelope, "metadata": json.loads(metadata_json)})).encode()


_PLACE = re.compile(r"\{\{\s*([A-Za-z_][\w-]*(?:\.[\w-]+|\[\d{1,9}\])*)\s*\}\}")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]|^([\w-]+)")
TEMPLATE_NAMES = (
    "data", "error", "eventId", "id", "metadata", "seq", "source", "success", "text", "timestamp", "title", "type",
)  # fmt: skip


def check_template(template_json: str) -> None:
    """Raise ValueError, as a sentence, when a template is no JSON or has a placeholder that can't mean anything."""
    try:
        template = json.loads(template_json)
    except ValueError as error:
        raise ValueError(f"the template is not JSON: {error}") from error
    for text in _texts(template):
        left = _PLACE.sub("", text)
        if "{{" in left:
            shown = cut(clean(text), 80)
            raise ValueError(f"{shown!r} has a placeholder that can't be read; write {{{{id}}}} or {{{{data.name}}}}")
        for found in _PLACE.finditer(text):
            root = re.split(r"[.\[]", found.group(1))[0]
            if root not in TEMPLATE_NAMES:
                names = ", ".join(TEMPLATE_NAMES)
                raise ValueError(f"{{{{{found.group(1)}}}}} is unknown; placeholders begin with one of {names}")


def _texts(value: JsonValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []


def template_body(template_json: str, envelope: Mapping[str, JsonValue], metadata_json: str) -> bytes:
    """The body of `format: template`. Values are put into the parsed template, so the body is always valid JSON.

    A text that is one placeholder becomes the value itself, whatever its type; within a longer text values are written
    as text. `data.X` means `data[0].X`. What the event does not have is null, or nothing within a text.
    """
    title, text, _severity = headline(envelope)
    scope = {**envelope, "metadata": json.loads(metadata_json), "title": title, "text": text}
    return _json(_storable(_filled(json.loads(template_json), scope))).encode()


def _filled(template: JsonValue, scope: Mapping[str, JsonValue]) -> JsonValue:
    if isinstance(template, dict):
        return {name: _filled(item, scope) for name, item in template.items()}
    if isinstance(template, list):
        return [_filled(item, scope) for item in template]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template)
    if whole is not None:
        return _found(scope, whole.group(1))
    return _PLACE.sub(lambda place: _as_text(_found(scope, place.group(1)), place.group(1)), template)


def _found(scope: JsonValue, path: str) -> JsonValue:
    value = scope
    for step in _STEP.finditer(path):
        name, index = step.group(1) or step.group(3), step.group(2)
        if index is not None:
            value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
            continue
        if isinstance(value, list):
            value = value[0] if value else None
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _as_text(value: JsonValue, path: str) -> str:
    """As people read it: a whole number without `.0`; but metadata is echoed as it was written."""
    if value is None:
        return ""
    if isinstance(value, float) and not path.startswith("metadata"):
        return show(value)
    return value if isinstance(value, str) else _json(value)


# --- for people ------------------------------------------------------------------------------------------------------

_TITLES = {
    "target.down": "{name} is down",
    "target.up": "{name} is up again",
    "target.closed": "{name}: incident closed",
    "target.degraded": "{name} is degraded",
    "target.recovered": "{name} is no longer degraded",
    "target.result": "{name}: check {verdict}",
    "target.reminder": "{name} is still down",
    "target.test": "Test of Checkvisor: {name}",
    "supervisor.started": "Checkvisor started",
    "supervisor.stopped": "Checkvisor stopped",
    "supervisor.reloadFailed": "Checkvisor could not reload its configuration",
}
_SEVERITIES = {
    "target.down": "failure",
    "target.reminder": "failure",
    "supervisor.reloadFailed": "failure",
    "target.degraded": "warning",
    "target.up": "success",
    "target.recovered": "success",
}


def headline(envelope: Mapping[str, JsonValue]) -> tuple[str, str, str]:
    """A title, a text of a few lines, and a severity (`info`, `success`, `warning`, `failure`) for an event."""
    kind = str(envelope.get("type", ""))
    data = _first(envelope)
    name = str(data.get("name") or envelope.get("id", ""))
    verdict = "matched" if data.get("matched") else "failed"
    title = _TITLES.get(kind, kind).format(name=name, verdict=verdict)
    lines = [str(envelope[field]) for field in ("error",) if envelope.get(field)]
    warning = data.get("warning")
    if isinstance(warning, dict) and kind == "target.degraded":
        lines.append(str(warning.get("message", "")))
    if data.get("reason"):
        lines.append(f"Reason: {data['reason']}")
    if data.get("group"):
        lines.append(f"Group: {data['group']}")
    if isinstance(data.get("downForMs"), int):
        lines.append(f"Down for {_duration(data['downForMs'])}, since {data.get('downSince', 'unknown')}")
    elif data.get("since"):
        lines.append(f"Since: {data['since']}")
    lines.append(f"Time: {envelope.get('timestamp', '')}")
    return title, "\n".join(lines), _SEVERITIES.get(kind, "info")


def _first(envelope: Mapping[str, JsonValue]) -> dict[str, Any]:
    data = envelope.get("data")
    return data[0] if isinstance(data, list) and data and isinstance(data[0], dict) else {}


def _duration(total_ms: int) -> str:
    seconds = max(total_ms // 1000, 0)
    parts = [(seconds // 86400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")]
    shown = [f"{number} {unit}" for number, unit in parts if number]
    return " ".join(shown[:2]) or "less than a second"
