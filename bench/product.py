"""The product as users start it, beside floors and a peer of the same run: `python -m bench.product [--seconds 20]`.

A supervisor checks a local server (nginx from Debian if it is there, else our own). CPU is user + system of all its
processes per *stored* result, taken from /proc over the middle of the run; lag is from its own metrics. The floor is a
raw-socket client in Python that asks for the same page; the peer is Debian's prometheus-blackbox-exporter, which
stores nothing, driven at the same rate.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import re
import shutil
import signal
import socket
import sqlite3
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import trustme

from bench.http_check import ANSWER, LARGE_ANSWER, cpu_us, serve
from bench.proc import cpu_s, family, pss_mb

BODY = "ready " * 16 + "done"
NGINX = """
worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; daemon off;
events {{ worker_connections 4096; }}
http {{
  access_log off; keepalive_timeout 0; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s; root {folder}/www;
  server {{ listen 127.0.0.1:{http} backlog=4096; }}
  ssl_certificate {folder}/cert.pem; ssl_certificate_key {folder}/key.pem;
  server {{ listen 127.0.0.1:{https} ssl backlog=4096; }}
}}
"""


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def origin(folder: Path) -> Iterator[tuple[int, int, str]]:
    """A server for /small and /large, by http and https: both ports, and its name."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1", "localhost")
    certificate.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    certificate.private_key_pem.write_to_path(folder / "key.pem")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    (folder / "www").mkdir()
    (folder / "www" / "small").write_text(BODY)
    items = [{"id": n, "state": "ok"} for n in range(33_000)]
    (folder / "www" / "large").write_text(json.dumps({"status": "ok", "items": items}))
    if shutil.which("nginx") or Path("/usr/sbin/nginx").exists():
        http, https = free_port(), free_port()
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, http=http, https=https))
        command = ["/usr/sbin/nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait_for(http)
            yield http, https, "nginx"
        finally:
            process.terminate()
            process.wait()
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    servers = [serve(None), serve(context, ANSWER), serve(None, LARGE_ANSWER)]
    try:
        yield servers[0][0], servers[1][0], "our own server"
    finally:
        for _, pid in servers:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def wait_for(port: int) -> None:
    """Until somebody listens."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"nobody listens on port {port}")


class Measured:
    """One supervisor with so many targets of one kind, watched for a while."""

    def __init__(self, folder: Path, target: dict[str, Any], count: int, interval: str, workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.metrics = free_port()
        targets = [{"id": f"t{n}", **target} for n in range(count)]
        config = {
            "runtime": {
                "dataDir": "data", "maxConcurrentChecks": workers, "metricsListen": f"127.0.0.1:{self.metrics}",
            },
            "defaults": {"interval": interval, "timeout": "1s"},
            "targets": targets,
        }  # fmt: skip
        (self.folder / "config.yaml").write_text(json.dumps(config))

    def run(self, seconds: float) -> dict[str, float]:
        """Start, let it settle, measure for `seconds`, stop."""
        command = [sys.executable, "-m", "supervisor", "run", "-c", str(self.folder / "config.yaml")]
        started = time.monotonic()
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            first = self._until_first()
            ready_s = first - started
            time.sleep(8)
            before, cpu, at = self._stored(), cpu_s(process.pid), time.monotonic()
            time.sleep(seconds)
            stored, used, took = self._stored() - before, cpu_s(process.pid) - cpu, time.monotonic() - at
            members = family(process.pid)
            memory = {pid: pss_mb(pid) for pid in members}
            lag = self._lag()
        finally:
            process.terminate()
            process.wait(20)
        workers = sorted(mb for pid, mb in memory.items() if pid != process.pid)
        return {
            "us": used / stored * 1e6 if stored else float("nan"),
            "rate": stored / took,
            "pss_mb": sum(memory.values()),
            "supervisor_mb": memory[process.pid],
            "worker_mb": statistics.median(workers[2:] or [0]),
            "lag_p99_ms": lag * 1000,
            "first_s": ready_s,
        }

    def _until_first(self) -> float:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(sqlite3.OperationalError):
                if self._stored():
                    return time.monotonic()
            time.sleep(0.02)
        raise SystemExit("the supervisor stored nothing within 60 s")

    def _stored(self) -> int:
        path = self.folder / "data" / "checkvisor.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return int(database.execute("SELECT coalesce(max(id), 0) FROM check_results").fetchone()[0])

    def _lag(self) -> float:
        """The 99th percentile of the schedule's lag: upper bound of its bucket, in seconds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        buckets = re.findall(r'checkvisor_schedule_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', text)
        total = float(buckets[-1][1])
        return next(float(bound) for bound, count in buckets if float(count) >= total * 0.99)


def raw_client(port: int, path: str, context: ssl.SSLContext | None) -> Callable[[], None]:
    """The floor: connect, ask, read to the end, look for a word."""
    request = f"GET /{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()

    def ask() -> None:
        sock = socket.create_connection(("127.0.0.1", port), 5)
        if context is not None:
            sock = context.wrap_socket(sock, server_hostname="127.0.0.1")
        with sock:
            sock.sendall(request)
            parts = []
            while part := sock.recv(262_144):
                parts.append(part)
        if b"ok" not in (body := b"".join(parts)) and b"done" not in body:
            raise SystemExit("the floor got no answer")

    return ask


def blackbox(folder: Path, url: str, rate: float, seconds: float) -> float | None:
    """CPU in us per probe of Debian's blackbox exporter at the same rate; None where it is not installed."""
    program = shutil.which("prometheus-blackbox-exporter")
    if program is None:
        return None
    modules = {"modules": {"m": {
        "prober": "http",
        "http": {"fail_if_body_not_matches_regexp": ["done"], "preferred_ip_protocol": "ip4",
                 "tls_config": {"ca_file": str(folder / "ca.pem")}},
    }}}  # fmt: skip
    (folder / "blackbox.yml").write_text(json.dumps(modules))
    port = free_port()
    process = subprocess.Popen(
        [program, f"--config.file={folder}/blackbox.yml", f"--web.listen-address=127.0.0.1:{port}"],
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for(port)
        probe = f"http://127.0.0.1:{port}/probe?module=m&target={url}"
        with urllib.request.urlopen(probe, timeout=5) as answer:
            if b"probe_success 1" not in answer.read():
                return None
        count = 0
        lock = threading.Lock()
        until = time.monotonic() + seconds

        def drive(step_s: float) -> None:
            nonlocal count
            due = time.monotonic()
            while due < until:
                time.sleep(max(0.0, due - time.monotonic()))
                with urllib.request.urlopen(probe, timeout=5) as answer:
                    answer.read()
                with lock:
                    count += 1
                due += step_s

        cpu = cpu_s(process.pid)
        drivers = [threading.Thread(target=drive, args=(8 / rate,)) for _ in range(8)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        return (cpu_s(process.pid) - cpu) / count * 1e6
    finally:
        process.terminate()
        process.wait(10)


def main() -> int:
    """Print the table, and with --json write it."""
    full = bool(os.environ.get("BENCH_FULL"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0 if full else 10.0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with origin(folder) as (http, https, server):
            print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {server}")
            context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
            small = {"type": "http", "http": {"url": f"http://127.0.0.1:{http}/small"}}
            small["expect"] = {"status": [200], "body": [{"contains": "done"}]}
            secure = {"type": "http", "http": {
                "url": f"https://127.0.0.1:{https}/small", "tls": {"caFile": str(folder / "ca.pem")},
            }, "expect": small["expect"]}  # fmt: skip
            large = {"type": "http", "http": {"url": f"http://127.0.0.1:{http}/large"}}
            large["expect"] = {"body": [{"regex": '"status": "ok"'}]}
            command = {"type": "command", "command": {"exec": "/bin/true"}}
            scenarios = [
                ("HTTP, 100 targets at 1 s", small, 100, "1s", 20, ("small", None)),
                ("HTTP, 1,000 targets at 1 s", small, 1000, "1s", 20, ("small", None)),
                ("HTTP, as fast as it goes", small, 5000, "1s", 20, ("small", None)),
                ("HTTPS, 100 targets at 1 s", secure, 100, "1s", 20, ("small", context)),
                ("1 MB body and a regex, 20 targets at 1 s", large, 20, "1s", 20, ("large", None)),
                ("command, 100 targets at 1 s", command, 100, "1s", 20, None),
                ("HTTP, 1,000 targets at 10 s", small, 1000, "10s", 20, ("small", None)),
            ]
            for title, target, count, interval, workers, floor in scenarios:
                figures = Measured(folder, target, count, interval, workers).run(arguments.seconds)
                row: dict[str, Any] = {"scenario": title, **figures}
                if floor is not None:
                    path, tls = floor
                    row["floor_us"] = cpu_us(raw_client(https if tls else http, path, tls), 300)
                    row["ratio"] = row["us"] / row["floor_us"]
                if floor is not None and floor[0] == "small" and count == 100:
                    scheme, port = ("https", https) if floor[1] else ("http", http)
                    url = f"{scheme}://127.0.0.1:{port}/small"
                    row["blackbox_us"] = blackbox(folder, url, min(figures["rate"], 100), arguments.seconds)
                rows.append(row)
                show(row)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")
    return 0


def show(row: dict[str, Any]) -> None:
    """One line."""
    floor = f"floor {row['floor_us']:.0f} us, ratio {row['ratio']:.1f}, " if "floor_us" in row else ""
    peer = f"blackbox {row['blackbox_us']:.0f} us, " if row.get("blackbox_us") else ""
    print(
        f"{row['scenario']:<42} {row['us']:7.0f} us a stored check, {row['rate']:6.0f}/s, {floor}{peer}"
        f"lag p99 <= {row['lag_p99_ms']:g} ms, PSS {row['pss_mb']:.0f} MB (supervisor {row['supervisor_mb']:.0f}, "
        f"worker {row['worker_mb']:.1f}), first result after {row['first_s']:.1f} s",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
