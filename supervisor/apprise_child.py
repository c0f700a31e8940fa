"""The child process in which Apprise runs: a question a line on stdin, an answer a line on stdout, until EOF."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
from typing import Any

import apprise

from supervisor.net.policy import AddressPolicy

_TYPES = {"info": "info", "success": "success", "warning": "warning", "failure": "failure"}


class _Blocked:
    """What the address policy has refused during one notification."""

    reason: str | None = None


class _Reasons(logging.Handler):
    """Keeps the last complaint of Apprise, which gives no reason otherwise."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.last = record.getMessage()


def _guard(policy: AddressPolicy, blocked: _Blocked) -> Any:
    """getaddrinfo that gives only addresses that may be dialled; all plugins' connections go through it."""
    look_up = socket.getaddrinfo

    def guarded(*args: Any, **kwargs: Any) -> Any:
        found = look_up(*args, **kwargs)
        allowed = [entry for entry in found if policy.refuse(str(entry[4][0])) is None]
        if not allowed and found:
            reason = policy.refuse(str(found[0][4][0]))
            blocked.reason = f"{found[0][4][0]} is a {reason} address, which webhooks must not reach"
            raise socket.gaierror(socket.EAI_NONAME, blocked.reason)
        return allowed

    socket.getaddrinfo = guarded
    return look_up


def _notify(question: dict[str, Any], reasons: _Reasons) -> dict[str, str]:
    blocked = _Blocked()
    reasons.last = ""
    original = _guard(AddressPolicy(bool(question["allowPrivate"])), blocked)
    try:
        service = apprise.Apprise.instantiate(question["url"], suppress_exceptions=True)
        if service is None:
            return {"outcome": "unusable"}
        sender = apprise.Apprise()
        sender.add(service)
        sent = sender.notify(
            body=question["text"], title=question["title"], notify_type=_TYPES.get(question["severity"], "info")
        )
    finally:
        socket.getaddrinfo = original
    if sent:
        return {"outcome": "delivered"}
    if blocked.reason is not None:
        return {"outcome": "blocked", "error": blocked.reason}
    return {"outcome": "failed", "error": reasons.last}


def main() -> None:
    """Serve until stdin ends. Plugins that print do so on stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    reasons = _Reasons()
    logger = logging.getLogger("apprise")
    logger.addHandler(reasons)
    logger.setLevel(logging.WARNING)
    for line in sys.stdin.buffer:
        answers.write(json.dumps(_notify(json.loads(line), reasons)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
