"""Floors: what the same work costs at least, measured in the same run. CPU in microseconds for one, median of runs."""

from __future__ import annotations

import os
import re
import selectors
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import requests

from bench.origin import LARGE_WORD, WORD, Origin
from bench.proc import own_cpu_s, pss_mb
from bench.rows import Row, quantile

RUNS = 5
_IMPORTS = "import supervisor.cli, supervisor.run, supervisor.commands.single, time; print(flush=True); time.sleep(60)"


def cpu_us(work: Callable[[], object], count: int) -> float:
    """CPU of one call, waited children included: the median over RUNS runs of `count` calls in all."""
    each = max(1, count // RUNS)
    found = []
    for _ in range(RUNS):
        before = own_cpu_s()
        for _ in range(each):
            work()
        found.append((own_cpu_s() - before) / each * 1e6)
    return statistics.median(found)


class Compiled:
    """bench/floor.c, where there is a compiler."""

    def __init__(self, folder: Path) -> None:
        self.program: Path | None = None
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is not None:
            self.program = folder / "floor"
            source = Path(__file__).with_name("floor.c")
            subprocess.run([compiler, "-O2", "-o", str(self.program), str(source)], check=True)

    def http_us(self, port: int, path: str, word: str, count: int) -> float | None:
        """A client that connects, asks, reads to the end."""
        return self._us(count, "http", str(port), path, word, str(count // RUNS))

    def spawn_us(self, count: int, *command: str) -> float | None:
        """posix_spawn and wait, the program's own CPU included."""
        return self._us(count, "spawn", str(count // RUNS), *command)

    def _us(self, count: int, *arguments: str) -> float | None:
        if self.program is None or count < RUNS:
            return None
        return statistics.median(self._run(*arguments)[0] for _ in range(RUNS))

    def _run(self, *arguments: str) -> tuple[float, float]:
        done = subprocess.run([str(self.program), *arguments], stdout=subprocess.PIPE, text=True, check=True)
        cpu, wall = done.stdout.split()
        return float(cpu), float(wall)

    def http_per_s(self, port: int, path: str, word: str, count: int, clients: int) -> float | None:
        """Requests a second of so many clients at once, `count` requests each."""
        if self.program is None:
            return None
        arguments = [str(self.program), "http", str(port), path, word, str(count)]
        begun = time.monotonic()
        running = [subprocess.Popen(arguments, stdout=subprocess.DEVNULL) for _ in range(clients)]
        statuses = [client.wait() for client in running]
        if any(statuses):
            raise SystemExit("a client in C got no answer")
        return count * clients / (time.monotonic() - begun)


def raw_client(port: int, path: str, word: str, context: ssl.SSLContext | None = None) -> Callable[[], None]:
    """Python at its barest: connect, ask, read to the end, search for a word."""
    request = f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
    wanted = re.compile(re.escape(word).encode())

    def ask() -> None:
        sock = socket.create_connection(("127.0.0.1", port), 5)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname="127.0.0.1")
        with sock:
            sock.sendall(request)
            parts = []
            while part := sock.recv(262_144):
                parts.append(part)
        body = b"".join(parts)
        if not body.startswith(b"HTTP/1.1 200 ") or not wanted.search(body):
            raise SystemExit("the floor got no answer")

    return ask


def requests_client(url: str, word: str, ca_file: Path | None = None) -> Callable[[], None]:
    """`requests` as sparingly as it can be used: one session without the environment, a prepared request."""
    session = requests.Session()
    session.trust_env = False
    session.verify = str(ca_file) if ca_file else True
    prepared = session.prepare_request(requests.Request("GET", url, headers={"Connection": "close"}))

    def ask() -> None:
        answer = session.send(prepared, timeout=5)
        if answer.status_code != 200 or word not in answer.text:
            raise SystemExit("the floor got no answer")

    return ask


def subprocess_run(*command: str) -> Callable[[], None]:
    """`subprocess.run` with the output read."""

    def run() -> None:
        subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=True, timeout=5)

    return run


def http_rows(origin: Origin, compiled: Compiled, count: int) -> list[Row]:
    """All floors of HTTP checks."""
    context = ssl.create_default_context(cafile=str(origin.ca_file))
    small, large = ("small", WORD), ("large", LARGE_WORD)
    rows: list[Row] = [
        {"name": "floor HTTP, Python socket", "us": cpu_us(raw_client(origin.http, *small), count)},
        {"name": "floor HTTP, requests prepared", "us": cpu_us(requests_client(origin.small_url, WORD), count)},
        {"name": "floor HTTPS, Python socket", "us": cpu_us(raw_client(origin.https, *small, context), count // 2)},
        {
            "name": "floor HTTPS, requests prepared",
            "us": cpu_us(requests_client(origin.secure_url, WORD, origin.ca_file), count // 4),
        },
        {"name": "floor 1 MB, Python socket", "us": cpu_us(raw_client(origin.large, *large), count // 4)},
    ]
    in_c = {
        "floor HTTP, C": compiled.http_us(origin.http, *small, count * 4),
        "floor 1 MB, C": compiled.http_us(origin.large, *large, count),
    }
    rows += [{"name": name, "us": us} for name, us in in_c.items() if us is not None]
    per_s = compiled.http_per_s(origin.http, *small, count * 2, 20)
    return rows + ([{"name": "floor HTTP, C, 20 clients", "per_s": per_s}] if per_s is not None else [])


def command_rows(compiled: Compiled, count: int) -> list[Row]:
    """All floors of command checks."""

    def spawn() -> None:
        os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

    rows: list[Row] = [
        {"name": "floor command, Python posix_spawn", "us": cpu_us(spawn, count)},
        {"name": "floor command, subprocess.run", "us": cpu_us(subprocess_run("/bin/true"), count)},
    ]
    us = compiled.spawn_us(count, "/bin/true")
    return rows + ([{"name": "floor command, C posix_spawn", "us": us}] if us is not None else [])


def timer_row(per_s: int, seconds: float) -> Row:
    """How exactly a Python process wakes up so many times a second: ms after the time it asked for."""
    late = []
    with selectors.DefaultSelector() as selector:
        start = time.monotonic()
        for number in range(int(per_s * seconds)):
            due = start + number / per_s
            while (left := due - time.monotonic()) > 0:
                selector.select(left)
            late.append((time.monotonic() - due) * 1000)
    return {
        "name": "floor schedule, a select loop",
        "lag_p50_ms": quantile(late, 0.5), "lag_p99_ms": quantile(late, 0.99), "lag_max_ms": max(late),
    }  # fmt: skip


def imports_row() -> Row:
    """The supervisor's imports in a process that does nothing."""
    with subprocess.Popen([sys.executable, "-c", _IMPORTS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        size = pss_mb(process.pid)
        process.kill()
    return {"name": "floor memory, imports alone", "pss_mb": size}
