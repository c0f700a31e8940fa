"""Memory of one check against bodies that try to fill it, measured in a process of its own."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from tests.servers import OK, redirect, script_server

MB = 1024 * 1024

PROBE = """
import json, resource, sys
from supervisor.expect.spec import Contains, HttpExpect, TextRule
from tests.checkers.probe import check
url, cap = sys.argv[1], int(sys.argv[2])
small = sys.argv[3]
check(small)  # imports, caches and buffers are no growth
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
result = check(url, max_body_bytes=cap, timeout_s=30)
failure = result.failure
print(json.dumps({"growth": peak() - before, "path": failure.path if failure else None, "matched": result.matched}))
"""


def bomb(size_mb: int) -> bytes:
    """A gzip stream of so many MB of zeros."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    block = bytes(MB)
    return b"".join(compressor.compress(block) for _ in range(size_mb)) + compressor.flush()


def measured(steps: Sequence[Any], cap: int) -> dict[str, Any]:
    """What the check of this answer came to, and how far its process grew."""

    def script(request: bytes, _number: int) -> Sequence[Any]:
        if b" /small " in request:
            return [OK + b"\r\nok"]
        return [OK + b"\r\nok"] if b" /b " in request else steps

    with script_server(script) as server:
        arguments = [server.url, str(cap), server.url + "small"]
        done = subprocess.run([sys.executable, "-c", PROBE, *arguments], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("cap", [1 * MB, 100 * MB])
def test_gzip_bomb(cap: int) -> None:
    """300 MB of zeros end at the cap: the process grows by less than the cap + 30 MB."""
    data = bomb(300)
    found = measured([OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(data), data], cap)
    assert found["path"] == "http.maxBodyBytes"
    assert found["growth"] < cap + 30 * MB, found


def test_nested_gzip_bomb() -> None:
    """A bomb within a bomb is undone in pieces too."""
    data = gzip.compress(bomb(300))
    found = measured([OK + b"Content-Encoding: gzip, gzip\r\n\r\n", data], 1 * MB)
    assert found["path"] == "http.maxBodyBytes"
    assert found["growth"] < 31 * MB, found


def test_endless_body() -> None:
    """A body without end stops at the cap."""
    found = measured([OK + b"\r\n", *[bytes(MB)] * 200], 20 * MB)
    assert found["path"] == "http.maxBodyBytes"
    assert found["growth"] < 50 * MB, found


def test_redirect_hop_with_endless_body() -> None:
    """A redirect's body is not read at all."""
    head = redirect(b"/b").replace(b"Content-Length: 0\r\n", b"")
    found = measured([head, *[bytes(MB)] * 200], 20 * MB)
    assert found["matched"]
    assert found["growth"] < 30 * MB, found


def test_endless_headers() -> None:
    """Headers have a limit of their own."""
    found = measured([OK, *[b"X: " + b"x" * MB] * 200], 20 * MB)
    assert found["path"] == "http.headers"
    assert found["growth"] < 30 * MB, found


def test_a_body_just_under_the_cap() -> None:
    """A body that fits is held once while it is read, not twice."""
    found = measured([OK + b"\r\n", b"ok", *[b"x" * MB] * 39], 40 * MB)
    assert found["matched"], found
    assert found["growth"] < 70 * MB, found
