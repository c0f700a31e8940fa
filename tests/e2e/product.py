"""The whole product for a test: `checkvisor up` on free ports, seen from outside through its page, API and metrics."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.servers import closed_port

MARK = "PYTHON_CHECKVISOR_E2E"  # names with this beginning reach the web app too
_STEERING = ("STATE_DIRECTORY", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "NO_COLOR")

Json = Any


def until(condition: Callable[[], Any], seconds: float = 10, what: str = "the condition") -> Any:
    """Poll until the condition is true, and return what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {seconds} s")
        time.sleep(0.02)  # the poll of a condition with a deadline
    return found


def stays(seconds: float, condition: Callable[[], Any], what: str) -> None:
    """The condition is true all the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), what
        time.sleep(0.05)  # the same, the other way round


def shell(target_id: str, script: str, **fields: Any) -> dict[str, Any]:
    """A target that runs a shell script every second."""
    run = {"exec": "sh", "args": ["-c", script], **fields.pop("command", {})}
    return {"id": target_id, "name": target_id, "type": "command", "interval": "1s", "command": run, **fields}


def web(target_id: str, url: str, **fields: Any) -> dict[str, Any]:
    """A target that asks a URL every second."""
    ask = {"url": url, **fields.pop("http", {})}
    return {"id": target_id, "name": target_id, "type": "http", "interval": "1s", "http": ask, **fields}


def state_of(pid: int) -> str:
    """The process's state letter; X when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def command_line(pid: int) -> str:
    """The arguments of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def parent(pid: int) -> int:
    """The parent of a living process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def children(pid: int) -> set[int]:
    """The direct children of a process."""
    found: set[int] = set()
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError), open(f"/proc/{pid}/task/{task}/children") as listing:
                found.update(map(int, listing.read().split()))
    return found


