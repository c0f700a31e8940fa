"""The stages of a command's verdict, and the mode of the Nagios plugins."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.expect.spec import CommandExpect, Compare, Contains, Empty, Equals, Match, Not
from supervisor.model import CheckFailure
from tests.expect.support import Ended, command, has, rx, text

CRITICAL = CheckFailure("mismatch", "exitCode", "command.nagios", "critical: disk full")
WARNING = CheckFailure("mismatch", "exitCode", "command.nagios", "warning: disk nearly full")
EVERYTHING = CommandExpect(
    exit_code=(0, 3), max_duration_ms=100, stdout=(has("up"), rx("^up$")), stderr=(text("empty", Empty(True)),)
)
BAD_STAGES: list[tuple[str, str, dict[str, Any]]] = [
    ("exitCode", "expect.exitCode", {"exit_code": 1}),
    ("duration", "expect.maxDurationMs", {"duration_ms": 101.0}),
    ("stdout", "expect.stdout[0].contains", {"stdout": b"down"}),
    ("stdout", "expect.stdout[1].regex", {"stdout": b"not up"}),
    ("stderr", "expect.stderr[0].empty", {"stderr": b"oops"}),
]


def test_everything_holds() -> None:
    """All stages pass."""
    assert command(EVERYTHING, Ended(3, b"up\n", b" \n"), EVERYTHING).failure is None


@pytest.mark.parametrize("position", range(len(BAD_STAGES)))
def test_the_first_stage_that_fails_is_the_failure(position: int) -> None:
    """In the order of the design."""
    phase, path, _ = BAD_STAGES[position]
    changes: dict[str, Any] = {"stdout": b"up"}
    for _phase, _path, later in reversed(BAD_STAGES[position:]):
        changes |= later
    failure = command(EVERYTHING, Ended(**changes)).failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.path) == ("mismatch", phase, path)
    assert failure.message
    assert failure.expected
    assert failure.actual


def test_without_exit_code_0_is_expected() -> None:
    """Also beside other expectations; `warn` has no such default."""
    for expect in (CommandExpect(), CommandExpect(stdout=(has("x"),))):
        failure = command(expect, Ended(1, b"x")).failure
        assert failure is not None
        assert (failure.path, failure.expected, failure.actual) == ("expect.exitCode", "0", "1")
    verdict = command(CommandExpect(exit_code=(1,)), Ended(1, b"x"), CommandExpect(stdout=(has("x"),)))
    assert verdict.failure is verdict.warning is None


def test_the_last_words_of_a_command_are_in_the_message() -> None:
    """Most often they are the reason; long ones are left out."""
    for stdout, stderr, words in (
        (b"", b"line\ncannot connect\n\n", "exit code 2, expected 0; stderr: cannot connect"),
        (b"CRITICAL - x\n", b" \n", "exit code 2, expected 0; stdout: CRITICAL - x"),
        (b"", b"y" * 500, "exit code 2, expected 0"),
        (b"", b"", "exit code 2, expected 0"),
    ):
        failure = command(CommandExpect(), Ended(2, stdout, stderr)).failure
        assert failure is not None
        assert failure.message == words


@pytest.mark.parametrize(("code", "name"), [(-9, "SIGKILL"), (-15, "SIGTERM"), (-11, "SIGSEGV"), (-63, "signal 63")])
def test_c15_death_by_signal(code: int, name: str) -> None:
    """Said by its name; an expected signal is an exit code like others."""
    failure = command(CommandExpect(), Ended(code)).failure
    assert failure is not None
    assert failure.message.startswith(f"killed by {name}")
    assert failure.actual == f"killed by {name} ({code})"
    assert ("memory" in failure.message) == (code == -9)
    assert command(CommandExpect(exit_code=(code,)), Ended(code)).failure is None


def test_c13_bytes_of_output() -> None:
    """UTF-8 with replacement whatever the bytes claim: no mark, no meta, NUL stays."""
    assert command(CommandExpect(stdout=(has("\0hi"),)), Ended(stdout=b"a\0hi")).failure is None
    assert command(CommandExpect(stdout=(has("\ufffd"),)), Ended(stdout=b"\xff")).failure is None
    assert (
        command(CommandExpect(stdout=(has("é"),)), Ended(stdout='<meta charset="latin-1">é'.encode())).failure is None
    )
    assert command(CommandExpect(stdout=(text("equals", Equals("up")),)), Ended(stdout=b"up\n")).failure is None
    assert (
        command(
            CommandExpect(stdout=(text("gte", Compare("gte", 40), Compare("lt", 50)),)), Ended(stdout=b"42\n")
        ).failure
        is None
    )
    assert (
        command(CommandExpect(stdout=(text("not", Not((Match("(?m)^DOWN"),))),)), Ended(stdout=b"UP\nDOWN\n")).failure
        is not None
    )
    failure = command(CommandExpect(stdout=(text("contains", Contains("x")),)), Ended()).failure
    assert failure is not None
    assert failure.message == 'stdout is empty, expected: contains "x"'
    assert failure.actual == "(empty)"


def test_a_mismatch_of_warn_is_a_warning() -> None:
    """With paths that begin with `warn.`."""
    verdict = command(CommandExpect(), Ended(stdout=b"slow"), CommandExpect(stdout=(has("fast"),)))
    assert verdict.failure is None
    assert verdict.warning is not None
    assert verdict.warning.path == "warn.stdout[0].contains"


@pytest.mark.parametrize("code", [0, 1, 2, 3, 200, -9])
def test_nagios_replaces_the_exit_code_stage(code: int) -> None:
    """The checker's failure ends the verdict; without one the code is not looked at."""
    expect = CommandExpect(stdout=(has("disk"),))
    assert command(expect, Ended(code, b"disk"), nagios=True).failure is None
    assert command(expect, Ended(code, b"no"), nagios=True, exit_failure=CRITICAL).failure == CRITICAL
    error = CheckFailure("error", "exitCode", "command.nagios", "unknown: no such mount point")
    assert command(expect, Ended(code, b"disk"), nagios=True, exit_failure=error).failure == error


def test_a_nagios_warning_stands_unless_a_later_stage_fails() -> None:
    """It comes before the warning of `warn`."""
    expect = CommandExpect(stdout=(has("disk"),))
    warn = CommandExpect(stdout=(has("fast"),))
    verdict = command(expect, Ended(1, b"disk"), warn, nagios=True, exit_warning=WARNING)
    assert (verdict.failure, verdict.warning) == (None, WARNING)
    verdict = command(expect, Ended(1, b"no"), warn, nagios=True, exit_warning=WARNING)
    assert verdict.failure is not None
    assert (verdict.failure.path, verdict.warning) == ("expect.stdout[0].contains", None)
    verdict = command(expect, Ended(0, b"disk"), warn, nagios=True)
    assert verdict.warning is not None
    assert verdict.warning.path == "warn.stdout[0].contains"
