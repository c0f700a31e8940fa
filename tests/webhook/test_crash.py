"""Killed at every point around each commit and the POST: what W14 allows, and nothing else."""

from __future__ import annotations

import multiprocessing
import random
import signal
import sqlite3
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.webhook.life import POINTS, STREAMS, live, live_until_killed
from tests.webhook.rig import Got, Receiver, Reply, receiver

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.webhook.life"])
_TOTAL = 4


def one_life(function: Any, *arguments: Any, kill_after_s: float | None = None) -> int:
    child = _context.Process(target=function, args=arguments)
    child.start()
    if kill_after_s is not None:
        child.join(kill_after_s)
        child.kill()
    child.join(100)
    code = child.exitcode
    child.close()
    assert code is not None
    return code


def fails_sometimes(got: Receiver) -> Any:
    """Every seventh event or so fails once: not so many that the breaker opens."""
    failed: set[str] = set()

    def answer(seen: Got) -> Reply:
        event_id = seen.body["eventId"]
        if zlib.crc32(event_id.encode()) % 7 == 0 and event_id not in failed:
            failed.add(event_id)
            return Reply(500)
        delivered.append((event_id, seen.raw))
        return Reply(200)

    delivered: list[tuple[str, bytes]] = []
    got.default = answer
    return delivered


def check(delivered: list[tuple[str, bytes]], accepted: dict[str, int], crashes: int) -> None:
    """Delivered = accepted, in order; duplicates are at most one a crash and stream, with identical bytes."""
    bodies: dict[str, bytes] = {}
    last: dict[str, int] = {}
    again = 0
    for event_id, raw in delivered:
        stream, seq = event_id.split(":")
        assert int(seq) >= last.get(stream, 0), f"{event_id} came after {last[stream]}"
        last[stream] = int(seq)
        again += event_id in bodies
        assert bodies.setdefault(event_id, raw) == raw, f"{event_id} came with other bytes"
    for stream, highest in accepted.items():
        assert {f"{stream}:{seq}" for seq in range(1, highest + 1)} <= set(bodies)
    assert again <= crashes * len(accepted)


@pytest.mark.parametrize("nth", [1, 3])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at_a_point(tmp_path: Path, point: str, nth: int) -> None:
    """A life that ends by SIGKILL at this point, and one that finishes its work."""
    with receiver() as got:
        delivered = fails_sometimes(got)
        assert one_life(live, str(tmp_path), got.url, point, nth, _TOTAL) == -signal.SIGKILL
        assert one_life(live, str(tmp_path), got.url, "", 0, _TOTAL) == 0
        check(delivered, dict.fromkeys(STREAMS, _TOTAL), 1)


@pytest.mark.slow
def test_killed_at_random_for_a_hundred_times(tmp_path: Path) -> None:
    """Every accepted event has arrived in the end, in order, duplicates only with identical bytes."""
    with receiver() as got:
        delivered = fails_sometimes(got)
        chance = random.Random(6)
        for _ in range(100):
            one_life(live_until_killed, str(tmp_path), got.url, 30.0, kill_after_s=chance.uniform(0.2, 1.2))
        assert one_life(live, str(tmp_path), got.url, "", 0, 0) == 0
        with sqlite3.connect(tmp_path / "checkvisor.db") as connection:
            accepted = dict(connection.execute("SELECT stream, last_seq FROM webhook_streams"))
        connection.close()
        check(delivered, accepted, 100)


def test_nothing_is_accepted_twice(tmp_path: Path) -> None:
    """A life without a crash sends each event once."""
    with receiver() as got:
        delivered = fails_sometimes(got)
        assert one_life(live, str(tmp_path), got.url, "", 0, _TOTAL) == 0
        check(delivered, dict.fromkeys(STREAMS, _TOTAL), 0)
