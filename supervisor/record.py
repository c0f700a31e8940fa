"""Results become states, incidents and numbered events, and go to the writer as one item. Owns all of them in memory.

Main thread only. A result whose event finds no room waits here, and with it its target (webhooks.md, W19); all others
go on.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from supervisor import state as machine
from supervisor.checkers.command.settings import CommandSettings
from supervisor.expect.spec import CommandExpect
from supervisor.logs import event
from supervisor.maintenance import Maintenance
from supervisor.model import (
    CheckResult,
    Config,
    Event,
    Item,
    MaintenanceWindow,
    Resolution,
    ResolvedTarget,
    TargetState,
)
from supervisor.store.load import Described, Loaded
from supervisor.store.write import Writer
from supervisor.webhook.hooks import Webhooks

log = logging.getLogger(__name__)

_SUPERVISOR = "_supervisor"
_LEVELS = {"down": logging.WARNING, "failing": logging.WARNING}


@dataclass(frozen=True, slots=True)
class Held:
    """Something that can't be recorded yet: a result, or the end of a target (`reason`)."""

    target: ResolvedTarget
    result: CheckResult | None = None
    reason: Resolution | None = None


class Recorder:
    """The states of all targets. `next_due_ms` tells when a target runs next (UTC ms), for the page."""

    def __init__(
        self, writer: Writer, hooks: Webhooks, loaded: Loaded, next_due_ms: Callable[[str], int | None]
    ) -> None:
        self._writer = writer
        self._hooks = hooks
        self._next_due_ms = next_due_ms
        self._states: dict[str, TargetState] = dict(loaded.states)
        self._receivers = _receivers(loaded)
        self._described = loaded.described
        self._next_incident_id = loaded.max_incident_id + 1
        self._targets: dict[str, ResolvedTarget] = {}
        self._depends_on: dict[str, tuple[str, ...]] = {}
        self._maintenance = Maintenance(())
        self._held: deque[Held] = deque()
        self.recorded = 0

    # --- the running set ---------------------------------------------------------------------------------------------

    def set_config(self, config: Config, now_ms: int) -> None:
        """Make this the running set. What is paused or gone ends its incident, and is `pending` when it comes back."""
        before = self._targets
        self._targets = {target.id: target for target in config.targets}
        near = {target.id: target.depends_on for target in config.targets}
        self._depends_on = {target_id: machine.transitive(near, target_id) for target_id in near}
        self.set_maintenance(config.maintenance)
        for target_id, known in list(self._states.items()):
            target = self._targets.get(target_id)
            if known.state == "pending" and known.incident is None:
                continue
            if target is None:
                last = before.get(target_id) or self._stand_in(target_id)
                self._end(Held(last, reason="removed"))
            elif not target.enabled:
                self._end(Held(target, reason="paused"))
        self._writer.put_targets(config.targets, now_ms)

    def set_maintenance(self, windows: tuple[MaintenanceWindow, ...]) -> None:
        """The windows of the configuration."""
        self._maintenance = Maintenance(windows)

    def _stand_in(self, target_id: str) -> ResolvedTarget:
        """A target that was removed while we were not running: known are its names and who heard of it."""
        known = self._described.get(target_id) or Described(target_id, "command", "")
        return ResolvedTarget(
            id=target_id,
            name=known.name,
            group=known.group,
            type=known.type,
            settings=CommandSettings(exec="true"),
            expect=CommandExpect(),
            warn=None,
            interval_s=60.0,
            timeout_s=10.0,
            retry_interval_s=30.0,
            failure_threshold=1,
            success_threshold=1,
            notify=self._receivers.get(target_id, ()),
        )

    # --- results -----------------------------------------------------------------------------------------------------

    def record(self, target: ResolvedTarget, result: CheckResult) -> bool:
        """Record one result. False when it has to wait for room for its event: then `retry_held` does it."""
        return self._take(Held(self._targets.get(target.id, target), result))

    def _end(self, held: Held) -> None:
        self._take(held)

    def _take(self, held: Held) -> bool:
        if any(waiting.target.id == held.target.id for waiting in self._held) or not self._try(held):
            self._held.append(held)
            return False
        return True

    def retry_held(self) -> list[str]:
        """Record what waited, as far as there is room now. Returns the targets whose results were recorded."""
        recorded: list[str] = []
        stuck: set[str] = set()
        for _ in range(len(self._held)):
            held = self._held.popleft()
            if held.target.id not in stuck and self._try(held):
                if held.result is not None:
                    recorded.append(held.target.id)
            else:
                stuck.add(held.target.id)
                self._held.append(held)
        return recorded

    @property
    def held(self) -> int:
        """How many results wait for room."""
        return len(self._held)

    def _try(self, held: Held) -> bool:
        target_id = held.target.id
        previous = self._states.get(target_id) or machine.initial()
        now_ms = time.time_ns() // 1_000_000
        maintenance = self._maintenance.applies(held.target, now_ms)
        if held.result is not None:
            change = machine.transition(
                previous, held.result, self._policy(held.target, previous, held.result, maintenance, now_ms)
            )
        else:
            assert held.reason in ("paused", "removed")
            change = machine.close(previous, held.reason, now_ms)
        wanted = [draft for draft in change.events if self._hooks.wants(held.target, draft.type, draft.reminder)]
        if wanted and (self._hooks.full(target_id) or self._writer.full(target_id)):
            return False
        events = self._hooks.accept(held.target, wanted) if wanted else ()
        if change.incident is not None and change.incident.id == self._next_incident_id:
            self._next_incident_id += 1
        self._states[target_id] = change.state
        due_ms = self._next_due_ms(target_id)
        self._writer.put(Item(held.result, change.state, target_id, change.incident, events, maintenance, due_ms))
        self.recorded += 1
        if change.state.state != previous.state:
            self._tell(held, previous, change.state, events)
        return True

    def _policy(
        self, target: ResolvedTarget, previous: TargetState, result: CheckResult, maintenance: bool, now_ms: int
    ) -> machine.Policy:
        suppressed = maintenance or (not result.matched and self._blocked(target, previous, result, now_ms))
        return machine.Policy(
            failure_threshold=target.failure_threshold,
            success_threshold=target.success_threshold,
            suppressed=suppressed,
            next_incident_id=self._next_incident_id,
            reminder_interval_ms=None if result.matched else self._hooks.reminder_interval_ms(target),
        )

    def _blocked(self, target: ResolvedTarget, previous: TargetState, result: CheckResult, now_ms: int) -> bool:
        """Whether a dependency explains the failure."""
        names = self._depends_on.get(target.id, ())
        if not names:
            return False
        since_ms = machine.first_failure_ms(previous, result)
        return machine.dependencies_block((self._dependency(name) for name in names), since_ms, now_ms)

    def _dependency(self, target_id: str) -> machine.Dependency:
        target = self._targets[target_id]
        known = self._states.get(target_id) or machine.initial()
        return machine.Dependency(
            known.state,
            known.last_result_ms,
            round(target.interval_s * 1000),
            round(target.timeout_s * 1000),
            target.enabled,
        )

    def _tell(self, held: Held, previous: TargetState, now: TargetState, events: tuple[Event, ...]) -> None:
        sent = " ".join(f"{one.stream}:{one.seq}" for one in events) or None
        if held.result is None:  # `pending` is what it will begin with when it comes back
            name = "target.removed" if held.reason == "removed" else "target.paused"
            event(log, name, target=held.target.id, previous=previous.state, events=sent)
            return
        failure = held.result.failure
        event(
            log,
            "target.state",
            level=_LEVELS.get(now.state, logging.INFO),
            target=held.target.id,
            state=now.state,
            previous=previous.state,
            reason=failure.message if failure is not None else None,
            events=sent,
        )

    # --- what others ask ---------------------------------------------------------------------------------------------

    def quick_retry(self, target_id: str) -> bool:
        """Whether the target's next check comes after `retryInterval`: it is failing or recovering."""
        known = self._states.get(target_id)
        return known is not None and known.state in ("failing", "recovering")

    def counts(self) -> dict[str, int]:
        """Number of targets by state."""
        found: dict[str, int] = {}
        for target in self._targets.values():
            name = "paused" if not target.enabled else (self._states.get(target.id) or machine.initial()).state
            found[name] = found.get(name, 0) + 1
        return found

    def last_results_ms(self) -> dict[str, int]:
        """When each target of the running set was last checked, where it was."""
        known = ((target_id, self._states.get(target_id)) for target_id in self._targets)
        return {name: state.last_result_ms for name, state in known if state is not None and state.last_result_ms}

    def supervisor_item(self, events: tuple[Event, ...]) -> None:
        """Hand events of the supervisor's own stream to the writer."""
        if events:
            self._writer.put(Item(None, machine.initial(), _SUPERVISOR, events=events))


def _receivers(loaded: Loaded) -> dict[str, tuple[str, ...]]:
    """Which endpoints have a cursor in which stream."""
    found: dict[str, tuple[str, ...]] = {}
    for cursor in loaded.outbox.cursors:
        found[cursor.stream] = (*found.get(cursor.stream, ()), cursor.endpoint)
    return found
