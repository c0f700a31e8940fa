"""What systemd hears of us: READY, RELOADING, STOPPING, STATUS, WATCHDOG (sd_notify(3)). Needs NOTIFY_SOCKET."""

from __future__ import annotations

import logging
import os
import socket
import time

from supervisor.logs import event

log = logging.getLogger(__name__)


class Notifier:
    """Datagrams to NOTIFY_SOCKET; a failure to send is logged once, never raised."""

    def __init__(self, environ: dict[str, str] | None = None) -> None:
        environ = dict(os.environ) if environ is None else environ
        self._address = environ.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        usec = environ.get("WATCHDOG_USEC", "")
        ours = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self.watchdog_s = int(usec) / 1e6 if usec.isdigit() and ours else None
        self._warned = False
        self._next_feed = 0.0
        self._status = ""

    def send(self, *lines: str) -> None:
        """Send assignments such as `READY=1` in one datagram."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.sendto("\n".join(lines).encode(), self._address)
        except OSError as exc:
            if not self._warned:
                event(log, "notify.failed", level=logging.WARNING, error=str(exc))
                self._warned = True

    def status(self, text: str) -> None:
        """One line for `systemctl status`, sent when it changes."""
        if text != self._status:
            self._status = text
            self.send(f"STATUS={text}")

    def feed(self, now: float) -> None:
        """Feed the watchdog, a third of its time apart; called by the loop at the end of a whole turn only."""
        if self.watchdog_s is not None and now >= self._next_feed:
            self._next_feed = now + self.watchdog_s / 3
            self.send("WATCHDOG=1")

    def reloading(self) -> None:
        """Tell that a reload began; READY=1 ends it."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")
