"""A real database with chosen content, written through tables.py as the supervisor would leave it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, text, update

from supervisor.store import histogram, tables
from supervisor.store.connect import writer_engine
from supervisor.store.migrations import HEAD

HOUR, DAY = 3_600_000, 86_400_000
MISMATCH = {
    "kind": "mismatch", "phase": "status", "path": "expect.status",
    "message": "status 503, expected 200", "expected": "[200]", "actual": "503",
}  # fmt: skip
ERROR = {
    "kind": "error", "phase": "request", "path": "http.connect", "message": "connection refused by 10.20.4.17:443",
}  # fmt: skip


def now() -> int:
    """Now in ms."""
    return time.time_ns() // 1_000_000


class Fill:
    """Open for as long as a supervisor would have the database open; `close()` is its clean stop."""

    def __init__(self, path: Path, *, beat: bool = True) -> None:
        self.path = path
        self.engine = writer_engine(path)
        self.connection: Connection | None = self.engine.connect()
        self.version = 0
        with self.begin():
            tables.metadata.create_all(self.connection)
            self.run(text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)"))
            self.run(text("INSERT INTO alembic_version VALUES (:head)"), {"head": HEAD})
            self.meta(source="0e2e8b9e-6b1f-4a43-9c67-2f1f4dd0a001", version="0.1.0", started_at=str(now() - HOUR))
            if beat:
                self.heartbeat()

    def __enter__(self) -> Fill:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def begin(self) -> Any:
        assert self.connection is not None
        return self.connection.begin() if not self.connection.in_transaction() else self.connection.begin_nested()

    def run(self, statement: Any, values: Any = None) -> Any:
        assert self.connection is not None
        if self.connection.in_transaction():
            return self.connection.execute(statement, values) if values else self.connection.execute(statement)
        with self.connection.begin():
            return self.connection.execute(statement, values) if values else self.connection.execute(statement)

    def meta(self, **values: Any) -> None:
        for key, value in values.items():
            shown = value if isinstance(value, str) else json.dumps(value)
            self.run(text("INSERT OR REPLACE INTO meta VALUES (:key, :value)"), {"key": key, "value": shown})

    def heartbeat(self, at: int | None = None) -> None:
        self.meta(heartbeat_at=str(now() if at is None else at))

    def target(self, key: str, state: str | None = "up", **f: Any) -> int:
        """A target with its state row; None as `state` leaves the row out. Fields by the tables' names."""
        at = f.pop("at", now() - 5_000)
        failed = state in ("down", "failing") or f.get("last_failure") is not None
        failure = f.pop("last_failure", MISMATCH if failed else None)
        position = f.pop("position", None)
        row = {
            "key": key, "name": f.pop("name", key), "type": f.pop("type", "http"),
            "target": f.pop("target", f"https://{key}.example.net/health"), "config": json.dumps(f.pop("config", {})),
            "interval_ms": f.pop("interval_ms", 60_000), "timeout_ms": f.pop("timeout_ms", 10_000),
            "expect": json.dumps(f.pop("expect", {})), "group_name": f.pop("group", ""), "position": position or 0,
            "enabled": f.pop("enabled", True), "labels": json.dumps(f.pop("labels", {})),
            "first_result_at": f.pop("first_result_at", at - 100 * DAY if state not in (None, "pending") else None),
            "removed_at": f.pop("removed_at", None),
        }  # fmt: skip
        number: int = self.run(insert(tables.targets).values(row)).inserted_primary_key[0]
        if position is None:
            self.run(update(tables.targets).where(tables.targets.c.id == number).values(position=number))
        if state is None:
            return number
        pending = state == "pending"
        self.version += 1
        values = {
            "target_id": number, "state": state, "since": None if pending else at - 23 * 60_000,
            "consecutive": 17 if failed else 0, "version": self.version, "settled": None,
            "last_timestamp": None if pending else at, "last_success": None if pending else True,
            "last_matched": None if pending else not failed, "last_duration_ms": None if pending else 107.3,
            "last_status_detail": None if pending else "HTTP 503" if failed else "HTTP 200",
            "last_failure": json.dumps(failure) if failure else None, "last_warning": None,
            "in_maintenance": False, "matched_total": 0 if pending else 4000, "failed_total": 17 if failed else 0,
            "missed_total": 0, "lost_total": 0, "reminders_sent": 0, "next_due_at": at + 60_000,
        }  # fmt: skip
        if state == "degraded":
            values["last_warning"] = json.dumps(dict(MISMATCH, path="warn.maxDurationMs", message="took 900 ms"))
        for name in ("last_warning", "certificate", "timings", "metrics"):
            if isinstance(f.get(name), (dict, list)):
                f[name] = json.dumps(f[name])
        self.run(insert(tables.target_states).values(values | f))
        return number

    def change(self, number: int, **values: Any) -> None:
        """A new state, as the writer would store it: with the next version."""
        self.version += 1
        table = tables.target_states
        self.run(update(table).where(table.c.target_id == number).values(version=self.version, **values))

    def rollup(self, number: int, step: int, bucket: int, matched: int, failed: int = 0, **f: Any) -> None:
        ms = f.pop("ms", [100.0] * min(matched, 20))
        values = {
            "target_id": number, "step": step, "bucket": bucket - bucket % step, "matched": matched, "failed": failed,
            "degraded": 0, "missed": 0, "lost": 0, "maintenance": 0, "covered_ms": step,
            "duration_sum": (sum(ms) / len(ms) if ms else 0.0) * (matched + failed),
            "duration_min": min(ms, default=None), "duration_max": max(ms, default=None),
            "histogram": histogram.add(ms), "timings_sum": None,
        }  # fmt: skip
        self.run(insert(tables.rollups).values(values | f))

    def result(self, number: int, at: int, matched: bool = True, **f: Any) -> int:
        failure = f.pop("failure", None if matched else MISMATCH)
        values = {
            "target_id": number, "timestamp": at, "success": failure is None or failure["kind"] == "mismatch",
            "matched": matched, "duration_ms": 107.3, "status_detail": "HTTP 200" if matched else "HTTP 503",
            "failure": json.dumps(failure) if failure else None,
        }  # fmt: skip
        for name in ("warning", "timings", "metrics"):
            if isinstance(f.get(name), (dict, list)):
                f[name] = json.dumps(f[name])
        key: int = self.run(insert(tables.check_results).values(values | f)).inserted_primary_key[0]
        return key

    def incident(self, number: int, started: int, resolved: int | None = None, **f: Any) -> int:
        failure = json.dumps(f.pop("failure", MISMATCH))
        values = {
            "target_id": number, "started_at": started, "resolved_at": resolved, "failures": 17,
            "first_failure": failure, "last_failure": failure, "notified": True,
            "resolution": "recovered" if resolved else None,
        }  # fmt: skip
        key: int = self.run(insert(tables.incidents).values(values | f)).inserted_primary_key[0]
        return key

    def dead_letter(self, stream: str, seq: int, **f: Any) -> None:
        values = {
            "id": f"00000000-0000-4000-8000-{seq:012d}", "stream": stream, "endpoint": "ops", "seq": seq,
            "type": "target.down", "timestamp": now() - seq * 1000, "code": "WEBHOOK_FAILED", "outcome": "failed",
            "error": f"webhook event {stream}:{seq} (target.down) was not delivered: 500 from the receiver",
            "url": "https://hooks.example.net",
        }  # fmt: skip
        self.run(insert(tables.webhook_dead_letters).values(values | f))

    def endpoint(self, name: str, state: str = "closed", **f: Any) -> None:
        values = {"name": name, "state": state, "consecutive_failures": 0, "last_success_at": now() - 60_000}
        self.run(insert(tables.webhook_endpoints).values(values | f))

    def event(self, stream: str, seq: int, kind: str = "target.down", endpoints: tuple[str, ...] = ("ops",)) -> None:
        values = {
            "stream": stream, "seq": seq, "type": kind, "body": b"{}", "endpoints": json.dumps(endpoints),
            "created_at": now() - 1000,
        }  # fmt: skip
        self.run(insert(tables.webhook_events).values(values))
