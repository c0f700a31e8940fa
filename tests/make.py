"""Builders of targets and results for tests: every field has a harmless value, name what matters."""

from __future__ import annotations

from typing import Any

from supervisor.checkers.command.settings import CommandSettings
from supervisor.checkers.http.settings import HttpSettings
from supervisor.expect.spec import CommandExpect, HttpExpect
from supervisor.model import CheckFailure, CheckResult, ResolvedTarget


def make_target(**fields: Any) -> ResolvedTarget:
    """A target of type http unless `type="command"`; `settings` and `expect` have harmless values."""
    kind = fields.setdefault("type", "http")
    if kind == "http":
        fields.setdefault("settings", HttpSettings(url="http://127.0.0.1:9/"))
        fields.setdefault("expect", HttpExpect())
    else:
        fields.setdefault("settings", CommandSettings(exec="true"))
        fields.setdefault("expect", CommandExpect())
    fields.setdefault("id", "t")
    fields.setdefault("name", fields["id"])
    fields.setdefault("warn", None)
    fields.setdefault("interval_s", 30.0)
    fields.setdefault("timeout_s", 3.0)
    fields.setdefault("retry_interval_s", min(fields["interval_s"], 30.0))
    fields.setdefault("failure_threshold", 3)
    fields.setdefault("success_threshold", 2)
    return ResolvedTarget(**fields)


def make_failure(**fields: Any) -> CheckFailure:
    """A mismatch of the status."""
    fields.setdefault("kind", "mismatch")
    fields.setdefault("phase", "status")
    fields.setdefault("path", "expect.status")
    fields.setdefault("message", "status 503, expected 200")
    return CheckFailure(**fields)


def make_result(matched: bool = True, **fields: Any) -> CheckResult:
    """A matched result, or a mismatch; an error when the `failure` given is one."""
    if not matched:
        fields.setdefault("failure", make_failure())
    failure = fields.get("failure")
    fields.setdefault("success", failure is None or failure.kind == "mismatch")
    fields.setdefault("target_id", "t")
    fields.setdefault("timestamp_ms", 1_700_000_000_000)
    fields.setdefault("duration_ms", 12.5)
    return CheckResult(matched=matched, **fields)
