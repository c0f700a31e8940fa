"""What the fault tests break the product with: targets that flip, receivers on sockets, small disks, lives that end."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import MARK, Product, until, write_config

_STEERING = ("STATE_DIRECTORY", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "NO_COLOR")


# --- servers ---------------------------------------------------------------------------------------------------------


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """The client was killed: that is what these tests do."""


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler], port: int) -> Iterator[int]:
    server = _Server(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Board:
    """HTTP targets: the last part of the path is a name, `answers[name]` is its status; `wobble` decides for others.

    A body follows each 200: `fine`, or `slow` while the name is in `degraded`."""

    url: str = ""
    answers: dict[str, int] = field(default_factory=dict)
    degraded: set[str] = field(default_factory=set)
    wobble: Callable[[str], tuple[int, str]] = lambda _name: (200, "fine")
    seen: int = 0

    def answer(self, name: str) -> tuple[int, bytes]:
        self.seen += 1
        if name in self.answers:
            return self.answers[name], b"slow" if name in self.degraded else b"fine"
        status, text = self.wobble(name)
        return status, text.encode()

    def target(self, name: str, **fields: Any) -> dict[str, Any]:
        """A target on it, asked every second."""
        ask = {"url": f"{self.url}{name}", **fields.pop("http", {})}
        return {"id": name, "name": name, "type": "http", "interval": "1s", "http": ask, **fields}


@contextmanager
def board() -> Iterator[Board]:
    """A board on a free port."""
    found = Board()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = found.answer(self.path.rpartition("/")[2])
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Quiet."""

    with _serving(Handler, 0) as port:
        found.url = f"http://127.0.0.1:{port}/"
        yield found


@dataclass(frozen=True)
class Post:
    """One request that a receiver got, and what it answered."""

    path: str
    headers: Mapping[str, str]
    raw: bytes
    status: int
    at: float

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))

    @property
    def event_id(self) -> str:
        return str(self.body["eventId"])

    @property
    def type(self) -> str:
        return str(self.body["type"])


@dataclass
class Receiver:
    """Records what is posted, by path. `status` decides the answer; 200 otherwise."""

    url: str = ""
    posts: list[Post] = field(default_factory=list)
    status: Callable[[str, dict[str, str], bytes], int] = lambda _path, _headers, _raw: 200
    after_s: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def taken(self, path: str = "/") -> list[Post]:
        """What it answered with 2xx, in order."""
        with self.lock:
            return [post for post in self.posts if post.path == path and 200 <= post.status < 300]

    def story(self, path: str = "/") -> list[tuple[str, str]]:
        """`(stream, type without its first part)` of each event, the first time it was taken."""
        found: dict[str, tuple[str, str]] = {}
        for post in self.taken(path):
            found.setdefault(post.event_id, (str(post.body["id"]), post.type.partition(".")[2]))
        return list(found.values())

    def wait(self, count: int, seconds: float = 20, path: str = "/") -> list[tuple[str, str]]:
        """The story, as soon as it is this long."""
        until(lambda: len(self.story(path)) >= count, seconds, f"event {count} at {path}; so far {self.story(path)}")
        return self.story(path)


@contextmanager
def receiver(port: int = 0) -> Iterator[Receiver]:
    """A webhook receiver."""
    found = Receiver()
    stopping = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"] or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = found.status(self.path, headers, raw)
            if found.after_s:
                stopping.wait(found.after_s)
            with found.lock:
                found.posts.append(Post(self.path, headers, raw, status, time.monotonic()))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def do_HEAD(self) -> None:
            self.do_POST()

        def log_message(self, *_args: object) -> None:
            """Quiet."""

    with _serving(Handler, port) as taken:
        found.url = f"http://127.0.0.1:{taken}/"
        try:
            yield found
        finally:
            stopping.set()


def hook(name: str, url: str, **fields: Any) -> dict[str, Any]:
    """A webhook that everybody tells, with short retries."""
    return {"name": name, "url": url, "default": True, "retries": ["0s", "300ms", "1s", "2s", "3s"],
            "permanentRetries": ["0s", "300ms"], **fields}  # fmt: skip


# --- the product -----------------------------------------------------------------------------------------------------