def descriptors(pid: int) -> int:
    """How many a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


@dataclass
class Product:
    """A running `checkvisor up` (or `run`, then without a page). Everything it starts carries a mark of its own in its
    environment, so what is left of it can be found wherever it went."""

    process: subprocess.Popen[bytes]
    folder: Path
    mark: str
    metrics_url: str
    page_url: str = ""
    # --- what it says ------------------------------------------------------------------------------------------------

    @property
    def config(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def database(self) -> Path:
        return self.folder / "data" / "checkvisor.db"

    def log(self) -> str:
        return (self.folder / "stderr.log").read_text(errors="replace")

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log events of this name so far."""
        lines = [line for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_for(self, name: str, seconds: float = 60, count: int = 1) -> dict[str, Any]:
        """The `count`th log event of this name."""
        deadline = time.monotonic() + seconds
        while len(found := self.events(name)) < count:
            if time.monotonic() > deadline or (self.process.poll() is not None and len(self.events(name)) < count):
                pytest.fail(f"no {name} within {seconds} s (status {self.process.poll()}):\n{self.log()[-4000:]}")
            time.sleep(0.02)  # the poll of a condition with a deadline
        return found[count - 1]

    # --- what it shows -----------------------------------------------------------------------------------------------

    def fetch(self, path: str, *, base: str | None = None) -> tuple[int, str]:
        """Status and text of a page."""
        url = urllib.parse.urljoin(base or self.page_url, path)
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def page(self, path: str = "") -> str:
        status, text = self.fetch(path)
        assert status == 200, f"{path}: {status}\n{text}"
        return text

    def api(self, path: str) -> Json:
        return json.loads(self.page(f"api/v1/{path}"))

    def target(self, target_id: str) -> Json:
        return self.api(f"targets/{target_id}")

    def results(self, target_id: str) -> list[Json]:
        """All results of a target, oldest first."""
        found: list[Json] = []
        cursor = ""
        while True:
            answer = self.api(f"targets/{target_id}/results?limit=500{cursor}")
            found += answer["items"]
            if not answer["nextCursor"]:
                return found[::-1]
            cursor = f"&cursor={answer['nextCursor']}"

    def results_wait(self, target_id: str, count: int = 1, seconds: float = 15) -> list[Json]:
        """All results of a target, as soon as there are so many."""

        def enough() -> list[Json] | None:
            status, text = self.fetch(f"api/v1/targets/{target_id}/results?limit=500")
            items: list[Json] = json.loads(text)["items"] if status == 200 else []
            return items[::-1] if len(items) >= count else None

        found: list[Json] = until(enough, seconds, f"{count} results of {target_id}")
        return found

    def metrics(self) -> dict[str, float]:
        """The supervisor's own metrics, by name with labels."""
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of the database, read beside the supervisor or after it."""
        with closing(sqlite3.connect(self.database, timeout=10)) as connection:
            return connection.execute(query, values).fetchall()

    def stored(self, target_id: str) -> list[tuple[int, int, int]]:
        """`(timestamp, success, matched)` of all results of a target in the database, in the order of their ids."""
        return [
            (int(row[0]), int(row[1]), int(row[2]))
            for row in self.rows(
                "SELECT r.timestamp, r.success, r.matched FROM check_results r JOIN targets t ON t.id = r.target_id"
                " WHERE t.key = ? ORDER BY r.id",
                target_id,
            )
        ]

    # --- its processes -----------------------------------------------------------------------------------------------

    def processes(self) -> set[int]:
        """All that carry its mark and live (zombies do not)."""
        wanted = f"{MARK}={self.mark}".encode()
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                with suppress(OSError):
                    if wanted in Path(f"/proc/{name}/environ").read_bytes() and state_of(int(name)) not in "ZX":
                        found.add(int(name))
        return found

    def supervisor(self) -> int:
        """The pid of the supervisor."""
        rows = until(lambda: self.rows("SELECT value FROM meta WHERE key = 'supervisor'"), 10, "its pid in the store")
        pid: int = json.loads(rows[0][0])["pid"]
        return pid

    def running(self, text: str) -> set[int]:
        """Processes of it with this in their command line."""
        return {pid for pid in self.processes() if text in command_line(pid)}

    def worker_of(self, text: str) -> int:
        """The worker that runs the command with this in its command line."""
        pids = until(lambda: self.running(text), 10, f"a process that runs {text}")
        return parent(min(pids))

    # --- steering ----------------------------------------------------------------------------------------------------

    def write(self, config: Mapping[str, Any] | str) -> None:
        """Replace the configuration file in one step."""
        write_config(self.folder, config)

    def reload(self, config: Mapping[str, Any] | str | None = None, seconds: float = 15) -> bool:
        """Replace the configuration if one is given, send SIGHUP, wait. True if it was taken."""
        if config is not None:
            self.write(config)
        before = len(self.events("reload.done")) + len(self.events("reload.failed"))
        good = len(self.events("reload.done"))
        self.process.send_signal(signal.SIGHUP)
        until(
            lambda: len(self.events("reload.done")) + len(self.events("reload.failed")) > before, seconds, "the reload"
        )
        return len(self.events("reload.done")) > good

    def stop(self, number: int = signal.SIGTERM, seconds: float = 15, left_s: float = 1.0) -> tuple[int, float]:
        """Send a signal and wait for the end. Returns exit status and seconds; nothing of it is left."""
        started = time.monotonic()
        self.process.send_signal(number)
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still there {seconds} s after signal {number}:\n{self.log()[-4000:]}")
        took = time.monotonic() - started
        self.assert_gone(left_s)
        return status, took

    def assert_gone(self, seconds: float = 1.0) -> None:
        """No process that it started is left within this time."""
        deadline = time.monotonic() + seconds
        while left := self.processes():
            if time.monotonic() > deadline:
                pytest.fail(f"left after {seconds} s: { {pid: command_line(pid) for pid in left} }")
            time.sleep(0.02)  # the poll of a condition with a deadline


def write_config(folder: Path, config: Mapping[str, Any] | str) -> None:
    """Write `config.yaml` (JSON is YAML) in one step, closed to all others."""
    text = config if isinstance(config, str) else json.dumps(config, indent=1)
    fresh = folder / "config.new"
    fresh.write_text(text)
    fresh.chmod(0o600)
    fresh.rename(folder / "config.yaml")


def configuration(targets: list[dict[str, Any]], **sections: Any) -> dict[str, Any]:
    """A configuration with a free metrics port, `data` beside it, and thresholds of 1."""
    runtime = {
        "maxConcurrentChecks": 4,
        "dataDir": "data",
        "metricsListen": f"127.0.0.1:{closed_port()}",
        **sections.pop("runtime", {}),
    }
    defaults = {"timeout": "3s", "failureThreshold": 1, "successThreshold": 1, **sections.pop("defaults", {})}
    return {"runtime": runtime, "defaults": defaults, "targets": targets, **sections}


@contextmanager
def checkvisor(
    folder: Path,
    config: dict[str, Any],
    *arguments: str,
    command: str = "up",
    environ: Mapping[str, str] | None = None,
    ready: bool = True,
) -> Iterator[Product]:
    """`checkvisor up`, answering. What the test has not ended is killed."""
    write_config(folder, config)
    mark = uuid.uuid4().hex
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CHECKVISOR_") and name not in _STEERING
    }
    bind = ("--bind", "127.0.0.1:0") if command == "up" else ()
    with open(folder / "stderr.log", "ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "supervisor", command, "-c", str(folder / "config.yaml"), *bind, *arguments],
            cwd=folder,
            env={**kept, **(environ or {}), MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=stderr,
            stderr=stderr,
            start_new_session=True,
        )
    product = Product(process, folder, mark, f"http://{config['runtime']['metricsListen']}/metrics")
    try:
        if ready:
            product.wait_for("supervisor.started")
            if command == "up":
                product.page_url = product.wait_for("up.ready")["page"]
                until(lambda: product.fetch("api/v1/targets")[1] not in ("[]", "[]\n"), 15, "targets on the page")
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


@contextmanager
def httpbin() -> Iterator[str]:
    """PyPI's httpbin under gunicorn, and its address without the slash."""
    port = closed_port()
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "gunicorn", "--bind", f"127.0.0.1:{port}", "--threads", "16", "--log-level",
         "error", "--no-control-socket", "httpbin:app"],
        stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip

    def answers() -> bool:
        with suppress(OSError, http.client.HTTPException):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            try:
                connection.request("GET", "/status/200")
                return connection.getresponse().status == 200
            finally:
                connection.close()
        return False

    try:
        until(answers, 20, "httpbin")
        yield f"http://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # it would wait for its slow answers
        process.wait(5)


def text_of(html: str) -> str:
    """The text of a page, its white space collapsed."""
    from lxml import html as parser

    return re.sub(r"\s+", " ", str(parser.fromstring(html).text_content()))
