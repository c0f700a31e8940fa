"""Memory cgroups, v1 or v2, that a test puts running processes into: the kernel kills in them, and nowhere else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.product import until

_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class MemoryGroup:
    """A memory cgroup with a limit."""

    folder: Path

    def take(self, pid: int) -> None:
        """Move a process into it. What the process uses from now on counts."""
        (self.folder / "cgroup.procs").write_text(str(pid))

    def killed(self) -> int:
        """How many processes of it the kernel has killed for their memory."""
        for name in ("memory.events", "memory.oom_control"):
            with suppress(FileNotFoundError):
                pairs = dict(line.split() for line in (self.folder / name).read_text().splitlines())
                return int(pairs["oom_kill"])
        pytest.fail(f"{self.folder} has neither memory.events nor memory.oom_control")

    def pids(self) -> list[int]:
        return [int(pid) for pid in (self.folder / "cgroup.procs").read_text().split()]


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """A memory cgroup with this limit and no swap. What lives in it at the end is moved to the group above. Skips the
    test where none can be made."""
    second = (_CGROUPS / "cgroup.controllers").exists()
    parent = _CGROUPS if second else _CGROUPS / "memory"
    group = MemoryGroup(parent / f"checkvisor-test-{os.getpid()}")
    try:
        group.folder.mkdir()
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made in {parent}: {error.strerror}")
    try:
        try:
            (group.folder / ("memory.max" if second else "memory.limit_in_bytes")).write_text(str(limit_bytes))
        except OSError as error:
            pytest.skip(f"no memory limit can be set in {group.folder}: {error.strerror}")
        with suppress(OSError):  # without swap accounting there is nothing to switch off
            (group.folder / ("memory.swap.max" if second else "memory.memsw.limit_in_bytes")).write_text(
                "0" if second else str(limit_bytes)
            )
        yield group
    finally:
        for pid in group.pids():
            with suppress(OSError):  # it has ended meanwhile
                (parent / "cgroup.procs").write_text(str(pid))
        until(lambda: not group.pids(), 10, "an empty cgroup")
        group.folder.rmdir()
