"""The whole supervisor is killed at random moments while its targets flap."""

from __future__ import annotations

import os
import random
import sqlite3
import time
import zlib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import configuration, shell, until
from tests.faults.faults import Board, Receiver, board, end, hook, kill, life, metric, receiver
from tests.faults.replay import assert_replayed, assert_told, replay

OPS = frozenset({"target.down", "target.up"})
ALL = OPS | {"target.degraded", "target.recovered", "target.result"}
FLAPS = "test -e calm || [ $(( ($(date +%s) / 3 + {n}) % 3 )) != 0 ]"


def _wobble(name: str) -> tuple[int, str]:
    """Another answer every 2 s or so: fine, slow, or broken."""
    number = zlib.crc32(f"{name} {int(time.time() / 2 + zlib.crc32(name.encode()) % 7 / 7)}".encode()) % 10
    return (503, "no") if number < 5 else (200, "slow" if number < 7 else "fine")


def _sometimes_fails(_path: str, _headers: dict[str, str], raw: bytes) -> int:
    """One event of 13 is never taken, one of 9 not the first time."""
    sort = zlib.crc32(raw)
    if sort % 13 == 0:
        return 422
    if sort % 9 == 0 and sort not in _refused:
        _refused.add(sort)
        return 500
    return 200


_refused: set[int] = set()


def _configuration(targets: int, site: Board, got: Receiver) -> dict[str, Any]:
    made = []
    for n in range(targets):
        fields: dict[str, Any] = {"retryInterval": "1s"}
        if n % 2:
            fields |= {"failureThreshold": 2, "successThreshold": 2}
        if n % 10 == 0:
            fields["notify"] = ["ops", "all"]
        if n % 10 == 5:
            made.append(shell(f"t{n}", FLAPS.format(n=n), **fields, command={"cwd": "."}))
        else:
            made.append(site.target(f"t{n}", **fields, warn={"body": [{"contains": "fine"}]}))
    hooks = [
        hook("ops", f"{got.url}ops"),
        hook("all", f"{got.url}all", default=False, events=["down", "up", "degraded", "recovered", "result"]),
    ]
    return configuration(made, webhooks=hooks, runtime={"maxConcurrentChecks": 12 if targets > 50 else 4})


def _committed(database: Path, after: int) -> dict[int, tuple[int, int]]:
    """Results beyond an id, read beside the supervisor without touching a file."""
    with suppress(sqlite3.OperationalError), closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as raw:
        rows = raw.execute("SELECT id, target_id, timestamp FROM check_results WHERE id > ?", (after,)).fetchall()
        return {row[0]: (row[1], row[2]) for row in rows}
    return {}


def _lives(tmp_path: Path, targets: int, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    committed: dict[int, tuple[int, int]] = {}
    during_start = 0
    with board() as site, receiver() as got:
        site.wobble, got.status = _wobble, _sometimes_fails
        config = _configuration(targets, site, got)
        begun = time.monotonic()
        for number in range(kills):
            early = number % 5 == 4
            with life(tmp_path, config if number == 0 else None, ready=not early) as product:
                if early:
                    time.sleep(chance.uniform(0.0, 3.0))  # the random moment
                    during_start += not product.events("supervisor.started")
                else:
                    time.sleep(chance.uniform(0.0, 1.5))  # the random moment, and what was on disk before
                    committed |= _committed(product.database, max(committed, default=0))
                    time.sleep(chance.uniform(0.0, 0.7))
                kill(product)
        took = time.monotonic() - begun
        (tmp_path / "calm").touch()
        site.wobble = lambda _name: (200, "fine")
        with life(tmp_path) as product:
            until(lambda: not product.rows("SELECT 1 FROM target_states WHERE state != 'up' LIMIT 1"), 60, "all up")
            until(lambda: metric(product, "webhook_pending_events") == 0, 240, "an empty queue")
            stopped = end(product)
            assert (stopped["lost"], stopped["unwritten"], stopped["dropped_events"]) == (0, 0, 0)
            rows = product.rows("SELECT id, target_id, timestamp FROM check_results")
            stored = {row[0]: (row[1], row[2]) for row in rows}
            assert product.rows("SELECT count(*) FROM webhook_events WHERE type = 'target.result'") == [(0,)]
        data = tmp_path / "data"
        wanted = {f"t{n}": {"ops": OPS, **({"all": ALL} if n % 10 == 0 else {})} for n in range(targets)}
        thresholds = {f"t{n}": (2, 2) if n % 2 else (1, 1) for n in range(targets)}
        found = replay(data, thresholds, wanted)
        assert_replayed(data, found)
        assert {key: stored.get(key) for key in committed} == committed, "a committed result is lost or changed"
        figures = []
        for endpoint in ("ops", "all"):
            posts = [(post.event_id, post.type, post.raw) for post in got.taken(f"/{endpoint}")]
            told = assert_told(data, found, wanted, endpoint, posts, most_again=4 * kills)
            figures.append("{}: {} delivered, {} dead letters, {} came again".format(endpoint, *told))
        print(
            f"{kills} kills ({during_start} of them during the start) in {took:.0f} s, {targets} targets: {len(stored)}"
            f" results, {len(committed)} of them seen before a kill, {len(found.incidents)} incidents; "
            + "; ".join(figures)
        )
        assert len(found.incidents) > targets / 4
        assert during_start or kills < 20


@pytest.mark.timeout(240)
def test_killed_5_times_while_targets_flap(tmp_path: Path) -> None:
    """5 SIGKILLs with 20 flapping targets. The user sees a page that goes on after each restart and every alarm in its
    order, at worst one twice; no committed result is lost or doubled, and nothing contradicts the results."""
    _lives(tmp_path, 20, 5, seed=7)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_killed_many_times_while_many_targets_flap(tmp_path: Path) -> None:
    """30 SIGKILLs with 100 flapping targets: the same. CHECKVISOR_KILLS=100 makes it 100 with 200, in a quarter of an
    hour."""
    kills = int(os.environ.get("CHECKVISOR_KILLS", "30"))
    _lives(tmp_path, 200 if kills >= 100 else 100, kills, seed=8)
