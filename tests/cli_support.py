"""Runs the real command for the tests of the command line, and ends what they start."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any

import pytest

from supervisor.cli import main

COMMAND = (sys.executable, "-P", "-m", "supervisor")
UNSET = (
    "CHECKVISOR_CONFIG", "STATE_DIRECTORY", "RUNTIME_DIRECTORY", "NOTIFY_SOCKET", "WATCHDOG_USEC", "NO_COLOR",
    "CHECKVISOR_DEBUG",
)  # fmt: skip


def environment(**variables: str) -> dict[str, str]:
    """Ours without what steers the command, and with these."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("CHECKVISOR_") and name not in UNSET
    }
    return kept | variables


def checkvisor(
    *arguments: str | bytes | Path, cwd: Path, timeout: float = 60, **variables: str
) -> subprocess.CompletedProcess[str]:
    """The command, run to its end. There is never a traceback."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd, env=environment(**variables), stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout,
    )  # fmt: skip
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def call(*arguments: str | Path, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The same in this process: a tenth of the time, for what only reads and prints."""
    before, folder = dict(os.environ), Path.cwd()
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    os.environ.clear()
    os.environ.update({name: value for name, value in before.items() if name in environment()} | variables)
    os.chdir(cwd)
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = main([str(one) for one in arguments])
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)
    told = []
    for stream in (out, err):
        stream.flush()
        told.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(list(map(str, arguments)), status, *told)


def write(folder: Path, text: str, name: str = "config.yaml") -> Path:
    """A configuration file that nobody else may change, with its database beside it."""
    file = folder / name
    file.write_text(text)
    file.chmod(0o600)
    return file


def command_target(target_id: str, script: str, **fields: Any) -> str:
    """One target that runs a shell script, as an item of `targets:`."""
    extra = "".join(f"    {key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in fields.items())
    run = json.dumps({"exec": "sh", "args": ["-c", script]})
    return f"  - id: {target_id}\n    name: {target_id}\n    type: command\n    command: {run}\n{extra}"


def processes_of(pid: int) -> set[int]:
    """The process and all its descendants."""
    found, pending = set(), [pid]
    while pending:
        one = pending.pop()
        found.add(one)
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{task}/children") as listing:
                    pending += map(int, listing.read().split())
    return found


def alive(pid: int) -> bool:
    """Whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def until(condition: Callable[[], Any], seconds: float = 20, what: str = "the condition") -> Any:
    """Poll until the condition is true, and return what it gave."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not come true within {seconds} s")
        time.sleep(0.02)
    return found


class Running:
    """A command that goes on; its stderr is in a file."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log
        self.seen = {process.pid}

    def said(self) -> str:
        self.seen |= processes_of(self.process.pid)
        text = self.log.read_text()
        assert "Traceback" not in text, text
        return text

    def events(self, name: str) -> list[dict[str, Any]]:
        """The log events of this name so far."""
        lines = [line for line in self.said().splitlines() if line.startswith("{") and line.endswith("}")]
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def wait_for(self, name: str, seconds: float = 30, count: int = 1) -> dict[str, Any]:
        """The `count`th event of this name; fails at once when the command has ended without it."""

        def found() -> list[dict[str, Any]]:
            ended = self.process.poll() is not None
            events = self.events(name)
            if len(events) < count and ended:
                pytest.fail(f"ended with {self.process.returncode} before {name}:\n{self.said()}")
            return events[count - 1 :]

        try:
            event: dict[str, Any] = until(found, seconds, f"the event {name}")[0]
        except pytest.fail.Exception:
            print(self.said())
            raise
        return event

    def child(self, part: str) -> int:
        """The pid of the child whose command line has this in it."""
        for pid in processes_of(self.process.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if part in line and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1] == str(
                    self.process.pid
                ):
                    return pid
        pytest.fail(f"no child runs {part}")

    def end(self, number: int = signal.SIGTERM, seconds: float = 30) -> int:
        """Send the signal and return the exit status; nothing that it started is left."""
        self.said()
        self.process.send_signal(number)
        status = self.process.wait(seconds)
        self.all_gone()
        return status

    def all_gone(self, seconds: float = 15) -> None:
        until(lambda: not any(map(alive, self.seen)), seconds, "the end of all its processes")


@contextmanager
def running(*arguments: str | Path, cwd: Path, **variables: str) -> Iterator[Running]:
    """A command that goes on, killed with all that it started if the test did not end it."""
    log = cwd / "stderr.log"
    with open(log, "wb") as stderr, open(cwd / "stdout.log", "wb") as stdout:
        process = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=cwd, env=environment(**variables), stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr,
            start_new_session=True,
        )  # fmt: skip
    started = Running(process, log)
    try:
        yield started
    finally:
        left = started.seen | processes_of(process.pid)
        if process.poll() is None:
            process.kill()
        for pid in left - {process.pid}:
            if alive(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.wait(10)


def get(url: str) -> tuple[int, bytes]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.status, answer.read()
