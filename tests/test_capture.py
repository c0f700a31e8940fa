"""Reading several streams under one cap and one deadline, with real pipes and processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from supervisor.capture import Capture


@contextmanager
def captured(script: str, limit_bytes: int = 1_000_000) -> Iterator[Capture]:
    out_read, out_write = os.pipe()
    err_read, err_write = os.pipe()
    with subprocess.Popen(["sh", "-c", script], stdout=out_write, stderr=err_write, start_new_session=True) as process:
        os.close(out_write)
        os.close(err_write)
        capture = Capture((out_read, err_read), os.pidfd_open(process.pid), limit_bytes)
        try:
            yield capture
        finally:
            capture.close()
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            with suppress(ChildProcessError):  # orphans too, if this process has become a subreaper
                while os.waitpid(-process.pid, 0):
                    pass


def in_s(seconds: float) -> float:
    return time.monotonic() + seconds


@pytest.mark.parametrize("size", [0, 1, 65536, 65537, 3_000_000])
def test_everything_is_read(size: int) -> None:
    """Both streams whole, whatever their size."""
    with captured(f"head -c {size} /dev/zero; head -c {size} /dev/zero >&2; echo end", 10_000_000) as capture:
        assert capture.read(in_s(20)) == "done"
        assert capture.content(0) == bytes(size) + b"end\n"
        assert capture.content(1) == bytes(size)
        assert capture.content(0) is capture.content(0), "joined once"


def test_the_cap_is_over_both_streams_and_exact() -> None:
    """Exactly the cap is allowed, one byte more is not."""
    script = "printf 12345; printf 12345 >&2"
    with captured(script, 10) as capture:
        assert capture.read(in_s(10)) == "done"
    with captured(script, 9) as capture:
        assert capture.read(in_s(10)) == "cap"
        assert capture.over in (0, 1)
        assert capture.size == 10


def test_memory_stays_at_the_cap() -> None:
    """An endless writer is not read on."""
    with captured("yes", 200_000) as capture:
        assert capture.read(in_s(10)) == "cap"
        assert capture.over == 0
        assert len(capture.content(0)) <= 200_000 + 65536


def test_the_deadline_ends_it() -> None:
    """What came until then is kept."""
    with captured("printf begun; sleep 20") as capture:
        begun = time.monotonic()
        assert capture.read(in_s(0.3)) == "deadline"
        assert time.monotonic() - begun < 1.3
        assert capture.content(0) == b"begun"


def test_a_held_stream_is_left_half_a_second_after_the_end() -> None:
    """A grandchild that holds the pipe and one that goes on writing: the process has ended, that counts."""
    with captured("(while :; do echo more; sleep 0.05; done) & echo hi") as capture:
        begun = time.monotonic()
        assert capture.read(in_s(10)) == "done"
        assert 0.4 < time.monotonic() - begun < 1.5
        assert b"hi" in capture.content(0)


def test_a_held_stream_makes_no_timeout_of_an_end_in_time() -> None:
    """Ended just before the deadline: done, not late."""
    with captured("sleep 20 & sleep 0.3") as capture:
        assert capture.read(in_s(0.5)) == "done"


def test_closed_streams_are_no_end() -> None:
    """The process decides."""
    with captured("exec >&- 2>&-; sleep 0.4") as capture:
        begun = time.monotonic()
        assert capture.read(in_s(10)) == "done"
        assert time.monotonic() - begun > 0.3


@pytest.mark.parametrize(("size", "limit"), [(0, 5), (3, 5), (100_000, 5), (200_000, 70_000)])
def test_the_tail_is_the_end_of_a_stream(size: int, limit: int) -> None:
    """The last bytes, from several reads too."""
    with captured(f"head -c {size} /dev/zero; printf end") as capture:
        capture.read(in_s(10))
        assert capture.tail(0, limit) == (bytes(size) + b"end")[-limit:]
        assert capture.tail(1, limit) == b""
