"""The operations that wait in memory, written in their order inside one transaction."""

from __future__ import annotations

from typing import assert_never

from sqlalchemy import Connection

from supervisor.model import Item
from supervisor.store import catalog, outbox
from supervisor.store.batch import Batch
from supervisor.store.catalog import Known
from supervisor.store.memory import Meta, Missed, Op, Outcome, Residue, Snapshot
from supervisor.store.rollup import Rollups

_META = "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
_QUIET_KEYS = frozenset({"heartbeat_at"})  # values whose change is no reason to make a page anew


def write_meta(connection: Connection, values: dict[str, str]) -> None:
    """Set values in `meta`."""
    connection.exec_driver_sql(_META, list(values.items()))


class Writing:
    """One transaction under way. `known` and `rollups` are changed on the way: after a rollback they are not true."""

    def __init__(self, connection: Connection, known: dict[str, Known], rollups: Rollups, version: int) -> None:
        self.known = known
        self.version = version
        self.snapshot: Snapshot | None = None
        self._connection = connection
        self._rollups = rollups
        self._first_version = version
        self._meta: dict[str, str] = {}
        self._batch = Batch(known, rollups, self._next_version)

    def knows(self, snapshot: Snapshot) -> bool:
        """Whether every target of a snapshot has its row."""
        return all(target.id in self.known for target in snapshot.targets)

    def _next_version(self) -> int:
        self.version += 1
        return self.version

    def add(self, op: Op) -> None:
        """Gather one operation; those with statements of their own are written at once."""
        match op:
            case Item():
                self._batch.add_item(op)
            case Snapshot():
                self._write_snapshot(op)
            case Outcome():
                outbox.write_outcome(self._connection, op.outcome)
            case Residue():
                self._batch.add_residue(op)
            case Missed():
                self._batch.add_missed(op.target_id, op.slot_ms, op.count)
            case Meta():
                self._meta |= op.values
            case _:
                assert_never(op)

    def _write_snapshot(self, snapshot: Snapshot) -> None:
        self._batch.write(self._connection)
        catalog.write_targets(self._connection, snapshot.targets, snapshot.now_ms, self._next_version())
        before, self.known = self.known, catalog.load(self._connection)
        for key, known in self.known.items():
            if key in before:
                known.metrics_hour = before[key].metrics_hour
        self._batch = Batch(self.known, self._rollups, self._next_version)
        self.snapshot = snapshot

    def finish(self, batch_id: str) -> None:
        """Write what was gathered, the values for `meta`, and the mark that tells a commit whose answer was lost."""
        self._batch.write(self._connection)
        meta = self._meta | {"batch": batch_id}
        if self._meta.keys() - _QUIET_KEYS:
            self._next_version()
        if self.version != self._first_version:
            meta["version"] = str(self.version)
        write_meta(self._connection, meta)
