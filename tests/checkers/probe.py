"""Runs one HTTP check as a worker does, and says in one line what must have come of it."""

from __future__ import annotations

import time
from typing import Any

from supervisor.checkers.base import TraceStep
from supervisor.checkers.http import HttpChecker
from supervisor.checkers.http.settings import HttpSettings
from supervisor.expect.spec import Contains, HttpExpect, StatusRange, TextRule
from supervisor.model import CheckResult
from supervisor.worker import run_check
from tests.make import make_target

CHECKER = HttpChecker()  # one for all tests, as one for all checks of a worker
GRACE_S = 1.5


def contains(text: str) -> TextRule:
    """The body rule `contains: text`."""
    return TextRule("contains", (Contains(text),))


BODY_OK = (contains("ok"),)


def statuses(*codes: int) -> tuple[StatusRange, ...]:
    return tuple(StatusRange(code, code, str(code)) for code in codes)


def check(url: str, *, timeout_s: float = 3.0, body: Any = BODY_OK, trace: bool = False, **fields: Any) -> CheckResult:
    """The result of one check; it must be there by the timeout. Fields of HttpExpect and of the target go to these,
    all others to HttpSettings, `send` as its body."""
    return traced(url, timeout_s=timeout_s, body=body, trace=trace, **fields)[0]


def traced(
    url: str, *, timeout_s: float = 3.0, body: Any = BODY_OK, trace: bool = True, **fields: Any
) -> tuple[CheckResult, tuple[TraceStep, ...]]:
    """The result and the trace."""
    expect = {name: fields.pop(name) for name in tuple(fields) if name in ("status", "max_duration_ms")}
    if "expect_headers" in fields:
        expect["headers"] = fields.pop("expect_headers")
    if "min_days" in fields:
        expect["certificate_min_days_left"] = fields.pop("min_days")
    if "send" in fields:
        fields["body"] = fields.pop("send")
    target_fields = {name: fields.pop(name) for name in tuple(fields) if name in ("id", "secrets", "warn")}
    target = make_target(
        settings=HttpSettings(url=url, **fields),
        expect=HttpExpect(body=tuple(body), **expect),
        timeout_s=timeout_s,
        **target_fields,
    )
    began = time.monotonic()
    result, trace_steps = run_check(target, trace=trace, checkers={"http": CHECKER})
    took = time.monotonic() - began
    assert took < timeout_s + GRACE_S, f"the verdict came after {took:.1f} s: {result}"
    return result, trace_steps


def assert_ok(result: CheckResult) -> None:
    assert result.matched, result.failure


def assert_error(result: CheckResult, path: str, *words: str) -> None:
    """An error at this path, whose message has these words."""
    assert result.failure is not None, result
    assert (result.success, result.matched, result.failure.kind) == (False, False, "error"), result.failure
    assert result.failure.path == path, result.failure
    assert result.failure.phase == ("body" if path in _BODY_PATHS else "request"), result.failure
    for word in words:
        assert word in result.failure.message, result.failure.message


def assert_mismatch(result: CheckResult, phase: str) -> None:
    assert result.failure is not None, result
    assert (result.success, result.failure.kind, result.failure.phase) == (True, "mismatch", phase), result.failure


_BODY_PATHS = ("http.body", "http.decode", "http.maxBodyBytes")
