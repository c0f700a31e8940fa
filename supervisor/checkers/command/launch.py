"""Starts a command: no shell, own session, null stdin, pipes for its output. Why it did not start is a sentence.

`os.posix_spawn` costs 105 µs more than the same in C, `subprocess.Popen` 265 µs (measured). It has no directory to
start in, so the worker, which has one thread that cares, goes there and back.
"""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache

from supervisor.checkers.command.reasons import cwd_reason, exec_reason, missing_reason
from supervisor.checkers.command.settings import CommandSettings
from supervisor.model import CheckFailure

_ALL_SIGNALS = tuple(map(int, signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}))
_BUSY_TRIES, _BUSY_WAIT_S = 4, 0.05
_OURS = ("NOTIFY_SOCKET", "CREDENTIALS_DIRECTORY")
_OURS_BY_PREFIX = ("WATCHDOG_", "LISTEN_")
_DEFAULT_PATH = os.defpath


@dataclass(frozen=True, slots=True)
class Launched:
    """A running command, with the descriptors that are now the caller's."""

    pid: int
    process: int
    stdout: int
    stderr: int


def launch(settings: CommandSettings, report: Callable[[int], None]) -> Launched | CheckFailure:
    """Start it, within `HeldBack`. `report` is told -1 before and the pid right after."""
    opened: list[int] = []
    try:
        stdout_read, stdout_write = _pipe(opened)
        stderr_read, stderr_write = _pipe(opened)
        with _directory(settings.cwd) as refused:
            if refused is not None:
                return refused
            pid = _spawn(settings, stdout_write, stderr_write, report)
            if isinstance(pid, CheckFailure):
                return pid
            process = _handle(pid)
        opened.remove(stdout_read)
        opened.remove(stderr_read)
        return Launched(pid, process, stdout_read, stderr_read)
    except OSError as error:
        return _failure("command.exec", f"the command can't be started: {exec_reason(error, settings.exec, settings)}")
    finally:
        for descriptor in opened:
            os.close(descriptor)


def environment(settings: CommandSettings) -> dict[bytes, bytes]:
    """What the command inherits, with `env` over it."""
    inherited = _inherited(settings.drop_env)
    if not settings.env:
        return inherited
    return {**inherited, **{os.fsencode(name): os.fsencode(value) for name, value in settings.env}}


@lru_cache(maxsize=16)
def _inherited(drop: tuple[str, ...]) -> dict[bytes, bytes]:
    """The supervisor's variables, without those that speak to a service manager and without our own secrets."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in drop and name not in _OURS and not name.startswith(_OURS_BY_PREFIX)
    }
    kept["LC_ALL"] = "C.UTF-8"
    return {os.fsencode(name): os.fsencode(value) for name, value in kept.items()}


def _spawn(settings: CommandSettings, stdout: int, stderr: int, report: Callable[[int], None]) -> int | CheckFailure:
    variables = environment(settings)
    program, tried = _find(settings.exec, variables)
    if program is None:
        return _failure("command.exec", missing_reason(settings.exec, tried, settings))
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, stdout, 1),
        (os.POSIX_SPAWN_DUP2, stderr, 2),
    ]
    arguments = (settings.exec, *settings.args)
    report(-1)
    for attempt in range(_BUSY_TRIES):
        try:
            pid = os.posix_spawn(
                program,
                arguments,
                variables,
                file_actions=actions,
                setsid=True,
                setsigmask=(),
                setsigdef=_ALL_SIGNALS,
            )
        except OSError as error:
            if error.errno == errno.ETXTBSY and attempt < _BUSY_TRIES - 1:
                time.sleep(_BUSY_WAIT_S)  # being written just now, as a deployment does
                continue
            report(0)
            return _failure("command.exec", exec_reason(error, program, settings))
        except ValueError as error:  # NUL in an argument, "=" in a variable's name
            report(0)
            return _failure("command.exec", f"the command line or environment can't be passed on: {error}")
        report(pid)
        return pid
    raise AssertionError("the last attempt returns")


def _find(name: str, variables: dict[bytes, bytes]) -> tuple[str | None, str]:
    """The file to run and the PATH that was searched. As execvp does it: PATH of the command's own environment; a name
    with a slash is no matter of PATH. Not executable is told only when nothing better is found."""
    if "/" in name:
        return name, ""
    path = os.fsdecode(variables.get(b"PATH", os.fsencode(_DEFAULT_PATH)))
    second_best: str | None = None
    for directory in path.split(os.pathsep):
        candidate = os.path.join(directory, name) if directory else f"./{name}"  # noqa: PTH118 - text in, text out
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):  # noqa: PTH112
            return candidate, path
        if second_best is None and os.path.lexists(candidate):
            second_best = candidate
    return (second_best if name else None), path


def _handle(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except OSError:
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


def _pipe(opened: list[int]) -> tuple[int, int]:
    pair = os.pipe2(os.O_CLOEXEC)
    opened.extend(pair)
    return pair


@contextmanager
def _directory(path: str) -> Iterator[CheckFailure | None]:
    """Be in this directory for a while; gives a failure when that is not possible."""
    here = os.open(".", os.O_PATH | os.O_CLOEXEC)
    try:
        try:
            os.chdir(path)
        except (OSError, ValueError) as error:
            yield _failure("command.cwd", cwd_reason(error, path))
        else:
            try:
                yield None
            finally:
                os.fchdir(here)
    finally:
        os.close(here)


def _failure(path: str, message: str) -> CheckFailure:
    return CheckFailure(kind="error", phase="exec", path=path, message=message)
