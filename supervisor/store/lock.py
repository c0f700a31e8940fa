"""One supervisor per data directory: a flock on the directory itself, so that it works on a full or read-only disk."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from supervisor.errors import StartError

HOLDER = "checkvisor.lock"  # says who holds the lock; it is not the lock


class DirectoryLock:
    """The lock of a data directory, held until `release` or the end of the process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise StartError that says who has it. A missing directory is made (0750)."""
        try:
            self.directory.mkdir(mode=0o750, parents=True, exist_ok=True)
            descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise StartError(
                f"the data directory {self.directory} can't be opened: {error.strerror}; "
                "set runtime.dataDir to a directory that this user can write"
            ) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder(self.directory, descriptor)
            os.close(descriptor)
            raise StartError(
                f"another supervisor ({holder}) already uses {self.directory}: "
                "stop it first, or set another runtime.dataDir"
            ) from error
        self._descriptor = descriptor
        self._say_who()

    def release(self) -> None:
        """Give the lock back. The file that says who held it stays: it is overwritten by the next holder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _say_who(self) -> None:
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with suppress(OSError):  # a full or read-only disk must not stop the start; /proc/locks knows the pid too
            (self.directory / HOLDER).write_text(f"pid {os.getpid()}, started {started}\n")


def _holder(directory: Path, descriptor: int) -> str:
    """Who holds the lock: the kernel's pid, with the start time when the holder's own note is about that pid."""
    pid = _kernel_holder(descriptor)
    try:
        note = (directory / HOLDER).read_text(errors="replace").strip()[:80]
    except OSError:
        note = ""
    if pid is None:
        return note or "pid unknown"
    return note if note.startswith(f"pid {pid},") else f"pid {pid}"


def _kernel_holder(descriptor: int) -> int | None:
    """The pid in /proc/locks for the flock on this inode, None where the kernel does not tell."""
    inode = os.fstat(descriptor).st_ino
    try:
        lines = Path("/proc/locks").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        fields = line.split()
        if len(fields) >= 6 and fields[1] == "FLOCK" and fields[5].endswith(f":{inode}") and fields[4].isdigit():
            return int(fields[4]) or None
    return None
