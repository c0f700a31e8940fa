"""One life of a supervisor's webhooks in a child process, which may end by SIGKILL at a chosen point."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from supervisor.webhook.outbox import Clock
from tests.webhook.handwriter import HandRig
from tests.webhook.rig import endpoint

STREAMS = ("a", "b")
POINTS = (
    "before-events-commit", "inside-events-commit", "after-events-commit", "before-post", "after-post",
    "before-outcome", "before-outcome-commit", "inside-outcome-commit", "after-outcome-commit", "after-commit",
)  # fmt: skip


def live(directory: str, url: str, point: str, nth: int, total: int) -> None:
    """Send events until every stream has `total`, wait until all have an outcome; die at the nth time of `point`."""
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def reached(name: str) -> None:
        with lock:
            seen[name] += 1
            if name == point and seen[name] == nth:
                os.kill(os.getpid(), signal.SIGKILL)

    steps = (0.0, *([0.02] * 20))
    one = endpoint("ops", url, retries_s=steps)
    with HandRig(Path(directory), one, reached=reached, clock=Clock()) as rig:
        for number in range(total):
            for stream in STREAMS:
                if rig.hooks._outbox.next_seq(stream) <= total:
                    rig.send(stream, "target.down" if number % 2 == 0 else "target.up")
        until = time.monotonic() + 90
        while rig.pending() or not rig.writer.idle():
            if time.monotonic() > until:
                os._exit(3)
            time.sleep(0.005)  # the poll of a condition with a deadline


def live_until_killed(directory: str, url: str, seconds: float) -> None:
    """Send events for ever on many streams; the parent ends this."""
    one = endpoint("ops", url, retries_s=(0.0, *([0.02] * 20)))
    with HandRig(Path(directory), one, clock=Clock()) as rig:
        until = time.monotonic() + seconds
        number = 0
        while time.monotonic() < until:
            for stream in range(10):
                rig.send(f"s{stream}", "target.down" if number % 2 == 0 else "target.up")
            number += 1
            time.sleep(0.1)  # a check takes its time
        os._exit(0)
