"""Peers that Debian has, doing the same work in the same run: blackbox exporter and the Nagios plugin check_http.

Neither stores anything. blackbox is asked over kept connections, as Prometheus asks it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from bench.floors import RUNS, Compiled, cpu_us
from bench.origin import LARGE_WORD, WORD, Origin, free_port, wait_for
from bench.proc import cpu_s, die_with_parent
from bench.rows import Row

_CHECK_HTTP = Path("/usr/lib/nagios/plugins/check_http")
_DRIVERS = 8


class Blackbox:
    """A running prometheus-blackbox-exporter."""

    def __init__(self, pid: int, port: int) -> None:
        self.pid, self.port = pid, port

    def row(self, name: str, module: str, url: str, per_s: float, seconds: float) -> Row:
        """Ask for probes at a steady rate; CPU of one, and the rate that came of it."""
        path = f"/probe?module={module}&target={quote(url, safe='')}"
        found = []
        for _ in range(3):
            before, begun = cpu_s(self.pid), time.monotonic()
            count = self._drive(path, per_s, seconds / 3)
            found.append(((cpu_s(self.pid) - before) / count * 1e6, count / (time.monotonic() - begun)))
        us, rate = (statistics.median(values) for values in zip(*found, strict=True))
        return {"name": name, "us": us, "per_s": rate}

    def _drive(self, path: str, per_s: float, seconds: float) -> int:
        """Returns how many probes were made; raises SystemExit when one failed."""
        counts = [0] * _DRIVERS
        failures: list[str] = []
        start = time.monotonic()

        def drive(number: int) -> None:
            client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
            due = start + number / per_s
            while due < start + seconds and not failures:
                time.sleep(max(0.0, due - time.monotonic()))
                if time.monotonic() > start + seconds:
                    break
                client.request("GET", path)
                if b"\nprobe_success 1" not in client.getresponse().read():
                    failures.append(path)
                counts[number] += 1
                due += _DRIVERS / per_s
            client.close()

        drivers = [threading.Thread(target=drive, args=(number,)) for number in range(_DRIVERS)]
        for driver in drivers:
            driver.start()
        for driver in drivers:
            driver.join()
        if failures:
            raise SystemExit(f"blackbox failed: {failures[0]}")
        return sum(counts)


@contextlib.contextmanager
def blackbox(folder: Path, origin: Origin) -> Iterator[Blackbox | None]:
    """Start it; None where it is not installed."""
    program = shutil.which("prometheus-blackbox-exporter") or shutil.which("blackbox_exporter")
    if program is None:
        yield None
        return

    def module(word: str) -> dict[str, object]:
        return {"prober": "http", "http": {
            "fail_if_body_not_matches_regexp": [word], "preferred_ip_protocol": "ip4",
            "tls_config": {"ca_file": str(origin.ca_file)},
        }}  # fmt: skip

    modules = {"modules": {"small": module(WORD), "large": module(LARGE_WORD)}}
    (folder / "blackbox.yml").write_text(json.dumps(modules))
    port = free_port()
    process = subprocess.Popen(
        [program, f"--config.file={folder}/blackbox.yml", f"--web.listen-address=127.0.0.1:{port}"],
        stderr=subprocess.DEVNULL,
        preexec_fn=die_with_parent,
    )
    try:
        wait_for(port)
        yield Blackbox(process.pid, port)
    finally:
        process.terminate()
        process.wait()


def blackbox_rows(folder: Path, origin: Origin, compiled: Compiled, seconds: float) -> list[Row]:
    """At the rates that the product is measured at, and as fast as it goes (asked by 8 clients in C)."""
    with blackbox(folder, origin) as running:
        if running is None:
            return []
        rows = [
            running.row("peer HTTP, 100/s, blackbox", "small", origin.small_url, 100, seconds),
            running.row("peer HTTP, 1,000/s, blackbox", "small", origin.small_url, 1000, seconds),
            running.row("peer HTTPS, 100/s, blackbox", "small", origin.secure_url, 100, seconds),
            running.row("peer HTTPS, 400/s, blackbox", "small", origin.secure_url, 400, seconds),
            running.row("peer 1 MB, 20/s, blackbox", "large", origin.large_url, 20, seconds),
            running.row("peer 1 MB, 100/s, blackbox", "large", origin.large_url, 100, seconds),
        ]
        path = f"probe?module=small&target={origin.small_url}"
        before = cpu_s(running.pid)
        clients, count = 8, round(seconds * 100)
        per_s = compiled.http_per_s(running.port, path, "\nprobe_success 1", count, clients)
        if per_s is not None:
            us = (cpu_s(running.pid) - before) / (clients * count) * 1e6
            rows.append({"name": "peer HTTP, saturated, blackbox", "us": us, "per_s": per_s})
    return rows


def check_http_rows(origin: Origin, count: int) -> list[Row]:
    """The plugin, started by posix_spawn and waited for: its CPU and that of the start."""
    if not _CHECK_HTTP.exists():
        return []
    command = [str(_CHECK_HTTP), "-I", "127.0.0.1", "-p", str(origin.http), "-u", "/small", "-s", WORD]
    null = [(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)]

    def run() -> None:
        pid = os.posix_spawn(command[0], command, dict(os.environ), file_actions=null)
        if os.waitpid(pid, 0)[1]:
            raise SystemExit("check_http failed")

    return [{"name": "peer HTTP, check_http spawned", "us": cpu_us(run, max(count, RUNS))}]
