"""Hours of load and faults together, and sums that must be right at the end: `make soak`, or
`python -m bench.soak --duration 30m`.

A real supervisor checks good, slow, hostile and flapping targets. Meanwhile random workers and the forkserver are
killed, the database is locked, the configuration is reloaded (good and broken), the receiver is away. At the end:

- scheduled = results + missed + cancelled, and results = stored rows + lost
- for each stream and endpoint: accepted events = delivered + dead letters, each delivered one in order
- no process of ours is left, descriptors and memory did not grow
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

OK_TARGETS, FLAPPING, COMMANDS = 60, 20, 20
_IGNORES_TERM = "trap '' TERM; (trap '' TERM; sleep 60) & while :; do sleep 1; done"


class Origin(ThreadingHTTPServer):
    """What is checked. `/flap/N` is up or down for a random while, the rest is good, slow or hostile."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Checked)
        self.down: set[int] = set()

    def handle_error(self, request: Any, client_address: Any) -> None:
        return  # clients are killed all the time


class _Checked(BaseHTTPRequestHandler):
    server: Origin

    def do_GET(self) -> None:
        kind, _, number = self.path.strip("/").partition("/")
        if kind == "hang":
            time.sleep(5)
            return
        if kind == "drip":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            for _ in range(20):
                self.wfile.write(b"X: y\r\n")
                time.sleep(0.3)
            return
        if kind == "endless":
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                self.wfile.write(b"x" * 65536)
        status = 503 if kind == "flap" and int(number) in self.server.down else 200
        body = b'{"status":"ok"}'
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


