"""A receiver on a real socket, and the webhooks with the real writer and database, wired as the supervisor does it."""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from supervisor.model import Event, EventDraft, EventType, Item, ResolvedTarget, WebhookEndpoint
from supervisor.state import initial
from supervisor.store.connect import FILE_NAME, Reader
from supervisor.store.write import Writer
from supervisor.webhook.hooks import Webhooks
from supervisor.webhook.outbox import Clock
from tests.make import make_failure, make_result, make_target

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="


@dataclass(frozen=True)
class Got:
    """One request as it came."""

    path: str
    headers: dict[str, str]
    raw: bytes
    at: float

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))


@dataclass(frozen=True)
class Reply:
    """What the receiver answers."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    after_s: float = 0.0


Answer = Callable[[Got], Reply]


@dataclass
class Receiver:
    """Records every request; `answers` by path, 200 otherwise. `hold` keeps answers back while it is clear."""

    url: str
    got: list[Got] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    default: Answer = lambda _got: Reply()
    lock: threading.Lock = field(default_factory=threading.Lock)
    open: int = 0
    most_open: int = 0

    def at(self, path: str) -> list[Got]:
        with self.lock:
            return [got for got in self.got if got.path == path]

    def ids(self, path: str = "/") -> list[str]:
        return [got.body["eventId"] for got in self.at(path)]


@contextmanager
def receiver() -> Iterator[Receiver]:
    """An http.server on loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"] or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            got = Got(self.path, headers, raw, time.monotonic())
            with found.lock:
                found.got.append(got)
                found.open += 1
                found.most_open = max(found.most_open, found.open)
            reply = found.answers.get(self.path, found.default)(got)
            if reply.after_s:
                stopping.wait(reply.after_s)
            with found.lock:
                found.open -= 1
            try:
                self.send_response(reply.status)
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(reply.body)))
                self.end_headers()
                self.wfile.write(reply.body)
            except OSError:
                pass

        do_GET = do_POST

        def log_message(self, *_args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 128

        def handle_error(self, request: object, client_address: object) -> None:
            pass

    stopping = threading.Event()
    server = Server(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_address[1]}/")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()


class FakeClock(Clock):
    """Stands still until it is moved."""

    def __init__(self, now_ms: int | None = None) -> None:
        self.passed_s = 0.0
        self.start_ms = time.time_ns() // 1_000_000 if now_ms is None else now_ms

    def monotonic(self) -> float:
        return 1000.0 + self.passed_s

    def now_ms(self) -> int:
        return self.start_ms + int(self.passed_s * 1000)

    def advance(self, seconds: float) -> None:
        self.passed_s += seconds


@cache
def _empty_database() -> bytes:
    """A database with tables and nothing in it: migrating anew for each test would take most of the time."""
    with tempfile.TemporaryDirectory() as directory:
        writer = Writer(Path(directory))
        writer.open()
        writer.start()
        writer.flush_and_stop(10)
        return (Path(directory) / FILE_NAME).read_bytes()


def make_database(directory: Path) -> None:
    """An empty database, unless there is one."""
    if not (directory / FILE_NAME).exists():
        (directory / FILE_NAME).write_bytes(_empty_database())


class Rig:
    """Writer, reader and webhooks over one data directory."""

    def __init__(self, directory: Path, *endpoints: WebhookEndpoint, clock: Clock | None = None, **more: Any) -> None:
        self.directory = directory
        self.clock = clock or Clock()
        self.hooks: Webhooks | None = None
        make_database(directory)
        self.writer = Writer(directory, committed=self._committed, **more.pop("writer", {}))
        self.loaded = self.writer.open()
        self.reader = Reader(directory / FILE_NAME)
        more.setdefault("chance", lambda: 0.5)
        self.hooks = Webhooks(
            endpoints, self.writer, self.reader, self.loaded, data_dir=directory, clock=self.clock, **more
        )
        self.endpoints = endpoints
        self.targets: dict[str, ResolvedTarget] = {}
        self.sent: list[Event] = []

    def _committed(self, item: Item) -> None:
        if self.hooks is not None:
            self.hooks.committed(item)

    def start(self) -> Rig:
        self.writer.start()
        assert self.hooks is not None
        self.hooks.start()
        return self

    def stop(self, grace_s: float = 2.0) -> tuple[Item, ...]:
        assert self.hooks is not None
        self.hooks.stop(grace_s)
        left = self.writer.flush_and_stop(10)
        self.reader.close()
        return left

    def __enter__(self) -> Rig:
        return self.start()

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def target(self, key: str, **fields: Any) -> ResolvedTarget:
        """A target that notifies every endpoint; the writer hears of it first."""
        if key not in self.targets:
            fields.setdefault("notify", tuple(endpoint.name for endpoint in self.endpoints))
            self.targets[key] = make_target(id=key, **fields)
            self.writer.put_targets(tuple(self.targets.values()), self.clock.now_ms())
        return self.targets[key]

    def declare(self, *keys: str) -> None:
        """Many targets at once."""
        names = tuple(endpoint.name for endpoint in self.endpoints)
        self.targets |= {key: make_target(id=key, notify=names) for key in keys}
        self.writer.put_targets(tuple(self.targets.values()), self.clock.now_ms())

    def send(self, key: str, kind: EventType = "target.down", **fields: Any) -> tuple[Event, ...]:
        """One result with one event, as the loop hands it over."""
        assert self.hooks is not None
        target = self.target(key)
        draft = draft_of(kind, key, self.clock.now_ms(), **fields)
        events = self.hooks.accept(target, (draft,))
        self.writer.put(Item(draft.result, initial(), key, events=events))
        self.sent += events
        return events

    def advance(self, seconds: float) -> None:
        """Move the fake clock, and let the delivery threads look at it at once."""
        assert isinstance(self.clock, FakeClock)
        assert self.hooks is not None
        self.clock.advance(seconds)
        with self.hooks._changed:
            self.hooks._changed.notify_all()

    def pending(self, name: str | None = None) -> int:
        """Events without an outcome on disk, at one endpoint or at all."""
        assert self.hooks is not None
        found = self.hooks.stats().endpoints
        waiting = sum(one.pending for one in found if name is None or one.name == name)
        return waiting + len(self.hooks._settlement._awaiting)

    def outcomes(self, name: str) -> dict[str, int]:
        assert self.hooks is not None
        return {outcome: n for (one, outcome), n in self.hooks.stats().deliveries.items() if one == name}

    def cursor(self, key: str, name: str) -> Any:
        rows = self.rows(f"SELECT * FROM webhook_cursors WHERE stream = '{key}' AND endpoint = '{name}'")
        return rows[0] if rows else None

    def dead_letters(self) -> list[Any]:
        return self.rows("SELECT * FROM webhook_dead_letters ORDER BY stream, endpoint, seq")

    def rows(self, query: str) -> list[Any]:
        with self.reader.read() as reading:
            return list(reading.connection.exec_driver_sql(query).mappings())


def draft_of(kind: EventType, key: str, now_ms: int, **fields: Any) -> EventDraft:
    """A draft of this type with a result that fits it."""
    failed = kind in ("target.down", "target.reminder")
    message = fields.pop("message", "status 503, expected 200")
    matched = fields.pop("matched", not failed)
    result = make_result(
        matched, target_id=key, timestamp_ms=now_ms, failure=None if matched else make_failure(message=message)
    )
    extra: dict[str, Any] = {}
    if failed:
        extra = {"previous_state": "failing", "since_ms": now_ms - 60_000, "consecutive_failures": 3}
    elif kind == "target.up":
        extra = {"previous_state": "recovering", "down_since_ms": now_ms - 90_000, "down_for_ms": 90_000}
    return EventDraft(kind, now_ms, result, **{**extra, **fields})


def endpoint(name: str, url: str, **fields: Any) -> WebhookEndpoint:
    """An endpoint that wants down and up."""
    return WebhookEndpoint(name, url, **fields)


def always(status: int, *headers: tuple[str, str]) -> Answer:
    """A receiver that gives this answer to everything."""
    return lambda _got: Reply(status, headers)
