"""What the tests of the web app share: a database, the app over it, a real gunicorn and a real browser."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from supervisor.serving import make
from tests.webui.fill import Fill
from webui import create_app

ROOT = Path(__file__).parents[2]
ARTEFACTS = ROOT / ".ci" / "artefacts"
CHROMIUM = Path("/usr/bin/chromium")


@pytest.fixture
def fill(tmp_path: Path) -> Iterator[Fill]:
    """An empty database that a supervisor has open, with a fresh heartbeat."""
    with Fill(tmp_path / "checkvisor.db") as opened:
        yield opened


@pytest.fixture
def make_client() -> Iterator[Callable[..., FlaskClient]]:
    """`make_client(database, **settings)`; `now_ms=` sets the clock."""
    apps = []

    def build(database: Path, *, now_ms: Callable[[], int] | None = None, **settings: str) -> FlaskClient:
        app = create_app(make(database=str(database), **settings), **({"now_ms": now_ms} if now_ms else {}))
        apps.append(app)
        return app.test_client()

    yield build
    for app in apps:
        app.extensions["checkvisor"].close()


@pytest.fixture
def client(fill: Fill, make_client: Callable[..., FlaskClient]) -> FlaskClient:
    """A client of the app over `fill`."""
    return make_client(fill.path)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A gunicorn of its own, with the settings of deploy/gunicorn.conf.py."""

    def __init__(self, database: Path, log: Path, **variables: str) -> None:
        self.port = free_port()
        self.base = variables.get("CHECKVISOR_BASE_PATH", "")
        self.url = f"http://127.0.0.1:{self.port}{self.base}"
        self._log = log.open("wb")
        self._command = [sys.executable, "-m", "gunicorn", "-c", str(ROOT / "deploy" / "gunicorn.conf.py")]
        self._environment = {
            **os.environ, "CHECKVISOR_DATABASE": str(database), "CHECKVISOR_BIND": f"127.0.0.1:{self.port}",
            "CHECKVISOR_WEB_WORKERS": "1", **variables,
        }  # fmt: skip
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, cwd=ROOT, env=self._environment, stdout=self._log, stderr=self._log
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=2):
                    return
            except (urllib.error.URLError, ConnectionError):
                if time.monotonic() > deadline or self.process.poll() is not None:
                    pytest.fail(f"gunicorn did not start: {Path(self._log.name).read_text()}")
                time.sleep(0.05)  # the poll of a condition with a deadline

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(15)

    def close(self) -> None:
        if self.process.poll() is None:
            self.stop()
        self._log.close()


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """`make_server(database, **variables)` starts gunicorn on a free port."""
    servers: list[Server] = []

    def start(database: Path, **variables: str) -> Server:
        servers.append(Server(database, tmp_path / f"gunicorn-{len(servers)}.log", **variables))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's chromium under Playwright."""
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is missing: apt install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium: Any) -> Iterator[Callable[..., Any]]:
    """`open_page(url, **context)` gives a page; a console error, a page error or a CSP report fails the test."""
    contexts, complaints = [], []

    def listen(message: Any) -> None:
        if message.type == "error" and "ERR_" not in message.text and "status of " not in message.text:
            complaints.append(message.text)

    def opened(url: str, **options: Any) -> Any:
        options.setdefault("viewport", {"width": 1280, "height": 900})
        options.setdefault("locale", "en-GB")
        options.setdefault("timezone_id", "UTC")
        context = chromium.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", listen)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


def shoot(page: Any, name: str, *, full: bool = False) -> None:
    """Keep a screenshot as an artefact of the run."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=str(ARTEFACTS / f"{name}.png"), full_page=full)
