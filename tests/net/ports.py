"""A port that nobody listens on, for servers that can't be asked to choose one."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A free port of 127.0.0.1: a moment ago, so use it at once."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
