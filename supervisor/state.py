"""The state machine of one target: what a result changes, and which events follow. Pure; the loop owns the states.

`settled` is the last settled state that receivers know of (or would, if they listened): a suppressed `down` does not
settle until it is notified, so `degraded` and `recovered` compare with what was told. `since_ms` of `down` is the first
failure of its run, of an `up` after `recovering` the first match of the closing run: the bounds of the incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from supervisor.model import CheckFailure, CheckResult, EventDraft, Incident, StateName, TargetState


@dataclass(frozen=True, slots=True)
class Policy:
    """What a transition depends on beside state and result. `suppressed`: in maintenance, or a dependency blocks."""

    failure_threshold: int = 3
    success_threshold: int = 2
    suppressed: bool = False
    next_incident_id: int = 1
    reminder_interval_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """The new state, the incident if it opened, changed or closed, and the events in their order."""

    state: TargetState
    incident: Incident | None = None
    events: tuple[EventDraft, ...] = ()


def initial() -> TargetState:
    """The state of a target that was never checked."""
    return TargetState()


def transition(previous: TargetState, result: CheckResult, policy: Policy) -> Transition:
    """Apply one result. `target.result` comes first among the events: it is what the others follow from."""
    after = _after_match(previous, result, policy) if result.matched else _after_failure(previous, result, policy)
    every = EventDraft("target.result", result.timestamp_ms, result, previous.state)
    state = replace(after.state, last_result_ms=result.timestamp_ms)
    return Transition(state, after.incident, (every, *after.events))


# --- a match ---------------------------------------------------------------------------------------------------------


def _after_match(previous: TargetState, result: CheckResult, policy: Policy) -> Transition:
    if previous.incident is None:
        return _settle(previous, result, policy, since_ms=None)
    now = result.timestamp_ms
    recovering = previous.state == "recovering"
    matches = previous.consecutive + 1 if recovering else 1
    first_match = previous.run_started_ms if recovering and previous.run_started_ms is not None else now
    if matches < policy.success_threshold:
        state = replace(
            previous,
            state="recovering",
            since_ms=first_match,
            consecutive=matches,
            run_started_ms=first_match,
            run_first_failure=None,
        )
        return Transition(state)
    return _resolve(previous, previous.incident, result, policy, first_match)


def _settle(previous: TargetState, result: CheckResult, policy: Policy, since_ms: int | None) -> Transition:
    """A match while no incident is open: up or degraded at once."""
    name: Literal["up", "degraded"] = "degraded" if result.warning is not None else "up"
    if previous.state == name:
        since_ms = previous.since_ms
    elif since_ms is None:
        since_ms = result.timestamp_ms
    state = TargetState(state=name, since_ms=since_ms, settled=previous.settled)
    draft = EventDraft("target.result", result.timestamp_ms, result, previous.state, since_ms)
    if name == "degraded":
        if previous.settled == "degraded" or policy.suppressed:  # told already, or told once nothing suppresses it
            return Transition(state)
        return Transition(replace(state, settled="degraded"), None, (replace(draft, type="target.degraded"),))
    told = (replace(draft, type="target.recovered"),) if previous.settled == "degraded" else ()
    return Transition(replace(state, settled="up"), None, told)


def _resolve(
    previous: TargetState, incident: Incident, result: CheckResult, policy: Policy, first_match_ms: int
) -> Transition:
    """The match that closes the incident."""
    closed = replace(incident, resolved_ms=first_match_ms, resolution="recovered")
    if not incident.notified:
        settled = _settle(replace(previous, incident=None), result, policy, first_match_ms)
        return replace(settled, incident=closed)
    name: Literal["up", "degraded"] = "degraded" if result.warning is not None else "up"
    draft = EventDraft(
        "target.up",
        result.timestamp_ms,
        result,
        previous.state,
        since_ms=first_match_ms,
        down_since_ms=incident.started_ms,
        down_for_ms=max(0, first_match_ms - incident.started_ms),
    )
    return Transition(TargetState(state=name, since_ms=first_match_ms, settled=name), closed, (draft,))


# --- a failure -------------------------------------------------------------------------------------------------------


def _after_failure(previous: TargetState, result: CheckResult, policy: Policy) -> Transition:
    assert result.failure is not None
    if previous.incident is not None:
        return _still_down(previous, previous.incident, result, result.failure, policy)
    now = result.timestamp_ms
    failing = previous.state == "failing"
    failures = previous.consecutive + 1 if failing else 1
    started = previous.run_started_ms if failing and previous.run_started_ms is not None else now
    first = previous.run_first_failure if failing and previous.run_first_failure is not None else result.failure
    if failures < policy.failure_threshold:
        state = TargetState(
            state="failing",
            since_ms=started,
            consecutive=failures,
            settled=previous.settled,
            run_started_ms=started,
            run_first_failure=first,
        )
        return Transition(state)
    incident = Incident(
        policy.next_incident_id, result.target_id, started, failures, first, result.failure, notified=False
    )
    down = TargetState(
        state="down",
        since_ms=started,
        consecutive=failures,
        settled=previous.settled,
        run_started_ms=started,
        run_first_failure=first,
        incident=incident,
    )
    return _tell(down, incident, result, policy, previous.state)


def _still_down(
    previous: TargetState, incident: Incident, result: CheckResult, failure: CheckFailure, policy: Policy
) -> Transition:
    """A failure while an incident is open: from `down`, or back from `recovering` with a new count."""
    incident = replace(incident, failures=incident.failures + 1, last_failure=failure)
    state = replace(
        previous,
        state="down",
        since_ms=incident.started_ms,
        consecutive=previous.consecutive + 1 if previous.state == "down" else 1,
        run_started_ms=incident.started_ms,
        run_first_failure=incident.first_failure,
        incident=incident,
    )
    if not incident.notified:
        return _tell(state, incident, result, policy, previous.settled or "pending")
    return _remind(state, incident, result, policy)


def _tell(state: TargetState, incident: Incident, result: CheckResult, policy: Policy, before: StateName) -> Transition:
    """`target.down`, unless something suppresses it: then the first result without suppression tells it."""
    if policy.suppressed:
        return Transition(state, incident)
    incident = replace(incident, notified=True)
    state = replace(state, incident=incident, settled="down", last_reminder_ms=result.timestamp_ms)
    draft = EventDraft(
        "target.down",
        result.timestamp_ms,
        result,
        before,
        since_ms=incident.started_ms,
        consecutive_failures=state.consecutive,
        down_since_ms=incident.started_ms,
    )
    return Transition(state, incident, (draft,))


def _remind(state: TargetState, incident: Incident, result: CheckResult, policy: Policy) -> Transition:
    """`target.reminder`, when the last word on this incident is older than the interval. Suppression holds it back."""
    interval, last = policy.reminder_interval_ms, state.last_reminder_ms
    if last is None or last > result.timestamp_ms:  # told before anyone wanted reminders, or the clock was set back
        state = replace(state, last_reminder_ms=result.timestamp_ms)
    elif interval is not None and not policy.suppressed and result.timestamp_ms - last >= interval:
        number = state.reminders_sent + 1
        state = replace(state, reminders_sent=number, last_reminder_ms=result.timestamp_ms)
        draft = EventDraft(
            "target.reminder",
            result.timestamp_ms,
            result,
            "down",
            since_ms=incident.started_ms,
            consecutive_failures=state.consecutive,
            down_since_ms=incident.started_ms,
            down_for_ms=max(0, result.timestamp_ms - incident.started_ms),
            reminder=number,
        )
        return Transition(state, incident, (draft,))
    return Transition(state, incident)


# --- paused, removed -------------------------------------------------------------------------------------------------


def close(previous: TargetState, reason: Literal["paused", "removed"], now_ms: int) -> Transition:
    """Pause or remove a target: an open incident ends, and if it was notified `target.closed` says so.

    The target starts at `pending` when it comes back. That it was told to be degraded is kept: the receiver waits for
    `recovered`.
    """
    state = TargetState(
        since_ms=now_ms,
        settled="degraded" if previous.settled == "degraded" else None,
        last_result_ms=previous.last_result_ms,
    )
    if previous.incident is None:
        return Transition(state)
    incident = replace(previous.incident, resolved_ms=now_ms, resolution=reason)
    if not incident.notified:
        return Transition(state, incident)
    draft = EventDraft(
        "target.closed",
        now_ms,
        None,
        previous.state,
        since_ms=now_ms,
        down_since_ms=incident.started_ms,
        down_for_ms=max(0, now_ms - incident.started_ms),
        reason=reason,
    )
    return Transition(state, incident, (draft,))


# --- dependencies ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dependency:
    """What is known of one target that another depends on."""

    state: StateName
    last_result_ms: int | None
    interval_ms: int
    timeout_ms: int
    enabled: bool = True


def first_failure_ms(previous: TargetState, result: CheckResult) -> int:
    """When the failing run that `result` belongs to began: what a dependency's results are compared with."""
    if previous.incident is not None:
        return previous.incident.started_ms
    if previous.state == "failing" and previous.run_started_ms is not None:
        return previous.run_started_ms
    return result.timestamp_ms


