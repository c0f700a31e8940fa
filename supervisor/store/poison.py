"""What is written in place of an item that the database refuses, though it takes others: the tries, gentlest first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from supervisor.model import CheckFailure, CheckResult, Incident, Item, TargetState
from supervisor.store.catalog import plain

_TOO_LARGE = 1 << 62


def substitutes(item: Item, reason: str) -> Iterator[Item]:
    """The item with an `internal` error for its result and cleaned texts; then also without its events."""
    result = None if item.result is None else _internal(item.result, reason)
    clean = replace(item, result=result, state=_clean_state(item.state), incident=_clean_incident(item.incident))
    yield clean
    if item.events:
        yield replace(clean, events=())


def _internal(result: CheckResult, reason: str) -> CheckResult:
    failure = CheckFailure(
        kind="error",
        phase="internal",
        path="store.result",
        message=f"the result could not be stored: {plain(reason)[:200]}",
    )
    at = _number(result.timestamp_ms) or 0
    return CheckResult(result.target_id, at, success=False, matched=False, duration_ms=0.0, failure=failure)


def _clean_state(state: TargetState) -> TargetState:
    return replace(
        state,
        since_ms=_number(state.since_ms),
        run_started_ms=_number(state.run_started_ms),
        last_reminder_ms=_number(state.last_reminder_ms),
        last_result_ms=_number(state.last_result_ms),
        run_first_failure=_clean_failure(state.run_first_failure),
        incident=_clean_incident(state.incident),
    )


def _clean_incident(incident: Incident | None) -> Incident | None:
    if incident is None:
        return None
    first, last = _clean_failure(incident.first_failure), _clean_failure(incident.last_failure)
    assert first is not None
    assert last is not None
    started, resolved = _number(incident.started_ms) or 0, _number(incident.resolved_ms)
    return replace(incident, first_failure=first, last_failure=last, started_ms=started, resolved_ms=resolved)


def _number(value: int | None) -> int | None:
    """A time that SQLite takes; one beyond 64 bits is nonsense, and becomes 0."""
    return 0 if value is not None and not -_TOO_LARGE < value < _TOO_LARGE else value


def _clean_failure(failure: CheckFailure | None) -> CheckFailure | None:
    if failure is None:
        return None
    return CheckFailure(
        failure.kind,
        plain(str(failure.phase)),
        plain(str(failure.path)),
        plain(str(failure.message)),
        None if failure.expected is None else plain(str(failure.expected)),
        None if failure.actual is None else plain(str(failure.actual)),
    )
