"""Processes as Linux shows them: who is alive in a session, who our children are, and how to signal without hitting a
stranger that got the same number. Used where commands are run (worker) and where orphans are ended (pool)."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_OVER = "ZXx"  # states of a process that has ended: zombie, dead

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Seen:
    """One process as /proc showed it. A pid alone may be given anew; pid and start time name a process for good."""

    pid: int
    name: str
    state: str
    parent: int
    group: int
    session: int
    started: int  # clock ticks since boot

    @property
    def alive(self) -> bool:
        """Whether it can still do something; a zombie only waits to be reaped."""
        return self.state not in _OVER

    def __str__(self) -> str:
        return f"{self.pid} ({self.name}, state {self.state})"


def look(pid: int) -> Seen | None:
    """The process with this number, or None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            line = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the name stands in parentheses and may hold blanks and parentheses itself: proc(5)
    opening, closing = line.index(b"("), line.rindex(b")")
    rest = line[closing + 2 :].split()
    return Seen(
        pid=pid,
        name=line[opening + 1 : closing].decode("utf-8", "replace"),
        state=rest[0].decode("ascii"),
        parent=int(rest[1]),
        group=int(rest[2]),
        session=int(rest[3]),
        started=int(rest[19]),
    )


def in_sessions(sessions: Iterable[int]) -> list[Seen]:
    """Every process of these sessions, zombies too. Reads all of /proc (about 10 µs a process): not for every check."""
    wanted = frozenset(sessions)
    if not wanted:
        return []
    found = (look(int(name)) for name in os.listdir("/proc") if name.isdigit())  # noqa: PTH208 - names, not paths
    return [seen for seen in found if seen is not None and seen.session in wanted]


def children() -> list[int]:
    """The pids of this process's children, zombies and adopted orphans too."""
    pids: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        # the thread may have ended meanwhile; its children are then another thread's
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            pids += map(int, (task / "children").read_text().split())
    return pids


def send(seen: Seen, number: int) -> bool:
    """Signal exactly this process, not a later one with its pid. False if that is not allowed (another user's)."""
    try:
        handle = os.pidfd_open(seen.pid)
    except ProcessLookupError:
        return True
    try:
        now = look(seen.pid)
        if now is not None and now.started == seen.started:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    finally:
        os.close(handle)
    return True


def reap(pid: int) -> bool:
    """Take the exit status of a child that has ended, so that it is no zombie. False if it is not over or not ours."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return False


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def become_subreaper() -> None:
    """Orphaned descendants become children of this process from now on, not of init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_when_parent_dies(number: int) -> None:
    """Let the kernel send this signal when the parent dies; stays in force for the next parent, after adoption."""
    _prctl(_PR_SET_PDEATHSIG, number)
