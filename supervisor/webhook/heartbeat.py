"""The dead-man ping (`runtime.heartbeatUrl`): a GET every 60 s while the loop turns. When it stays out, someone else's
service raises the alarm: a monitor that died can't."""

from __future__ import annotations

import logging
import threading
import time

from supervisor.logs import event
from supervisor.net.resolve import resolve
from supervisor.webhook.exchange import Connections, Request, Resolve, exchange

log = logging.getLogger(__name__)

EVERY_S = 60.0
_ALIVE_S = 30.0
_TIMEOUT_S = 10.0


class Heartbeat:
    """One thread. `beat` is called by each turn of the loop; without a beat for 30 s no ping is sent."""

    def __init__(
        self, url: str, *, every_s: float = EVERY_S, alive_s: float = _ALIVE_S, look_up: Resolve = resolve
    ) -> None:
        self._request = Request(url, method="GET", timeout_s=_TIMEOUT_S)
        self._every_s = every_s
        self._alive_s = alive_s
        self._look_up = look_up
        self._connections = Connections()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._last_beat: float | None = None
        self.failures = 0

    def start(self) -> None:
        """Start the thread; the first ping follows the first beat."""
        self._thread.start()

    def beat(self) -> None:
        """The loop turns."""
        self._last_beat = time.monotonic()

    def stop(self) -> None:
        """End the thread, and the ping under way."""
        self._stop.set()
        self._connections.cut()
        self._thread.join(1.0)

    def _run(self) -> None:
        next_ping = time.monotonic()
        while not self._stop.wait(min(max(next_ping - time.monotonic(), 0.1), 1.0)):
            now = time.monotonic()
            if now >= next_ping and self._alive(now):
                self._ping()
                next_ping = now + self._every_s

    def _alive(self, now: float) -> bool:
        return self._last_beat is not None and now - self._last_beat <= self._alive_s

    def _ping(self) -> None:
        answer = exchange(self._request, self._connections, self._look_up)
        if answer.kind != "delivered":
            self.failures += 1
            event(log, "heartbeat.failed", level=logging.WARNING, error=answer.message)
