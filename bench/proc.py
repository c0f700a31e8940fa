"""What /proc says of a program: CPU and memory of a process and everything below it."""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it ended meanwhile
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                children[int(fields[1])].append(int(entry.name))
    found, waiting = [pid], [pid]
    while waiting:
        below = children[waiting.pop()]
        found.extend(below)
        waiting.extend(below)
    return found


def cpu_s(pid: int) -> float:
    """User and system seconds of the whole family, with what it has waited for."""
    total = 0.0
    for one in family(pid):
        with suppress(OSError):  # it ended meanwhile: its parent has its time
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            total += sum(int(value) for value in fields[11:15]) * TICK_S
    return total


def pss_mb(pid: int) -> float:
    """Proportional set size of one process."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
