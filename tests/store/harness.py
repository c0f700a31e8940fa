"""A writer in a directory, fed with results as the loop would, and looked at from outside."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from supervisor import state
from supervisor.model import CheckResult, Event, Item, ResolvedTarget, Retention, TargetState
from supervisor.store.connect import FILE_NAME
from supervisor.store.load import Loaded
from supervisor.store.write import Writer
from tests.make import make_failure, make_result, make_target

NOW = time.time_ns() // 1_000_000


def until(condition: Callable[[], Any], seconds: float = 10.0, what: str = "the condition") -> None:
    """Poll until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"{what} did not come true within {seconds} s"
        time.sleep(0.01)


class Feeder:
    """The loop's part: states in memory, incident ids, items."""

    def __init__(self, writer: Writer, *names: str, policy: state.Policy | None = None) -> None:
        self.writer = writer
        self.loaded: Loaded | None = None
        self.policy = policy or state.Policy(2, 2)
        self.targets: tuple[ResolvedTarget, ...] = tuple(make_target(id=name) for name in names)
        self.states: dict[str, TargetState] = {}
        self.next_id = 1
        self.now = NOW
        self.seq: dict[str, int] = {}

    def open(self) -> Loaded:
        """Open and start; go on where the database is."""
        self.loaded = self.writer.open()
        self.states = {target.id: self.loaded.states.get(target.id, state.initial()) for target in self.targets}
        self.next_id = self.loaded.max_incident_id + 1
        self.seq = dict(self.loaded.last_seq)
        self.writer.start()
        self.writer.put_targets(self.targets, self.now)
        return self.loaded

    def feed(self, name: str, word: str, *, step_ms: int = 1000, events: bool = False, **fields: Any) -> list[Item]:
        """`u`, `g` (with a warning) and `f` for one target, as items that are put."""
        made = []
        for letter in word:
            self.now += step_ms
            made.append(self.put(self.result(name, letter, **fields), events=events))
        return made

    def result(self, name: str, letter: str, **fields: Any) -> CheckResult:
        """One result at the present time."""
        warning = make_failure(path="warn.maxDurationMs", phase="duration") if letter == "g" else None
        fields.setdefault("timestamp_ms", self.now)
        return make_result(letter != "f", target_id=name, warning=warning, **fields)

    def put(self, result: CheckResult, *, events: bool = False, maintenance: bool = False) -> Item:
        """A result through transition into the writer."""
        name = result.target_id
        policy = state.Policy(self.policy.failure_threshold, self.policy.success_threshold, False, self.next_id)
        after = state.transition(self.states[name], result, policy)
        self.states[name] = after.state
        if after.incident is not None:
            self.next_id = max(self.next_id, after.incident.id + 1)
        numbered = [self.event(name, draft.type) for draft in after.events if events and draft.type != "target.result"]
        item = Item(result, after.state, name, after.incident, tuple(numbered), maintenance)
        self.writer.put(item)
        return item

    def event(self, stream: str, kind: Any) -> Event:
        """The next event of a stream."""
        self.seq[stream] = self.seq.get(stream, 0) + 1
        return Event(stream, self.seq[stream], kind, self.now, '{"success":true}', ("ops",))

    def stop(self) -> tuple[Item, ...]:
        """Flush and stop."""
        return self.writer.flush_and_stop(20)


def make_feeder(
    directory: Path, *names: str, limit: int = 10_000, busy_timeout_s: float = 0.3, policy: state.Policy | None = None
) -> Feeder:
    """A feeder with a writer that waits 0.3 s for a lock and tries a broken store again every 0.2 s."""
    writer = Writer(directory, retention=Retention(), retry_s=0.2, busy_timeout_s=busy_timeout_s, limit=limit)
    return Feeder(writer, *(names or ("a", "b")), policy=policy)


def query(directory: Path, sql: str, *values: object) -> list[tuple[Any, ...]]:
    """Ask the database from outside."""
    with closing(sqlite3.connect(directory / FILE_NAME, timeout=10)) as raw:
        return raw.execute(sql, values).fetchall()


def count(directory: Path) -> int:
    """How many results are on disk."""
    return int(query(directory, "SELECT count(*) FROM check_results")[0][0])
