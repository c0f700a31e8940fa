"""The page as browsers get it: `checkvisor web` with gunicorn, four clients, results coming in. For bench/web.py.

Each client is a process of its own (`python -m bench.served PORT SECONDS PER_S`), so that none waits for another.
"""

from __future__ import annotations

import json
import socket
import sqlite3
import statistics
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

from bench.origin import free_port, wait_for
from bench.proc import cpu_s, die_with_parent
from bench.rows import Row, quantile

CLIENTS = 4
_TICK_S, _ROUND_S = 1, 30  # every target has a new result each 30 s
_WARM_S = 3.0
_RESULTS = """
UPDATE target_states SET last_timestamp = :now, next_due_at = :now + 30000, matched_total = matched_total + 1,
    last_duration_ms = 20 + (target_id * 17 + :now / 1000) % 97 WHERE :every = 1 OR target_id % :every = :tick % :every
"""
_BEAT = "UPDATE meta SET value = ? WHERE key = 'heartbeat_at'"
_ASK = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\n\r\n"


def _write(path: Path, stop: threading.Event, begun: threading.Event) -> None:
    """A supervisor's writes, as far as the page sees them."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=10)) as raw:
        raw.execute("PRAGMA synchronous=OFF")
        for tick in range(1_000_000):
            now_ms = time.time_ns() // 1_000_000
            raw.execute("BEGIN IMMEDIATE")
            raw.execute(_RESULTS, {"now": now_ms, "every": _ROUND_S if tick else 1, "tick": tick})
            raw.execute(_BEAT, (str(now_ms),))
            raw.execute("COMMIT")
            begun.set()
            if stop.wait(_TICK_S):
                return


def _get(sock: socket.socket) -> int:
    """Load the page over a kept connection; its bytes."""
    sock.sendall(_ASK)
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(262_144)
        if not part:
            raise SystemExit("the server closed the connection")
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"the page answered {head[:40]!r}")
    length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
    got = len(body)
    while got < length:
        got += len(sock.recv(262_144))
    return length


def load(port: int, seconds: float, per_s: float) -> tuple[list[float], int]:
    """One client, as fast as it can if `per_s` is 0: ms of each page, and the bytes of the last."""
    took: list[float] = []
    size = 0
    with socket.create_connection(("127.0.0.1", port), 30) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = due = time.monotonic()
        while due < begun + seconds:
            time.sleep(max(0.0, due - time.monotonic()))
            asked = time.monotonic()
            size = _get(sock)
            took.append((time.monotonic() - asked) * 1000)
            due = due + 1 / per_s if per_s else time.monotonic()
    return took, size


def served_row(name: str, path: Path, seconds: float, per_s: float | None) -> Row:
    """Wall time in ms of each page, and CPU of all processes of the server for one. `per_s` is of all clients."""
    port, stop, begun = free_port(), threading.Event(), threading.Event()
    writer = threading.Thread(target=_write, args=(path, stop, begun))
    writer.start()
    begun.wait()
    command = [sys.executable, "-m", "supervisor", "web", "--database", str(path), "--bind", f"127.0.0.1:{port}"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent
    )
    client = [sys.executable, "-m", "bench.served", str(port), str(seconds), str((per_s or 0) / CLIENTS)]
    took: list[float] = []
    try:
        wait_for(port)
        load(port, _WARM_S, 20)
        cpu = cpu_s(process.pid)
        clients = [subprocess.Popen(client, stdout=subprocess.PIPE) for _ in range(CLIENTS)]
        answers = [json.loads(one.communicate()[0]) for one in clients]
        cpu = cpu_s(process.pid) - cpu
    finally:
        process.terminate()
        process.wait(20)
        stop.set()
        writer.join()
    for times, _ in answers:
        took += times
    return {
        "name": name, "p50_ms": statistics.median(took), "p99_ms": quantile(took, 0.99), "worst_ms": max(took),
        "us": cpu / len(took) * 1e6, "per_s": len(took) / seconds, "gzip_kb": answers[0][1] / 1024,
    }  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(load(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))))
