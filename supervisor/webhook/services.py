"""Notifications through Apprise (e-mail, Slack, ntfy ...), each in a child process of ours.

Apprise has its own timeouts, reads the environment, and costs 30 MB; in a child it ends at our deadline, sees a clean
environment and obeys the address policy, and a plugin that hangs or dies costs one attempt. A child serves one
notification at a time, is used again while it is warm, and ends by itself when the supervisor does (EOF on its stdin).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from dataclasses import dataclass

from supervisor.model import WebhookEndpoint
from supervisor.webhook.retries import Answer

_IDLE_S = 30.0
_KEPT_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR")
_ANSWER_BYTES = 64 * 1024


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[bytes]
    idle_since: float = 0.0


class Services:
    """Used by all delivery threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[_Child] = []
        self._busy: list[_Child] = []
        self._closed = False

    def notify(self, endpoint: WebhookEndpoint, title: str, text: str, severity: str) -> Answer:
        """Send one notification within the endpoint's timeout."""
        started = time.monotonic()
        question = {
            "url": endpoint.apprise_url,
            "title": title,
            "text": text,
            "severity": severity,
            "allowPrivate": endpoint.allow_private,
        }
        try:
            child = self._take()
        except OSError as error:
            return Answer("retryable", f"no process for Apprise could be started: {error.strerror}")
        reply = _ask(child.process, json.dumps(question).encode() + b"\n", started + endpoint.timeout_s)
        self._put_back(child, healthy=reply is not None)
        duration_s = time.monotonic() - started
        if reply is None:
            late = duration_s >= endpoint.timeout_s
            told = (
                f"no answer from Apprise within {endpoint.timeout_s:g} s" if late else "Apprise ended without an answer"
            )
            return Answer("retryable", told, duration_s=duration_s)
        return _judged(reply, duration_s)

    def _take(self) -> _Child:
        with self._lock:
            if self._closed:
                raise OSError(0, "the supervisor is stopping")
            child = self._idle.pop() if self._idle else None
            if child is None:
                child = _Child(_start())
            self._busy.append(child)
        return child

    def _put_back(self, child: _Child, *, healthy: bool) -> None:
        with self._lock:
            self._busy.remove(child)
            if healthy and not self._closed:
                child.idle_since = time.monotonic()
                self._idle.append(child)
                return
        _end(child.process)

    def tidy(self) -> None:
        """End children that have been idle for long."""
        now = time.monotonic()
        with self._lock:
            old = [child for child in self._idle if now - child.idle_since > _IDLE_S]
            self._idle = [child for child in self._idle if now - child.idle_since <= _IDLE_S]
        for child in old:
            _end(child.process)

    def close(self) -> None:
        """End all children, busy ones too; no new ones start."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for child in busy:
            child.process.kill()  # whoever waits for it sees the end of its answer and reaps it
        for child in idle:
            _end(child.process)


def _start() -> subprocess.Popen[bytes]:
    environment = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "supervisor.apprise_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        cwd="/",
        start_new_session=True,
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # flushing to a process that is gone
                pipe.close()


def _ask(process: subprocess.Popen[bytes], question: bytes, until: float) -> dict[str, object] | None:
    """One line out, one line in; None when the child died or time is up."""
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        process.stdin.write(question)
        process.stdin.flush()
    except OSError:
        return None
    answer = b""
    poller = select.poll()
    poller.register(process.stdout, select.POLLIN)
    while not answer.endswith(b"\n") and len(answer) < _ANSWER_BYTES:
        left_ms = (until - time.monotonic()) * 1000
        if left_ms <= 0 or not poller.poll(left_ms):
            return None
        part = os.read(process.stdout.fileno(), 4096)
        if not part:
            return None
        answer += part
    try:
        reply = json.loads(answer)
    except ValueError:
        return None
    return reply if isinstance(reply, dict) else None


def _judged(reply: dict[str, object], duration_s: float) -> Answer:
    error = str(reply.get("error", ""))
    match reply.get("outcome"):
        case "delivered":
            return Answer("delivered", "sent through Apprise", counts=False, duration_s=duration_s)
        case "blocked":
            return Answer("blocked", error, counts=False, duration_s=duration_s)
        case "unusable":
            return Answer("permanent", "Apprise does not understand the URL", counts=False, duration_s=duration_s)
        case _:
            return Answer(
                "retryable", f"Apprise could not send it: {error or 'no reason given'}", duration_s=duration_s
            )
