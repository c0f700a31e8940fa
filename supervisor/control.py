"""The control socket: one JSON line asks, one JSON line answers. `checkvisor events test|redeliver|skip` talk to it.

It is 0600, in `$RUNTIME_DIRECTORY` or the data directory. Each request has a thread of its own (they wait for
receivers), at most 8 at once.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from supervisor.errors import CheckvisorError, StartError
from supervisor.logs import event
from supervisor.model import ResolvedTarget
from supervisor.webhook.commands import Attempt
from supervisor.webhook.hooks import Webhooks

log = logging.getLogger(__name__)

NAME = "control.sock"
_LONGEST_REQUEST = 64 * 1024
_MOST = 8
_IDLE_S = 10.0


def socket_path(data_dir: Path, runtime_dir: str | None) -> Path:
    """Where the socket is."""
    return Path(runtime_dir) / NAME if runtime_dir else data_dir / NAME


class Control:
    """The listening side. `find` looks a target up in the main thread."""

    def __init__(self, path: Path, hooks: Webhooks, find: Callable[[str], ResolvedTarget | None]) -> None:
        self._path = path
        self._hooks = hooks
        self._find = find
        self._room = threading.Semaphore(_MOST)
        self._server: _Server | None = None

    def start(self) -> None:
        """Listen. A path that can't be used is logged, not the end of the start."""
        try:
            with suppress(FileNotFoundError):  # of a supervisor that was killed; the lock says that none is alive
                self._path.unlink()
            self._server = _Server(self._path, self)
        except OSError as error:
            event(log, "control.failed", level=logging.ERROR, path=self._path, error=str(error))
            return
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="control", daemon=True).start()

    def stop(self) -> None:
        """Stop listening and remove the socket."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            with suppress(OSError):  # somebody else removed it, or the disk is read-only now: the next start does it
                self._path.unlink()

    def answer(self, line: bytes) -> dict[str, Any]:
        """The answer to one request line."""
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                return _refusal("a request is one JSON object")
            return {"ok": True, "result": self._do(request)}
        except (ValueError, KeyError) as error:
            return _refusal(f"the request can't be understood: {error}")
        except CheckvisorError as error:
            return _refusal(str(error))
        except TimeoutError:
            return _refusal("the supervisor's loop does not turn; see its log")

    def _do(self, request: dict[str, Any]) -> Any:
        endpoint = request.get("endpoint")
        match request.get("command"):
            case "ping":
                return {"pid": os.getpid()}
            case "test":
                target_id = str(request["target"])
                target = self._find(target_id)
                if target is None:
                    raise StartError(f"there is no target {target_id!r} in the running configuration")
                return [_shown(attempt) for attempt in self._hooks.test(target, endpoint)]
            case "redeliver":
                return [_shown(attempt) for attempt in self._hooks.redeliver(str(request["eventId"]), endpoint)]
            case "skip":
                return list(self._hooks.skip(str(request["eventId"]), endpoint))
            case other:
                raise ValueError(f"command {other!r} is none of ping, test, redeliver, skip")

    def serve(self, connection: socket.socket) -> None:
        """One connection: one line in, one line out."""
        connection.settimeout(_IDLE_S)
        with self._room, connection.makefile("rwb") as stream:
            line = stream.readline(_LONGEST_REQUEST)
            stream.write(json.dumps(self.answer(line), ensure_ascii=False).encode() + b"\n")
            stream.flush()


def _refusal(sentence: str) -> dict[str, Any]:
    return {"ok": False, "error": sentence}


def _shown(attempt: Attempt) -> dict[str, Any]:
    return {
        "endpoint": attempt.endpoint,
        "eventId": attempt.event_id,
        "delivered": attempt.delivered,
        "detail": attempt.message,
    }


class _Handler(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        try:
            self.server.control.serve(self.request)
        except OSError as error:  # the client went away
            event(log, "control.broken", level=logging.WARNING, error=str(error))


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, control: Control) -> None:
        self.control = control
        # the path of a socket has at most 107 bytes (unix(7)); through the directory's descriptor it is always short
        directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            super().__init__(f"/proc/self/fd/{directory}/{path.name}", _Handler)
        finally:
            os.close(directory)

    def server_bind(self) -> None:
        before = os.umask(0o177)
        try:
            super().server_bind()
        finally:
            os.umask(before)