def dependency_blocks(dependency: Dependency, since_ms: int, now_ms: int) -> bool:
    """Whether a dependency suppresses the `down` of a target that fails since `since_ms`.

    It does while it is down or failing itself, and while its state is not known to be newer than the failure: but for
    that at most 2 of its intervals + timeout are waited, also when the clock was set back behind the failure. A paused
    dependency blocks nothing.
    """
    if not dependency.enabled:
        return False
    if dependency.state in ("down", "failing"):
        return True
    if dependency.last_result_ms is not None and dependency.last_result_ms > since_ms:
        return False
    return abs(now_ms - since_ms) <= 2 * dependency.interval_ms + dependency.timeout_ms


def dependencies_block(dependencies: Iterable[Dependency], since_ms: int, now_ms: int) -> bool:
    """Whether any of them does."""
    return any(dependency_blocks(dependency, since_ms, now_ms) for dependency in dependencies)


def transitive(depends_on: Mapping[str, tuple[str, ...]], target_id: str) -> tuple[str, ...]:
    """All targets that one depends on, near ones first. `depends_on` has no cycles (refused at load)."""
    found: dict[str, None] = {}
    waiting = list(depends_on.get(target_id, ()))
    while waiting:
        one = waiting.pop(0)
        if one not in found:
            found[one] = None
            waiting.extend(depends_on.get(one, ()))
    return tuple(found)
