"""The control socket as a file and as a conversation; what the commands do is tested with the running product."""

from __future__ import annotations

import json
import os
import socket
import stat
from pathlib import Path

import pytest

from supervisor.control import Control, socket_path


@pytest.fixture
def control(tmp_path):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    listening = Control(socket_path(deep, None), hooks=None, find=lambda name: None)
    listening.start()
    yield deep / "control.sock"
    listening.stop()
    assert not (deep / "control.sock").exists()


def ask(path: Path, line: bytes) -> dict:
    directory = os.open(path.parent, os.O_PATH)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5)
            sock.connect(f"/proc/self/fd/{directory}/{path.name}")
            sock.sendall(line + b"\n")
            return json.loads(sock.makefile().readline())
    finally:
        os.close(directory)


def test_it_is_for_its_owner_alone_and_may_lie_deep(control):
    """Mode 0600, also where the path is longer than a socket's may be; it is gone after the stop."""
    assert stat.S_IMODE(control.stat().st_mode) == 0o600
    assert ask(control, b'{"command": "ping"}') == {"ok": True, "result": {"pid": os.getpid()}}


@pytest.mark.parametrize(
    ("line", "part"),
    [
        (b"", "can't be understood"),
        (b"[1]", "one JSON object"),
        (b'{"command": "format"}', "none of ping, test, redeliver, skip"),
        (b'{"command": "test"}', "'target'"),
        (b'{"command": "test", "target": "nosuch"}', "no target 'nosuch'"),
        (b"\xff\xfe", "can't be understood"),
    ],
    ids=["nothing", "list", "unknown", "no target", "unknown target", "bytes"],
)
def test_what_it_does_not_understand_is_a_sentence(control, line, part):
    """Every wrong request is answered with `ok: false` and what was wrong."""
    answer = ask(control, line)
    assert answer["ok"] is False
    assert part in answer["error"]


def test_a_socket_left_by_a_killed_supervisor_is_replaced(tmp_path):
    """A stale file in the way is no error."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / "control.sock"))
    listening = Control(socket_path(tmp_path, None), hooks=None, find=lambda name: None)
    listening.start()
    assert ask(tmp_path / "control.sock", b'{"command": "ping"}')["ok"] is True
    listening.stop()


def test_a_path_that_cannot_be_used_is_logged_and_no_more(tmp_path, caplog):
    """Neither the start nor the stop fails when the socket can't be removed, as on a read-only disk."""
    path = socket_path(tmp_path, None)
    listening = Control(path, hooks=None, find=lambda name: None)
    path.mkdir()
    listening.start()
    assert [record.message for record in caplog.records] == ["control.failed"]
    path.rmdir()
    listening.start()
    path.unlink()
    path.mkdir()
    listening.stop()
