"""What the contract suite runs of each type of target: for each outcome at least one scene, with real peers.

`SCENES` lists them by type, written out by hand; a type without a matched, a mismatched and an erroneous scene fails
the suite. A scene is what a user writes of a target, without its id and type.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from supervisor import config
from supervisor.model import ResolvedTarget
from tests.servers import HOLD, OK, RST, Step, black_hole, closed_port, length, redirect, script_server


@dataclass(frozen=True, slots=True)
class Place:
    """Where a scene is played: its own folder, and what ends with it."""

    folder: Path
    stack: ExitStack

    def url(self, *steps: Step, greet: bool = False) -> str:
        """The URL of a server that answers with these steps, or takes them before it reads anything."""
        return self.stack.enter_context(script_server(steps, greet=greet)).url

    def silent_url(self) -> str:
        """A URL at which no connection comes about."""
        host, port = self.stack.enter_context(black_hole())
        return f"http://{host}:{port}/"

    def file(self, name: str, content: str = "", mode: int = 0o644) -> str:
        """The path of a file with this content."""
        path = self.folder / name
        path.write_text(content)
        path.chmod(mode)
        return str(path)


@dataclass(frozen=True, slots=True)
class Scene:
    """`comes` is what the check must come to; `late` is an error at the deadline."""

    name: str
    comes: Literal["matched", "degraded", "mismatch", "error", "late"]
    target: Callable[[Place], dict[str, Any]]


_WARN = {"body": [{"contains": "ok"}]}


def _http(*steps: Step, **more: Any) -> Callable[[Place], dict[str, Any]]:
    """A target at a server that answers so, whose body must hold `ok`."""
    settings = more.pop("settings", {})
    fields = {"expect": {"body": [{"contains": "ok"}]}} | more
    return lambda place: {"http": {"url": place.url(*steps)} | settings} | fields


def _as_https(url: str) -> str:
    return url.replace("http:", "https:")


def _command(exec_: str, *args: str, **more: Any) -> Callable[[Place], dict[str, Any]]:
    settings = more.pop("settings", {})
    return lambda _place: {"command": {"exec": exec_, "args": list(args)} | settings} | more


SCENES: dict[str, tuple[Scene, ...]] = {
    "http": (
        Scene("answers", "matched", _http(OK, length(b"ok"))),
        Scene("warns", "degraded", _http(OK, length(b"ok"), warn={"status": [204]})),
        Scene("other status", "mismatch", _http(b"HTTP/1.1 503 No\r\n", length(b"ok"))),
        Scene("other body", "mismatch", _http(OK, length(b"no"))),
        Scene("refuses", "error", lambda _place: {"http": {"url": f"http://127.0.0.1:{closed_port()}/"}}),
        Scene("resets", "error", _http(RST)),
        Scene("ends at once", "error", _http()),
        Scene("is no HTTP", "error", _http(b"SSH-2.0-OpenSSH_9.2\r\n")),
        Scene("is no TLS", "error", lambda place: {"http": {"url": _as_https(place.url(b"no", greet=True))}}),
        Scene("body too short", "error", _http(OK, b"Content-Length: 9\r\n\r\nok")),
        Scene("resets in the body", "error", _http(OK, b"Content-Length: 9\r\n\r\nok", RST)),
        Scene("is no gzip", "error", _http(OK, length(b"ok", b"Content-Encoding: gzip"))),
        Scene("sends too much", "error", _http(OK, length(b"ok" * 600), settings={"maxBodyBytes": "1KB"})),
        Scene("body for warn too short", "error", _http(OK, b"Content-Length: 9\r\n\r\nok", expect={}, warn=_WARN)),
        Scene("redirects to itself", "error", _http(redirect(b"/"))),
        Scene("is silent", "late", _http(HOLD)),
        Scene("stops in the body", "late", _http(OK, b"Content-Length: 9\r\n\r\nok", HOLD)),
        Scene("lets nobody in", "late", lambda place: {"http": {"url": place.silent_url()}}),
    ),
    "command": (
        Scene("succeeds", "matched", _command("true")),
        Scene("says ok", "matched", _command("echo", "ok", expect={"stdout": [{"contains": "ok"}]})),
        Scene("warns", "degraded", _command("true", warn={"exitCode": [1]})),
        Scene("fails", "mismatch", _command("false")),
        Scene("ends by a signal", "mismatch", _command("sh", "-c", "kill -9 $$$$")),
        Scene("says no", "mismatch", _command("echo", "no", expect={"stdout": [{"contains": "ok"}]})),
        Scene("does not know", "error", _command("sh", "-c", "exit 3", settings={"nagios": True})),
        Scene("is missing", "error", _command("/nowhere/check_it")),
        Scene("is no program", "error", lambda place: {"command": {"exec": place.file("text", "text")}}),
        Scene("has no directory", "error", _command("true", settings={"cwd": "/nowhere"})),
        Scene("says too much", "error", _command("yes", settings={"maxOutputBytes": "1KB"})),
        Scene("hangs", "late", _command("sleep", "60")),
        Scene("hangs in a child", "late", _command("sh", "-c", "sleep 60 & wait")),
    ),
}


def loaded(kind: str, scene: Scene, place: Place, **fields: Any) -> ResolvedTarget:
    """The target of a scene, from its configuration."""
    target = {"id": "scene", "type": kind, "timeout": "5s"} | scene.target(place) | fields
    file = place.folder / "config.yaml"
    file.write_text(json.dumps({"targets": [target]}))
    file.chmod(0o600)
    return config.load(file, environ={}).targets[0]
