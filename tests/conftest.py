"""What every test gets: no proxy variables, and a failure for the children and threads it leaves behind."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# how fast an example runs is a matter of the machine, and no test is about it
settings.register_profile("checkvisor", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("checkvisor")

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]

# Root does not run the commands of a configuration that its group may change. A checkout made with umask 002 is as good
# as any other: the tests take that right from the files they load, and give it to none that they write.
os.umask(0o022)
_ROOT = Path(__file__).parent.parent
for _file in (_ROOT / "config.yaml", *(_ROOT / "tests" / "data" / "config").rglob("*.*")):
    if (_mode := _file.stat().st_mode) & 0o022 and _file.stat().st_uid == os.getuid():
        _file.chmod(_mode & ~0o022)


def _children() -> set[int]:
    """Our living or unreaped child processes."""
    found: set[int] = set()
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as listing:
                found.update(int(pid) for pid in listing.read().split())
        except FileNotFoundError:
            continue  # the thread ended meanwhile
    return found


def _kind(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _reap_adopted(pids: set[int]) -> None:
    """A test that ran a command check made this process a subreaper: what others leave becomes our child when it has
    ended, and nobody else waits for it."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue  # somebody did


def _ours(pids: set[int]) -> dict[int, str]:
    shown = {pid: _kind(pid) for pid in pids}
    # multiprocessing's own helpers live as long as the process; that is what they are for
    return {pid: text for pid, text in shown.items() if "resource_tracker" not in text and "forkserver" not in text}


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a child process or a non-daemon thread behind."""
    children, threads = _children(), set(threading.enumerate())
    yield
    deadline = time.monotonic() + 3
    while True:
        _reap_adopted(_children() - children)
        left = _ours(_children() - children)
        alive = [t.name for t in threading.enumerate() if t not in threads and t.is_alive() and not t.daemon]
        if not left and not alive:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: processes {left}, threads {alive}")
        time.sleep(0.02)  # the poll of a condition with a deadline


@pytest.fixture
def wait_until() -> object:
    """`wait_until(condition, seconds=5, what="")` polls until the condition is true, or fails the test."""

    def wait(condition, seconds: float = 5.0, what: str = "the condition") -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                pytest.fail(f"{what} did not come true within {seconds} s")
            time.sleep(0.01)

    return wait
