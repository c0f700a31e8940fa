"""`checkvisor check ID`: one check now, each step shown. Touches neither the database nor a running supervisor."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.commands import configuration, options, output

if TYPE_CHECKING:
    from supervisor.context import TraceStep
    from supervisor.model import CheckFailure, CheckResult, ResolvedTarget

MATCHED, MISMATCH, ERROR = 0, 1, 3
_COLOURS = {"ok": "green", "failed": "red", "warning": "yellow"}


@click.command(short_help="Check one target now and show every step.", epilog="Example: checkvisor check shop-api")
@click.argument("target_id", metavar="ID")
@options.config
@options.insecure
@options.as_json
def check(target_id: str, path: Path | None, insecure: bool, as_json: bool) -> int:
    """Check one target now, as the supervisor would, and show every step.

    \b
    Exit status: 0 matched, 1 mismatch, 3 error. Nothing is stored and nobody is told.
    """
    from supervisor.commands.single import run_once

    target = configuration.find(configuration.load(path, insecure=insecure), target_id)
    result, steps = run_once(target)
    if as_json:
        output.document(_as_data(target, result, steps))
    else:
        _print(target, result, steps)
    if result.matched:
        return MATCHED
    return MISMATCH if result.success else ERROR


# --- as data ---------------------------------------------------------------------------------------------------------


def _as_data(target: ResolvedTarget, result: CheckResult, steps: Iterable[TraceStep]) -> dict[str, Any]:
    from supervisor.webhook.payload import result_data, rfc3339

    shown = result_data(result)
    if result.certificate is not None:
        shown["certificate"] = {
            "notBefore": rfc3339(result.certificate.not_before_ms),
            "notAfter": rfc3339(result.certificate.not_after_ms),
            "subject": result.certificate.subject,
            "issuer": result.certificate.issuer,
        }
    trace = [
        {"atMs": round(step.at_ms, 3), "step": step.step, "seen": step.seen, "outcome": step.outcome}
        | ({} if step.expected is None else {"expected": step.expected})
        for step in steps
    ]
    return {"target": configuration.target_data(target), "result": shown, "trace": trace}


# --- for people ------------------------------------------------------------------------------------------------------


def _print(target: ResolvedTarget, result: CheckResult, steps: Iterable[TraceStep]) -> None:
    output.line(f"{output.shown(target.id)}  {target.type}  {target.summary}")
    steps = tuple(steps)
    width = min(max((len(step.step) for step in steps), default=0), 40)
    for step in steps:
        outcome = output.paint(step.outcome.ljust(7), _COLOURS.get(step.outcome))
        seen = output.shown(step.seen)
        expected = "" if step.expected is None else f"{'  ' if seen else ''}(expected {output.shown(step.expected)})"
        output.line(f"{step.at_ms:9.1f} ms  {outcome}  {output.shown(step.step):{width}}  {seen}{expected}".rstrip())
    output.line()
    detail = f": {result.status_detail}" if result.status_detail else ""
    if result.failure is None:
        word = output.paint("degraded", "yellow") if result.warning is not None else output.paint("matched", "green")
        output.line(f"{word} in {result.duration_ms:.1f} ms{detail}")
        _print_failure(result.warning)
    else:
        word = output.paint("mismatch" if result.success else "error", "red")
        output.line(f"{word} after {result.duration_ms:.1f} ms{detail}")
        _print_failure(result.failure)


def _print_failure(failure: CheckFailure | None) -> None:
    if failure is None:
        return
    output.line(f"  {failure.path}: {failure.message}")
    if failure.expected is not None:
        output.line(f"  expected: {failure.expected}")
    if failure.actual is not None:
        output.line(f"  actual:   {failure.actual}")
