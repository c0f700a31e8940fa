"""What the kernel says of a program: CPU and memory of a process and everything below it; and which machine this is.

Also the way in which a benchmark's processes end with it, even if it is killed.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import resource
import signal
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


def die_with_parent() -> None:
    """For a new process (`preexec_fn`): SIGTERM when the thread that started it has ended."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def end_cleanly() -> None:
    """From now on SIGTERM ends this process by SystemExit: what it started is ended, its directories are removed."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                children[int(_stat(int(entry.name))[1])].append(int(entry.name))
    found, waiting = [pid], [pid]
    while waiting:
        below = children[waiting.pop()]
        found.extend(below)
        waiting.extend(below)
    return found


def cpu_s(pid: int) -> float:
    """User and system seconds of the whole family, with what it has waited for: ended commands count."""
    total = 0.0
    for one in family(pid):
        with suppress(OSError):  # it ended meanwhile: its parent has its time
            total += live_cpu_s(one)
    return total


def live_cpu_s(pid: int) -> float:
    """User and system seconds of one living process and of the children it has waited for.

    Its own are read from its CPU clock, to the nanosecond (clock_getcpuclockid(3)): /proc rounds each process down to
    10 ms, and a worker of a few checks a second uses less. Ended children stand in /proc only, as one sum.
    """
    return time.clock_gettime(~pid << 3 | 2) + sum(int(value) for value in _stat(pid)[13:15]) * TICK_S


def own_cpu_s() -> float:
    """User and system seconds of this process and of the children it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on: index 0 is the state, 1 the parent, 13 and 14 the children."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def pss_mb(pid: int) -> float:
    """Proportional set size of one process."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0


def program() -> str:
    """A digest of the product's sources: each process of a run imports what lies there when it starts."""
    root = Path(__file__).parents[1]
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(path for name in ("supervisor", "webui") for path in (root / name).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(root)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def machine() -> dict[str, str | int | float]:
    """Which machine this is, and how busy it is now."""
    cpu = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.partition(":")[2].strip()
    debian = Path("/etc/debian_version")
    return {
        "cpu": cpu,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "debian": debian.read_text().strip() if debian.exists() else "no",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load_before": round(os.getloadavg()[0], 2),
    }
