"""gunicorn with our settings: what it listens on, what it opens, how it ends; and the API under schemathesis."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from supervisor.serving import SettingsError
from tests.webui.conftest import ROOT, Server, free_port
from tests.webui.fill import Fill
from tests.webui.scenes import company
from webui import serve

MakeServer = Callable[..., Server]


def _get(url: str) -> tuple[int, bytes]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.status, answer.read()


def _workers(server: Server) -> list[int]:
    listing = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()
    return [int(pid) for pid in listing.split()]


def _open_files(pid: int) -> list[str]:
    return [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.exists()]


def test_w21_no_control_socket_and_no_connection_before_the_fork(fill: Fill, make_server: MakeServer) -> None:
    """W21: gunicorn opens no control socket; the master never opens the database, workers only when asked."""
    fill.target("t")
    server = make_server(fill.path, CHECKVISOR_WEB_WORKERS="2", HOME=str(fill.path.parent / "home"))
    for _ in range(20):
        assert _get(server.url)[0] == 200
    assert not any("checkvisor.db" in name for name in _open_files(server.process.pid))
    sockets = Path("/proc/net/unix").read_text()
    assert "gunicorn" not in sockets
    assert not (fill.path.parent / "home").exists()
    assert len(_workers(server)) == 2
    assert serve.options()["control_socket_disable"] is True


def test_every_line_of_the_log_is_an_event(fill: Fill, make_server: MakeServer, tmp_path: Path) -> None:
    """What gunicorn says of itself too, while it starts and when it ends."""
    server = make_server(fill.path)
    assert _get(server.url)[0] == 200
    server.stop()
    lines = [json.loads(line) for line in (tmp_path / "gunicorn-0.log").read_text().splitlines()]
    told = [line["message"] for line in lines if line["event"] == "web.server"]
    assert any("Listening at" in message for message in told)
    assert any("Shutting down" in message for message in told)
    assert {line["event"].partition(".")[0] for line in lines} <= {"web", "store"}


def test_a_killed_worker_is_replaced(fill: Fill, make_server: MakeServer, wait_until: Callable[..., None]) -> None:
    """One worker's death costs nothing but its requests."""
    server = make_server(fill.path)
    first = _workers(server)
    os.kill(first[0], signal.SIGKILL)
    wait_until(lambda: _workers(server) and _workers(server) != first, 15, "a new worker")
    assert _get(server.url + "/healthz")[0] == 200


def test_unix_socket(fill: Fill, tmp_path: Path, wait_until: Callable[..., None]) -> None:
    """`unix:PATH` as bind, for a proxy on the same machine; `serve.serve` takes it too."""
    fill.target("t")
    path = tmp_path / "web.sock"
    arguments = f"bind='unix:{path}', database={str(fill.path)!r}, base_path='/s', workers=1"
    code = f"from webui.serve import serve; serve({arguments})"
    process = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        wait_until(path.exists, 20, "the socket")
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(10)
        connection.sock.connect(str(path))
        connection.request("GET", "/s/")
        answer = connection.getresponse()
        assert answer.status == 200
        assert b'href="/s/static/' in answer.read()
        connection.close()
        assert path.stat().st_mode & 0o007 == 0
    finally:
        process.terminate()
        assert process.wait(15) == 0


def test_bad_settings_end_with_a_sentence() -> None:
    """A setting that can't be used is told before anything is opened."""
    with pytest.raises(SettingsError, match="base path '//x': expected"):
        serve.serve(bind=f"127.0.0.1:{free_port()}", database="x", base_path="//x")


def test_gzip_and_static_caching(fill: Fill, make_server: MakeServer) -> None:
    """Pages are compressed for those who can read that; static files may be kept, as their address has their hash."""
    company(fill, 3)
    server = make_server(fill.path)
    request = urllib.request.Request(server.url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert answer.headers["Vary"] == "Accept-Encoding"
        etag = answer.headers["ETag"]
    assert etag.startswith('W/"')
    with urllib.request.urlopen(server.url + "/static/checkvisor.css", timeout=10) as answer:
        assert "max-age=31536000" in answer.headers["Cache-Control"]


@pytest.mark.slow
@pytest.mark.timeout(560)
@pytest.mark.parametrize(
    "choice",
    [
        ("--exclude-path-regex", "/health$"),
        # a target that is down answers 503 on purpose: the one check that calls this an error is left out here alone
        ("--include-path-regex", "/health$", "--exclude-checks", "not_a_server_error"),
    ],
    ids=["all", "health"],
)
def test_schemathesis(choice: tuple[str, ...], fill: Fill, make_server: MakeServer, tmp_path: Path) -> None:
    """Every check of schemathesis passes against the served OpenAPI document."""
    program = Path(sys.executable).with_name("schemathesis")
    if not program.exists():
        pytest.skip("schemathesis is missing: pip install schemathesis")
    company(fill, 3)
    fill.target("0", "down")  # an id that generated requests find
    server = make_server(fill.path)
    command = [
        str(program), "run", server.url + "/api/v1/openapi.json", "--checks", "all", "--max-examples", "40",
        "--no-color", "--workers", "2", "--seed", "1", *choice,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=540)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
