"""The total deadline of a check, and the alarm that ends Python code at it. Times are `time.monotonic()` seconds."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class DeadlineExpired(BaseException):
    """Raised in the main thread when the deadline passes. A BaseException: libraries catch OSError and Exception, and
    a deadline that a library swallows is no deadline (measured: urllib3 swallows TimeoutError)."""


class Deadline:
    """A point in monotonic time."""

    __slots__ = ("at", "started")

    def __init__(self, timeout_s: float) -> None:
        self.started = time.monotonic()
        self.at = self.started + timeout_s

    def elapsed_ms(self) -> float:
        """Milliseconds since the start."""
        return (time.monotonic() - self.started) * 1000.0

    def remaining_s(self) -> float:
        """Seconds left; raises DeadlineExpired when there are none, so it can feed `settimeout` directly."""
        left = self.at - time.monotonic()
        if left <= 0:
            raise DeadlineExpired
        return left


_armed = False  # a signal that was under way when the block ended finds nobody armed


def _expire(_signum: int, _frame: FrameType | None) -> None:
    if _armed:
        raise DeadlineExpired


@contextmanager
def alarm(deadline: Deadline) -> Iterator[None]:
    """Raise DeadlineExpired in the main thread at the deadline, and again every 0.1 s until the block ends: an
    exception raised inside a `__del__` or a callback is lost, the next one is not."""
    global _armed
    signal.signal(signal.SIGALRM, _expire)
    _armed = True
    try:
        signal.setitimer(signal.ITIMER_REAL, max(deadline.at - time.monotonic(), 1e-6), 0.1)
        yield
    finally:
        try:
            _armed = False
        finally:  # the alarm may go off right here
            signal.setitimer(signal.ITIMER_REAL, 0)


def disarm() -> None:
    """End the alarm early: whoever has caught DeadlineExpired needs a moment without the next one."""
    signal.setitimer(signal.ITIMER_REAL, 0)
