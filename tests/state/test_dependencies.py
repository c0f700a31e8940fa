"""supervisor.state: when a dependency suppresses a `down` (design 8)."""

from __future__ import annotations

import pytest

from supervisor.model import StateName
from supervisor.state import (
    Dependency,
    Policy,
    dependencies_block,
    dependency_blocks,
    first_failure_ms,
    initial,
    transition,
    transitive,
)
from tests.make import make_result


def dependency(state: StateName = "up", last: int | None = 2000, *, enabled: bool = True) -> Dependency:
    return Dependency(state, last, interval_ms=10_000, timeout_ms=3_000, enabled=enabled)


@pytest.mark.parametrize(
    ("found", "now", "blocks"),
    [
        (dependency("down"), 5000, True),
        (dependency("failing"), 5000, True),
        (dependency("recovering"), 5000, False),
        (dependency("up", 2000), 5000, False),
        (dependency("degraded", 2000), 5000, False),
        (dependency("up", 1000), 5000, True),
        (dependency("up", 999), 5000, True),
        (dependency("up", 999), 1000 + 23_000, True),
        (dependency("up", 999), 1001 + 23_000, False),
        (dependency("pending", None), 5000, True),
        (dependency("pending", None), 90_000, False),
        (dependency("down", enabled=False), 5000, False),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_blocks(found: Dependency, now: int, *, blocks: bool) -> None:
    """Down, failing, or not known to be newer than the failure (at 1000), for 2 intervals + timeout at most."""
    assert dependency_blocks(found, 1000, now) is blocks
    assert dependencies_block([dependency(), found], 1000, now) is blocks


@pytest.mark.parametrize(
    ("back_ms", "blocks"), [(1, True), (23_000, True), (23_001, False), (3_600_000, False), (10**12, False)]
)
def test_s01_a_clock_set_back_suppresses_nothing_for_long(back_ms: int, *, blocks: bool) -> None:
    """The failure lies in the future then, and no result of the dependency looks newer: the wait ends all the same."""
    since = 10**12
    assert dependency_blocks(dependency("up", since - back_ms), since, since - back_ms) is blocks


def test_dependencies_are_transitive_near_ones_first() -> None:
    """app -> db -> disk, app -> router: all of them count, each once."""
    graph = {"app": ("db", "router"), "db": ("disk", "router"), "disk": ()}
    assert transitive(graph, "app") == ("db", "router", "disk")
    assert transitive(graph, "nobody") == ()


def test_the_first_failure_of_the_run_counts() -> None:
    """Not the latest one: a dependency checked in between has answered the question."""
    policy = Policy(failure_threshold=2)
    first = make_result(False, timestamp_ms=1000)
    assert first_failure_ms(initial(), first) == 1000
    failing = transition(initial(), first, policy).state
    second = make_result(False, timestamp_ms=2000)
    assert first_failure_ms(failing, second) == 1000
    down = transition(failing, second, policy).state
    assert first_failure_ms(down, make_result(False, timestamp_ms=3000)) == 1000
