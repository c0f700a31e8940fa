"""The total deadline of a check, and the alarm that ends Python code at it. Times are `time.monotonic()` seconds."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
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
_postponed: list[Callable[[], None]] | None = None  # what signals wanted to do while they were held back


def _expire(_signum: int, _frame: FrameType | None) -> None:
    if _armed and _postponed is None:
        raise DeadlineExpired


class _Alarm:
    __slots__ = ("_deadline",)

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        global _armed
        signal.signal(signal.SIGALRM, _expire)
        _armed = True
        try:
            signal.setitimer(signal.ITIMER_REAL, max(self._deadline.at - time.monotonic(), 1e-6), 0.1)
        except BaseException:
            disarm()
            raise

    def __exit__(self, *_: object) -> None:
        global _armed
        try:
            _armed = False
        finally:  # the alarm may go off right here
            disarm()


def alarm(deadline: Deadline) -> _Alarm:
    """`with alarm(deadline):` raises DeadlineExpired in the main thread at the deadline, and again every 0.1 s until
    the block ends: an exception raised inside a `__del__` or a callback is lost, the next one is not."""
    return _Alarm(deadline)


def disarm() -> None:
    """End the alarm early: whoever has caught DeadlineExpired needs a moment without the next one."""
    signal.setitimer(signal.ITIMER_REAL, 0)


class HeldBack:
    """`with HeldBack():` no alarm comes through, and who asks `postpone` acts at the end of the block. For the moments
    in which what was started is not yet known to those who must end it."""

    __slots__ = ()

    def __enter__(self) -> None:
        global _postponed
        _postponed = []

    def __exit__(self, *_: object) -> None:
        global _postponed
        acts, _postponed = _postponed or [], None
        for act in acts:
            act()


def postpone(act: Callable[[], None]) -> bool:
    """For a signal handler: whether signals are held back now; `act` is done when they no longer are."""
    if _postponed is None:
        return False
    _postponed.append(act)
    return True