class Receiver(ThreadingHTTPServer):
    """Takes webhooks. While `away`, it answers 503."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Received)
        self.away = False
        self.lock = threading.Lock()
        self.events: dict[str, list[int]] = defaultdict(list)
        self.bodies: dict[str, bytes] = {}
        self.wrong: list[str] = []


class _Received(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        ours = self.server
        with ours.lock:
            if not ours.away:
                event = json.loads(body)
                stream, seq = event["id"], event["seq"]
                key = event["eventId"]
                if ours.bodies.setdefault(key, body) != body:
                    ours.wrong.append(f"{key}: other bytes the second time")
                if ours.events[stream] and seq < ours.events[stream][-1]:
                    ours.wrong.append(f"{key} came after {ours.events[stream][-1]}")
                ours.events[stream].append(seq)
        self.send_response(503 if ours.away else 204)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


def configuration(folder: Path, origin: int, receiver: int, *, broken: bool = False, extra: int = 0) -> str:
    """The file: JSON is YAML too. `extra` more targets are what a reload adds and removes."""

    def http(name: str, path: str, **more: Any) -> dict[str, Any]:
        return {"id": name, "type": "http", "http": {"url": f"http://127.0.0.1:{origin}/{path}"}, **more}

    def command(name: str, program: str, *arguments: str) -> dict[str, Any]:
        return {"id": name, "type": "command", "command": {"exec": program, "args": list(arguments)}}

    rule = {"expect": {"body": [{"json": {"path": "$.status", "equals": "ok"}}]}}
    targets = [http(f"ok{n}", f"ok/{n}", **rule) for n in range(OK_TARGETS)]
    targets += [http(f"flap{n}", f"flap/{n}", failureThreshold=1, successThreshold=1) for n in range(FLAPPING)]
    targets += [http(f"hang{n}", "hang", expect={"body": [{"contains": "x"}]}) for n in range(2)]
    targets += [http("drip", "drip"), http("endless", "endless", expect={"body": [{"contains": "y"}]})]
    targets += [{"id": "refused", "type": "http", "http": {"url": "http://127.0.0.1:9/"}}]
    targets += [command(f"true{n}", "true") for n in range(COMMANDS)]
    targets += [command("ignores", "sh", "-c", _IGNORES_TERM), command("flood", "yes")]
    targets += [command("crash", "sh", "-c", "kill -9 $$"), command("missing", "/no/such/program")]
    targets += [http(f"extra{n}", f"ok/x{n}") for n in range(extra)]
    return json.dumps({
        "runtime": {"dataDir": str(folder), "maxConcurrentChecks": 12, "metricsListen": ""},
        "defaults": {
            "interval": "2s", "timeout": "1s", "retryInterval": "1s", "failureThreshold": 2,
            "http": {"maxBodyBytes": "1MB"}, "command": {"maxOutputBytes": "1MB"},
        },
        "webhooks": [{
            "name": "soak", "url": f"http://127.0.0.1:{receiver}/", "default": True, "events": ["down", "up"],
            "retries": ["0s", "1s", "2s", "5s", "5s", "5s", "5s"],
        }],
        "targets": targets, **({"typo": 1} if broken else {}),
    })  # fmt: skip


def descendants(pid: int) -> dict[int, str]:
    """All processes below one, with their command lines."""
    parents: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                stat = (entry / "stat").read_text()
                parents[int(stat.rpartition(")")[2].split()[1])].append(int(entry.name))
    found: dict[int, str] = {}
    waiting = list(parents[pid])
    while waiting:
        child = waiting.pop()
        with contextlib.suppress(OSError):
            found[child] = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        waiting.extend(parents[child])
    return found


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


class Soak:
    """One run: starts everything, makes trouble, stops, adds up."""

    def __init__(self, folder: Path, minutes: float, seed: int) -> None:
        self.folder = folder
        self.until = time.monotonic() + minutes * 60
        self.chance = random.Random(seed)
        self.origin, self.receiver = Origin(), Receiver()
        for server in (self.origin, self.receiver):
            threading.Thread(target=server.serve_forever, daemon=True).start()
        self.config = folder / "config.yaml"
        self.data = folder / "data"
        self.faults: dict[str, int] = defaultdict(int)
        self.samples: list[tuple[float, int]] = []
        self.log = folder / "supervisor.log"
        self.write()
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "supervisor", "run", "-c", str(self.config)], stderr=log, cwd=Path.cwd()
            )

    def write(self, **more: Any) -> None:
        """Write the configuration."""
        text = configuration(self.data, self.origin.server_port, self.receiver.server_port, **more)
        self.config.write_text(text)

    def run(self) -> None:
        """Trouble, until the time is over."""
        actions = [
            (3.0, self.flap), (6.0, self.kill_worker), (150.0, self.kill_forkserver), (25.0, self.reload),
            (90.0, self.lock_database), (60.0, self.receiver_away), (10.0, self.sample),
        ]  # fmt: skip
        due = [time.monotonic() + every for every, _ in actions]
        while time.monotonic() < self.until:
            if self.process.poll() is not None:
                raise SystemExit(f"the supervisor ended with {self.process.returncode}: {self.log.read_text()[-2000:]}")
            now = time.monotonic()
            for index, (every, action) in enumerate(actions):
                if now >= due[index]:
                    due[index] = now + every * self.chance.uniform(0.5, 1.5)
                    action()
            time.sleep(0.2)
        self.receiver.away = False
        self.origin.down.clear()
        time.sleep(30)  # what was put off during the last outage has time to arrive; the sums below do not depend on it

    def flap(self) -> None:
        """Some targets change."""
        for _ in range(3):
            number = self.chance.randrange(FLAPPING)
            self.origin.down ^= {number}

    def _kill(self, what: str, name: str) -> None:
        pids = [pid for pid, line in descendants(self.process.pid).items() if what in line]
        if pids:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.kill(self.chance.choice(pids), signal.SIGKILL)
                self.faults[name] += 1

    def kill_worker(self) -> None:
        """A worker dies in the middle of whatever it does."""
        self._kill("forkserver", "workers killed")

    def kill_forkserver(self) -> None:
        """The process that starts workers dies."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in map(int, children):
            if b"forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                self.faults["forkservers killed"] += 1
                return

    def reload(self) -> None:
        """A good or a broken configuration."""
        broken = self.chance.random() < 0.3
        self.write(broken=broken, extra=self.chance.randrange(6))
        self.process.send_signal(signal.SIGHUP)
        self.faults["broken reloads" if broken else "reloads"] += 1

    def lock_database(self) -> None:
        """Another process holds the write lock for a while."""

        def hold() -> None:
            with contextlib.closing(sqlite3.connect(self.data / "checkvisor.db", timeout=10)) as connection:
                connection.isolation_level = None
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(8)
                connection.execute("ROLLBACK")

        threading.Thread(target=hold, daemon=True).start()
        self.faults["database locks of 8 s"] += 1

    def receiver_away(self) -> None:
        """The receiver fails, or is back."""
        self.receiver.away = not self.receiver.away
        self.faults["receiver outages"] += self.receiver.away

    def sample(self) -> None:
        """Memory and descriptors of the supervisor."""
        count = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        self.samples.append((resident_mb(self.process.pid), count))

    # --- the sums ----------------------------------------------------------------------------------------------------

    def stop(self) -> dict[str, Any]:
        """SIGTERM, and what the last log line says."""
        family = descendants(self.process.pid)
        started = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(20)
        took = time.monotonic() - started
        until = time.monotonic() + 2  # the helpers of multiprocessing end when they see that we are gone
        while left := {pid: line for pid, line in family.items() if Path(f"/proc/{pid}").exists()}:
            if time.monotonic() > until:
                break
            time.sleep(0.05)
        last = next(json.loads(x) for x in reversed(self.log.read_text().splitlines()) if "supervisor.stopped" in x)
        return {"status": status, "seconds": took, "left": left, "log": last}

    def report(self, end: dict[str, Any]) -> list[str]:
        """Print the figures; returns what is wrong."""
        log = end["log"]
        with contextlib.closing(sqlite3.connect(self.data / "checkvisor.db")) as database:
            rows = database.execute("SELECT count(*) FROM check_results").fetchone()[0]
            accepted = database.execute("SELECT stream, seq FROM webhook_events").fetchall()
            dead = set(database.execute("SELECT stream, seq FROM webhook_dead_letters").fetchall())
            cursors = dict(database.execute("SELECT stream, acked_seq FROM webhook_cursors").fetchall())
        delivered = {(stream, seq) for stream, seqs in self.receiver.events.items() for seq in seqs}
        pending = {pair for pair in accepted if pair[1] > cursors.get(pair[0], 0)} - dead
        missing = set(accepted) - delivered - dead - pending
        sums = log["results"] + log["missed"] + log["cancelled"]
        fds, memory = [count for _, count in self.samples], [mb for mb, _ in self.samples]
        outcomes = f"{len(delivered)} delivered, {len(dead)} dead letters, {len(pending)} pending"
        print(f"faults: {dict(self.faults)}")
        print("scheduled {scheduled} = results {results} + missed {missed} + cancelled {cancelled}".format(**log))
        print(f"results {log['results']} = rows {rows} + lost {log['lost']}")
        print(f"events: {len(accepted)} accepted, {outcomes}")
        print(f"supervisor: {memory[0]:.0f} -> {memory[-1]:.0f} MB, descriptors {fds[0]} -> {fds[-1]}")
        print(f"stopped in {end['seconds']:.1f} s")
        wrong = list(self.receiver.wrong)
        if sums != log["scheduled"]:
            wrong.append(f"{log['scheduled']} were scheduled, {sums} are accounted for")
        if rows + log["lost"] != log["results"]:
            wrong.append(f"{log['results']} results, {rows} rows and {log['lost']} lost")
        if missing:
            wrong.append(f"events without an outcome: {sorted(missing)[:10]}")
        if end["left"] or end["status"]:
            wrong.append(f"status {end['status']}, processes left: {end['left']}")
        settled = fds[len(fds) // 4 :]
        if settled and max(settled[-5:]) > max(settled[:5]) + 20:
            wrong.append(f"descriptors grow: {settled[0]} to {settled[-1]}")
        quarter = memory[len(memory) // 4 :]
        if quarter and quarter[-1] > quarter[0] * 1.3 + 20:
            wrong.append(f"memory grows: {quarter[0]:.0f} to {quarter[-1]:.0f} MB")
        return wrong


def minutes(text: str) -> float:
    """`90s`, `30m` or `2h` in minutes."""
    return float(text[:-1]) * {"s": 1 / 60, "m": 1, "h": 60}[text[-1]]


def main() -> int:
    """Exit status 1 if a sum is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--duration", type=minutes, default="2h", help="such as 90s, 30m or 2h")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print(f"{arguments.duration:g} minutes, seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="checkvisor-soak-") as folder:
        soak = Soak(Path(folder), arguments.duration, arguments.seed)
        try:
            soak.run()
            wrong = soak.report(soak.stop())
        finally:
            if soak.process.poll() is None:
                soak.process.kill()
                soak.process.wait()
    for line in wrong:
        print(f"WRONG: {line}")
    print("everything adds up" if not wrong else f"{len(wrong)} sums are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
