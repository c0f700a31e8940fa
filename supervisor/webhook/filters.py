"""Which endpoints want which event (W4). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor.model import EventType, ResolvedTarget, WebhookEndpoint

_SHORT = {
    "target.down": "down",
    "target.up": "up",
    "target.degraded": "degraded",
    "target.recovered": "recovered",
    "target.result": "result",
    "target.reminder": "reminder",
    "target.closed": "closed",
    "supervisor.started": "started",
    "supervisor.stopped": "stopped",
    "supervisor.reloadFailed": "reloadFailed",
}


def wanting(
    endpoints: Iterable[WebhookEndpoint], target: ResolvedTarget | None, kind: EventType, reminder: int = 0
) -> tuple[str, ...]:
    """The names, in file order. `target` is None for the supervisor's own events, which every endpoint may name."""
    endpoints = tuple(endpoints)
    chosen = [
        endpoint for endpoint in endpoints if endpoint.enabled and (target is None or endpoint.name in target.notify)
    ]
    if kind == "target.reminder":
        shortest = _shortest(chosen)
        return tuple(endpoint.name for endpoint in chosen if _wants_reminder(endpoint, shortest, reminder))
    names = {_SHORT.get(kind, "")} | ({"up"} if kind == "target.closed" else set())
    return tuple(endpoint.name for endpoint in chosen if names & set(endpoint.events))


def reminder_interval_ms(endpoints: Iterable[WebhookEndpoint], target: ResolvedTarget) -> int | None:
    """The shortest reminder interval of the target's endpoints; those with a longer one leave reminders out."""
    shortest = _shortest([one for one in endpoints if one.enabled and one.name in target.notify])
    return None if shortest is None else int(shortest * 1000)


def _shortest(endpoints: Iterable[WebhookEndpoint]) -> float | None:
    return min((one.reminder_interval_s for one in endpoints if one.reminder_interval_s is not None), default=None)


def _wants_reminder(endpoint: WebhookEndpoint, shortest_s: float | None, reminder: int) -> bool:
    interval_s = endpoint.reminder_interval_s
    if interval_s is None or shortest_s is None:
        return False
    return int(reminder * shortest_s / interval_s) > int((reminder - 1) * shortest_s / interval_s)
