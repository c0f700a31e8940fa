"""What the tests of commands share: targets, a check of one, the place of a failure, processes by a mark."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor import processes
from supervisor.checkers.command.settings import CommandSettings
from supervisor.expect.spec import CommandExpect, Contains, TextRule
from supervisor.model import CheckFailure, CheckResult, ResolvedTarget
from supervisor.worker import run_check
from tests.make import make_target
from tests.pool.driver import Driver, driven
from tests.pool.registry import CHECKERS

processes.become_subreaper()

HI = CommandExpect(stdout=(TextRule("contains", (Contains("hi"),)),))


@pytest.fixture(scope="module", name="pool")
def make_pool() -> Iterator[Driver]:
    """Two workers for all tests of a module."""
    with driven(2) as driver:
        yield driver


def target(
    exec_: str, *args: str, expect: CommandExpect = HI, timeout_s: float = 3.0, **settings: Any
) -> ResolvedTarget:
    secrets = settings.pop("secrets", ())
    return make_target(
        id="c",
        type="command",
        timeout_s=timeout_s,
        expect=expect,
        settings=CommandSettings(exec=exec_, args=args, **settings),
        secrets=secrets,
    )


def sh(script: str, **fields: Any) -> ResolvedTarget:
    return target("sh", "-c", script, **fields)


def check(pool: Driver, wanted: ResolvedTarget) -> CheckResult:
    """The verdict of one run, as soon as it is there; the run ends in the background."""
    [id_] = pool.add(wanted)
    pool.turn_until(lambda: pool.has_result(id_), 12)
    return pool.result(id_)


def failed(result: CheckResult, kind: str, phase: str, path: str) -> str:
    """Assert the place of a failure; its message."""
    assert isinstance(result.failure, CheckFailure)
    assert (result.failure.kind, result.failure.phase, result.failure.path) == (kind, phase, path), result.failure
    return result.failure.message


def spawn_error(result: CheckResult, path: str = "command.exec") -> str:
    return failed(result, "error", "exec", path)


def pids_with(mark: str) -> list[int]:
    """Our descendants, living or not yet reaped, with this text in their command line. Other runs of the tests have
    some too."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in line and _descends(int(name)):
                found.append(int(name))
    return found


def _descends(pid: int) -> bool:
    """Whether this process stems from us; orphans do, for we are a subreaper."""
    while pid > 1:
        if pid == os.getpid():
            return True
        seen = processes.look(pid)
        pid = seen.parent if seen is not None else 0
    return False


def gone(pool: Driver, marker: str, seconds: float = 6.0) -> None:
    pool.turn_until(lambda: not pids_with(marker), seconds, f"the end of all processes with {marker}")


def script(directory: Path, name: str, content: str | bytes, mode: int = 0o755) -> Path:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


def says(text: str) -> CommandExpect:
    return CommandExpect(stdout=(TextRule("contains", (Contains(text),)),))


def as_nobody(work: Callable[[], str]) -> str:
    """What this gives in a forked process of user nobody."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads; this one only works and ends
        pid = os.fork()
    if pid == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(pid, 0)
    return told


def ended(wanted: ResolvedTarget) -> str:
    endings: list[Any] = []
    result, _ = run_check(wanted, endings=endings, checkers=CHECKERS)
    stuck = [seen for ending in endings for seen in ending.finish()]
    return f"{result.failure} stuck {len(stuck)}"
