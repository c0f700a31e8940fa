"""Asks a running supervisor over its control socket: one JSON line there, one JSON line back."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

from supervisor.errors import CheckvisorError

_LONGEST_ANSWER_S = 600.0  # a test waits for receivers, each as long as its `timeout`
_LONGEST_ANSWER_BYTES = 16 * 1024 * 1024


class NoAnswer(CheckvisorError):  # noqa: N818 - it reads as what is the case
    """The supervisor was not reached, or refused; `str()` says why."""


def ask(path: Path, request: dict[str, Any]) -> Any:
    """The result of the request. Raises NoAnswer."""
    try:
        with _connected(path) as connection, connection.makefile("rwb") as stream:
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            line = stream.readline(_LONGEST_ANSWER_BYTES)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise NoAnswer(
            f"no supervisor answers at {path}: is `checkvisor run` running with this data directory?"
        ) from error
    except PermissionError as error:
        raise NoAnswer(f"this user may not use {path}: run the command as the supervisor's user, or as root") from error
    except OSError as error:
        raise NoAnswer(f"the supervisor at {path} gave no answer: {error.strerror or error}") from error
    return _result(line, path)


def _connected(path: Path) -> socket.socket:
    """By way of the directory's descriptor: an address holds 107 bytes only, and data directories may be deep."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_LONGEST_ANSWER_S)
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    except BaseException:
        connection.close()
        raise
    finally:
        os.close(directory)
    return connection


def _result(line: bytes, path: Path) -> Any:
    try:
        answer = json.loads(line)
    except ValueError as error:
        what = "ended the connection" if not line else "gave an answer that is not JSON"
        raise NoAnswer(f"the supervisor at {path} {what}; its log may say why") from error
    if isinstance(answer, dict) and answer.get("ok") is True:
        return answer.get("result")
    if isinstance(answer, dict) and isinstance(answer.get("error"), str):
        raise NoAnswer(answer["error"])
    raise NoAnswer(f"the supervisor at {path} gave an answer of another version; update both, restart it")