@contextmanager
def life(
    folder: Path,
    config: Mapping[str, Any] | None = None,
    *arguments: str,
    command: str = "run",
    environ: Mapping[str, str] | None = None,
    prelude: str = "",
    wrap: tuple[str, ...] = (),
    ready: bool = True,
) -> Iterator[Product]:
    """One life of the supervisor on the data in `folder`; what the test has not ended is killed.

    `prelude` is Python that runs in its process before the program; `wrap` is a command to run it under."""
    if config is not None:
        write_config(folder, config)
    written = json.loads((folder / "config.yaml").read_text())
    log = folder / "stderr.log"
    if log.exists():
        log.rename(folder / f"stderr.{time.monotonic_ns()}.log")
    mark = uuid.uuid4().hex
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CHECKVISOR_") and name not in _STEERING
    }
    start = ("-c", f"import sys\n{prelude}\nfrom supervisor.cli import main\nsys.exit(main())") if prelude else ()
    bind = ("--bind", "127.0.0.1:0") if command == "up" else ()
    with open(log, "ab") as stderr:
        process = subprocess.Popen(
            [*wrap, sys.executable, "-P", *(start or ("-m", "supervisor")), command, "-c", str(folder / "config.yaml"),
             *bind, *arguments],
            cwd=folder, env={**kept, **(environ or {}), MARK: mark}, stdin=subprocess.DEVNULL, stdout=stderr,
            stderr=stderr, start_new_session=True,
        )  # fmt: skip
    product = Product(process, folder, mark, f"http://{written['runtime']['metricsListen']}/metrics")
    try:
        if ready:
            product.wait_for("supervisor.started", 60)
            if command == "up":
                product.page_url = product.wait_for("up.ready", 60)["page"]
        yield product
        assert "Traceback" not in product.log(), product.log()
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(12)
        for pid in product.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(10)


def end(product: Product) -> dict[str, Any]:
    """Stop it; what it says of itself at the end."""
    status, took = product.stop(seconds=25)
    assert status == 0
    assert took < 15  # designed: 10 s
    told = product.wait_for("supervisor.stopped")
    assert told["scheduled"] == told["results"] + told["missed"] + told["cancelled"]
    return told


def kill(product: Product) -> None:
    """SIGKILL; nothing of it is left."""
    product.process.kill()
    product.process.wait(10)
    product.assert_gone(5)


@contextmanager
def page(database: Path) -> Iterator[Product]:
    """`checkvisor web` by itself on a database that may not exist, as a product without a supervisor."""
    folder = database.parent.parent
    log = folder / "web.log"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with open(log, "wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "supervisor", "web", "--bind", f"127.0.0.1:{port}", "--database", database],
            cwd=folder, env={**os.environ, "CHECKVISOR_WEB_WORKERS": "1"}, stdin=subprocess.DEVNULL, stdout=stderr,
            stderr=stderr, start_new_session=True,
        )  # fmt: skip
    web = Product(process, folder, "", "", page_url=f"http://127.0.0.1:{port}/")

    def answers() -> bool:
        with suppress(OSError):
            return web.fetch("healthz")[0] == 200
        return False

    try:
        until(answers, 60, "the web app")
        yield web
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(5)


def ask(product: Product, **request: Any) -> dict[str, Any]:
    """One question to the control socket."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(str(product.folder / "data" / "control.sock"))
        sock.sendall(json.dumps(request).encode() + b"\n")
        with closing(sock.makefile("rb")) as stream:
            return dict(json.loads(stream.readline()))


def metric(product: Product, name: str) -> float:
    """The sum of a metric over its labels; 0 while it has none."""
    wanted = f"checkvisor_{name}"
    return sum(value for key, value in product.metrics().items() if key.partition("{")[0] == wanted)


def state(product: Product, target_id: str) -> str | None:
    """The state of a target in the database."""
    rows = product.rows(
        "SELECT state FROM target_states AS s JOIN targets AS t ON t.id = s.target_id WHERE t.key = ?", target_id
    )
    return str(rows[0][0]) if rows else None


def reach(product: Product, target_id: str, wanted: str, seconds: float = 20) -> None:
    """Wait until the target's state in the database is this."""
    until(lambda: state(product, target_id) == wanted, seconds, f"{target_id} {wanted}")


# --- disks -----------------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """A tmpfs of this size. Needs root; the test is skipped without."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("mounting a tmpfs needs root")
    place.mkdir(exist_ok=True)
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place], capture_output=True)
    if made.returncode:
        pytest.skip(f"no tmpfs can be mounted: {made.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def remount(place: Path, how: str) -> None:
    """Make a mount read-only (`ro`) or writable (`rw`)."""
    subprocess.run(["mount", "-o", f"remount,{how}", place], check=True)


def fill_up(place: Path) -> Path:
    """Use every byte of a disk; the file to remove for space."""
    ballast = place / "ballast"
    with open(ballast, "ab", buffering=0) as file:
        for piece in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while file.write(b"\0" * piece) == piece:
                    pass
    return ballast


def resident_kb(pid: int) -> int:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
