"""Webhook deliveries a second over 1,000 streams, order kept (B14): `python -m bench.webhooks`.

The receiver is fast, on this machine, a process of its own. Events are accepted and stored first (their time is told
apart), then delivered: signed, each outcome committed with synchronous=FULL before the next event of its stream. In a
second run another receiver that answers after 9 s shares the threads, as in production.

Floor: one client that sends the same number of bytes over raw sockets, one after the other, and stores nothing.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from bench.rows import FULL, Row, options, save
from supervisor.model import EventDraft, Item, ResolvedTarget, WebhookEndpoint
from supervisor.state import initial
from supervisor.store.connect import FILE_NAME, Reader
from supervisor.store.write import Writer
from supervisor.webhook.hooks import Webhooks
from tests.make import make_result, make_target

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
ANSWER = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"


def receive(pipe: Connection) -> None:
    """Answer everything with 204 and remember the order, until told to stop."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        pipe.send(listener.getsockname()[1])
        listener.settimeout(0.1)
        ids: list[str] = []
        while not pipe.poll():
            try:
                connection, _peer = listener.accept()
            except TimeoutError:
                continue
            with connection:
                data = b""
                while b"}" not in data[-3:]:
                    data += connection.recv(65536)
                connection.sendall(ANSWER)
                head = data.split(b"webhook-id: ", 1)[1]
                ids.append(head.split(b"\r\n", 1)[0].decode().partition(":")[2])
        pipe.recv()
        pipe.send(ids)


def hold(pipe: Connection) -> None:
    """A receiver that takes 9 s for each answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        pipe.send(listener.getsockname()[1])
        held: list[tuple[float, socket.socket]] = []
        listener.settimeout(0.1)
        while not pipe.poll():
            with contextlib.suppress(TimeoutError):
                held.append((time.monotonic() + 9, listener.accept()[0]))
            for due, connection in [one for one in held if one[0] <= time.monotonic()]:
                connection.sendall(ANSWER)
                connection.close()
                held.remove((due, connection))
        for _due, connection in held:
            connection.close()
        pipe.recv()
        pipe.send([])


class Server:
    """One of the two above, in its process."""

    def __init__(self, work: Callable[[Connection], None]) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=work, args=(theirs,))
        self.process.start()
        self.url = f"http://127.0.0.1:{self.pipe.recv()}/"

    def stop(self) -> list[str]:
        self.pipe.send(None)
        ids: list[str] = self.pipe.recv()
        self.process.join()
        return ids


def accept(hooks: Webhooks, writer: Writer, targets: tuple[ResolvedTarget, ...], events: int) -> float:
    """Microseconds an event for filter, number, body and hand-over."""
    started = time.perf_counter()
    for number in range(events):
        for target in targets:
            now_ms = time.time_ns() // 1_000_000
            result = make_result(number % 2 == 1, target_id=target.id, timestamp_ms=now_ms)
            draft = EventDraft("target.up" if number % 2 else "target.down", now_ms, result)
            accepted = hooks.accept(target, (draft,))
            writer.put(Item(result, initial(), target.id, events=accepted))
    return (time.perf_counter() - started) / (events * len(targets)) * 1e6


def measure(directory: Path, streams: int, events: int, urls: list[str]) -> Row:
    """One run over a fresh database."""
    endpoints = tuple(WebhookEndpoint(f"e{place}", url, secrets=(SECRET,)) for place, url in enumerate(urls))
    names = tuple(endpoint.name for endpoint in endpoints)
    targets = tuple(make_target(id=f"t{number}", notify=names, position=number) for number in range(streams))
    late: list[Webhooks] = []
    writer = Writer(directory, committed=lambda item: late[0].committed(item))
    loaded = writer.open()
    reader = Reader(directory / FILE_NAME)
    hooks = Webhooks(endpoints, writer, reader, loaded, data_dir=directory)
    late.append(hooks)
    writer.put_targets(targets, 0)
    writer.start()
    cost_us = accept(hooks, writer, targets, events)
    while writer.stats().queued:
        time.sleep(0.01)
    cpu, started = time.process_time(), time.perf_counter()
    hooks.start()
    while hooks.stats().endpoints[0].pending:
        time.sleep(0.01)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    hooks.stop(0)
    writer.flush_and_stop(10)
    reader.close()
    total = streams * events
    return {
        "name": "one receiver" if len(urls) == 1 else "beside a slow receiver", "deliveries": total,
        "per_s": total / seconds, "us": cpu / total * 1e6, "accept_us": cost_us,
    }  # fmt: skip


def check_order(ids: list[str], total: int) -> None:
    """Every event arrived once, those of a stream in their order."""
    last: dict[str, int] = {}
    for event_id in ids:
        stream, _, seq = event_id.partition(":")
        if int(seq) != last.get(stream, 0) + 1:
            raise SystemExit(f"{event_id} came after {last.get(stream)}")
        last[stream] = int(seq)
    if sum(last.values()) != total:
        raise SystemExit(f"{sum(last.values())} events arrived, {total} were sent")


def floor(count: int) -> Row:
    """Plain posts in a row, of about the size of an event."""
    server = Server(receive)
    port = int(server.url.rpartition(":")[2].strip("/"))
    started, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            head = f"POST / HTTP/1.1\r\nwebhook-id: floor:t:{number + 1}\r\nContent-Length: 800\r\n\r\n"
            sock.sendall(head.encode() + b" " * 799 + b"}")
            while sock.recv(65536):
                pass
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    check_order(server.stop(), count)
    return {"name": "floor, raw sockets", "per_s": count / seconds, "us": cpu / count * 1e6}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--events", type=int, default=10 if FULL else 4, help="of each stream")
    given = parser.parse_args()
    total = given.streams * given.events
    rows = [floor(total)]
    for slow_too in (False, True):
        servers = [Server(receive)] + ([Server(hold)] if slow_too else [])
        with tempfile.TemporaryDirectory() as directory:
            rows.append(measure(Path(directory), given.streams, given.events, [server.url for server in servers]))
        ids, *_ = [server.stop() for server in servers]
        check_order(ids, total)
    for row in rows:
        accepted = f", accept {row['accept_us']:.0f} us an event" if "accept_us" in row else ""
        print(f"{row['name']:<24} {row['per_s']:8,.0f} a second, {row['us']:6.0f} us of CPU each{accepted}")
    save(given.json, rows)


if __name__ == "__main__":
    main()
