"""Reads one file whole, under a limit, and without waiting for ever: a file may be a pipe that nobody writes."""

from __future__ import annotations

import errno
import os
import select
import stat
import time
from pathlib import Path

PIPE_S = 5.0


def read(path: Path, limit_bytes: int) -> bytes:
    """The content, as far as one byte beyond the limit. A pipe (`<(command)`, a secret that a program hands out) has
    some seconds to come to its end. Raises OSError, or ValueError for an impossible name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else opening a pipe waits for its writer
    try:
        if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
            return _read(descriptor, limit_bytes + 1, time.monotonic() + PIPE_S)
        os.set_blocking(descriptor, True)
        return _read(descriptor, limit_bytes + 1, None)
    finally:
        os.close(descriptor)


def _read(descriptor: int, most: int, until: float | None) -> bytes:
    content = bytearray()
    while len(content) < most:
        if until is not None:
            _wait(descriptor, until)
        part = os.read(descriptor, most - len(content))
        if not part:
            break
        content += part
    return bytes(content)


def _wait(descriptor: int, until: float) -> None:
    """Until there is something to read, or the last writer has closed the pipe."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise TimeoutError(errno.ETIMEDOUT, f"it is a pipe, and its writer did not come to an end within {PIPE_S:g} s")
