"""The writer's process is killed at random moments: what was committed is there, once, and nothing contradicts it."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from supervisor import state
from supervisor.model import Incident, Item, TargetState
from supervisor.store import histogram
from supervisor.store.codec import failure_from
from supervisor.store.rollup import DAY_MS, HOUR_MS
from supervisor.store.write import Writer
from tests.make import make_failure, make_result
from tests.store.harness import make_feeder, query

POLICY = (2, 2)


def victim(directory: Path, seed: int, out: int) -> None:
    """Feed results as fast as can be, with rising numbers in statusDetail; say on `out` what is reported committed."""
    source = random.Random(seed)
    names = [f"t{n}" for n in range(5)]
    feeder = make_feeder(directory, *names)

    def committed(item: Item) -> None:
        assert item.result is not None
        os.write(out, f"{item.result.status_detail}\n".encode())

    feeder.writer._committed = committed
    feeder.open()
    number = seed * 1_000_000
    while True:
        for name in names:
            number += 1
            feeder.now += source.randrange(1, 40_000)
            letter = source.choice("uuugffff")
            feeder.feed(name, letter, events=True, status_detail=str(number), duration_ms=source.uniform(1, 500))
        if source.random() < 0.3:
            time.sleep(source.random() * 0.03)  # the pace of the load, not a wait


def start_victim(directory: Path, seed: int) -> tuple[int, int]:
    """A process of its own (forked: an interpreter's start takes longer than its life); its pid, and the pipe."""
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            victim(directory, seed, there)
        finally:
            os._exit(1)
    os.close(there)
    return child, here


def replay(directory: Path) -> tuple[dict[str, TargetState], dict[int, Incident], dict[str, int]]:
    """All results on disk, in order, through transition: the states, incidents and events that must be there."""
    states: dict[str, TargetState] = {}
    found: dict[int, Incident] = {}
    events: dict[str, int] = {}
    rows = query(
        directory,
        "SELECT t.key, r.timestamp, r.failure, r.warning FROM check_results AS r"
        " JOIN targets AS t ON t.id = r.target_id ORDER BY r.id",
    )
    next_id = 1
    for key, timestamp, failure, warning in rows:
        result = make_result(
            failure is None,
            target_id=key,
            timestamp_ms=timestamp,
            failure=failure_from(failure),
            warning=failure_from(warning),
        )
        after = state.transition(states.get(key, state.initial()), result, state.Policy(*POLICY, False, next_id))
        states[key] = after.state
        if after.incident is not None:
            found[after.incident.id] = after.incident
            next_id = max(next_id, after.incident.id + 1)
        events[key] = events.get(key, 0) + sum(1 for event in after.events if event.type != "target.result")
    return states, found, events


def check(directory: Path, told: list[str]) -> None:
    """Everything the database says fits together, and holds all that was reported as committed."""
    details = [row[0] for row in query(directory, "SELECT status_detail FROM check_results")]
    assert len(details) == len(set(details)), "a result is there twice"
    assert set(told) <= set(details), "a committed result is lost"
    states, incidents, events = replay(directory)
    writer = Writer(directory)
    loaded = writer.open()
    writer.flush_and_stop(5)
    assert {key: found for key, found in loaded.states.items() if key in states} == states
    stored = query(directory, "SELECT id, started_at, resolved_at, failures, notified, resolution FROM incidents")
    assert stored == [
        (one.id, one.started_ms, one.resolved_ms, one.failures, int(one.notified), one.resolution)
        for one in sorted(incidents.values(), key=lambda one: one.id)
    ]
    assert loaded.last_seq == {key: number for key, number in events.items() if number}
    assert query(directory, "SELECT count(*) FROM webhook_events") == [(sum(events.values()),)]
    check_sums(directory)


def check_sums(directory: Path) -> None:
    """Counters and rollups equal the results."""
    totals = query(directory, "SELECT sum(matched_total), sum(failed_total) FROM target_states")
    assert totals == query(directory, "SELECT sum(matched), sum(NOT matched) FROM check_results")
    for step in (HOUR_MS, DAY_MS):
        rows = query(
            directory,
            "SELECT target_id, bucket, matched, failed, histogram FROM rollups WHERE step = ? ORDER BY 1, 2",
            step,
        )
        raw = query(
            directory,
            "SELECT target_id, timestamp - timestamp % ?, sum(matched), sum(NOT matched) FROM check_results"
            " GROUP BY 1, 2 ORDER BY 1, 2",
            step,
        )
        assert [row[:4] for row in rows if row[2] + row[3]] == raw
        assert all(histogram.total(row[4]) == row[2] + row[3] for row in rows)


def rounds(directory: Path, number: int, seed: int) -> None:
    source = random.Random(seed)
    told: list[str] = []
    for n in range(number):
        child, pipe = start_victim(directory, n + 1)
        with os.fdopen(pipe, "rb") as lines:
            first = lines.readline()  # the first commit: from now on any moment will do
            time.sleep(source.random() * 0.3)  # the random moment
            os.kill(child, signal.SIGKILL)
            rest = lines.read()
        os.waitpid(child, 0)
        told += [line for line in (first + rest).decode().split("\n")[:-1] if line]
        if n % 10 == 9 or n == number - 1:
            check(directory, told)


def test_killed_at_random_moments(tmp_path: Path) -> None:
    """10 kills: nothing committed is lost or doubled, states and incidents equal a replay."""
    rounds(tmp_path, 10, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_200_times(tmp_path: Path) -> None:
    """200 kills of one database."""
    rounds(tmp_path, 200, seed=2)


def test_the_check_would_notice(tmp_path: Path) -> None:
    """The replay is no rubber stamp: one changed row fails it."""
    rounds(tmp_path, 1, seed=3)
    with closing(sqlite3.connect(tmp_path / "checkvisor.db")) as raw, raw:
        bad = json.dumps({"kind": "mismatch", "phase": "status", "path": "p", "message": make_failure().message})
        raw.execute(
            "UPDATE check_results SET matched = 0, failure = ?, warning = NULL WHERE id ="
            " (SELECT max(id) FROM check_results WHERE matched)",
            (bad,),
        )
    with pytest.raises(AssertionError):
        check(tmp_path, [])
