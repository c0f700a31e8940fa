"""What receivers are told around restarts, pauses, removals, dependencies and maintenance: each change once."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import configuration, stays, until
from tests.faults.faults import Board, board, end, hook, kill, life, reach, receiver, state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def _one(site: Board, url: str, *names: str, **sections: Any) -> dict[str, Any]:
    return configuration([site.target(name) for name in names], webhooks=[hook("ops", url)], **sections)


def test_restart_while_down_does_not_tell_again(tmp_path: Path) -> None:
    """Down, clean restart, still down, kill, still down: the user gets one `target.down`, the page shows one incident
    that goes on; then one `target.up` with the length of the whole."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        with life(tmp_path, _one(site, got.url, "shop")) as product:
            got.wait(1)
            end(product)
        for _ in range(2):
            with life(tmp_path) as product:
                before = len(product.stored("shop"))
                until(lambda: len(product.stored("shop")) >= before + 3, 20, "results")  # noqa: B023 - called at once
                kill(product)
        with life(tmp_path) as product:
            site.answers["shop"] = 200
            got.wait(2)
            end(product)
            incidents = product.rows("SELECT started_at, resolved_at, failures, notified, resolution FROM incidents")
            rows = product.stored("shop")
        assert got.story() == [("shop", "down"), ("shop", "up")]
        started, resolved = rows[0][0], next(row[0] for row in rows if row[2])
        assert incidents == [(started, resolved, sum(not row[2] for row in rows), 1, "recovered")]
        assert got.taken()[-1].body["data"][0]["downForMs"] == resolved - started


def test_down_crash_recovery_sends_up(tmp_path: Path) -> None:
    """Down is told, the supervisor is killed, the target recovers while nobody looks: the next start sends `target.up`
    and closes the incident; no alarm stays up for ever."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        with life(tmp_path, _one(site, got.url, "shop")) as product:
            got.wait(1)
            kill(product)
        site.answers["shop"] = 200
        with life(tmp_path) as product:
            got.wait(2)
            end(product)
            assert product.rows("SELECT resolution FROM incidents") == [("recovered",)]
        assert got.story() == [("shop", "down"), ("shop", "up")]


@pytest.mark.parametrize("how", ["running", "stopped", "killed"])
@pytest.mark.parametrize("reason", ["removed", "paused"])
def test_end_of_a_target_that_is_down(tmp_path: Path, how: str, reason: str) -> None:
    """A target that is down is taken out of the file or paused, with the supervisor running, stopped or killed: the
    receiver gets `target.closed` with the reason and the name, once; the incident has that resolution; back in the
    file it starts at pending and is told anew. Its history stays."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        config = _one(site, got.url, "shop", "other")
        config["targets"][0]["name"] = "The shop"
        rest = [config["targets"][1]]
        paused = {**config["targets"][0], "enabled": False}
        later = {**config, "targets": rest if reason == "removed" else [paused, *rest]}
        with life(tmp_path, config) as product:
            got.wait(1)
            results = len(product.stored("shop"))
            if how == "running":
                assert product.reload(later)
                got.wait(2)
            if how == "killed":
                kill(product)
            else:
                end(product)
        with life(tmp_path, later) as product:
            got.wait(2)
            reach(product, "other", "up")
            end(product)
        with life(tmp_path) as product:  # nothing is told again
            before = len(product.stored("other"))
            until(lambda: len(product.stored("other")) > before, 20, "a result")
            end(product)
        assert got.story() == [("shop", "down"), ("shop", "closed")]
        closed = got.taken()[-1].body
        assert closed["success"] is True
        assert [closed["data"][0][key] for key in ("name", "checkType", "reason")] == ["The shop", "http", reason]
        assert product.rows("SELECT resolution, notified FROM incidents") == [(reason, 1)]
        assert len(product.stored("shop")) >= results
        with life(tmp_path, config) as product:
            got.wait(3)
            end(product)
        assert got.story()[2:] == [("shop", "down")]
        assert len(product.rows("SELECT id FROM incidents")) == 2


def test_dependency_down_hides_what_depends_on_it(tmp_path: Path) -> None:
    """Router and shop fail together: the user hears of the router only, the page shows both down. The router is back
    and the shop is not: now the shop's `down` comes, with the time it really began; and nothing is told twice over a
    kill in between."""
    with board() as site, receiver() as got:
        site.answers |= {"router": 200, "shop": 200}
        config = _one(site, got.url, "router", "shop")
        config["targets"][1]["dependsOn"] = ["router"]
        with life(tmp_path, config) as product:
            reach(product, "router", "up")
            reach(product, "shop", "up")
            site.answers |= {"router": 503, "shop": 503}
            reach(product, "shop", "down")
            got.wait(1)
            kill(product)
        with life(tmp_path) as product:
            before = len(product.stored("shop"))
            until(lambda: len(product.stored("shop")) >= before + 3, 20, "more failures")
            assert got.story() == [("router", "down")]
            site.answers["router"] = 200
            got.wait(3)
            site.answers["shop"] = 200
            got.wait(4)
            end(product)
            first = next(row[0] for row in product.stored("shop") if not row[2])
        assert got.story() == [("router", "down"), ("router", "up"), ("shop", "down"), ("shop", "up")]
        down = next(post.body for post in got.taken() if post.event_id == "shop:1")
        assert down["data"][0]["since"] == _rfc3339(first)


def test_maintenance_hides_until_it_ends(tmp_path: Path) -> None:
    """A target fails in its maintenance window: it is checked and shown as down, nobody is woken; what recovers within
    the window is never told, what is still down when it ends is told then, with the time it really began."""
    with board() as site, receiver() as got:
        site.answers |= {"short": 503, "long": 503, "other": 503}
        ends = int(time.time()) + 20
        window = {"targets": ["short", "long"], "start": "2020-01-01T00:00:00Z", "end": _rfc3339(ends * 1000)}
        with life(tmp_path, _one(site, got.url, "short", "long", "other", maintenance=[window])) as product:
            reach(product, "short", "down")
            reach(product, "long", "down")
            assert time.time() < ends, "the machine was too slow for this test"
            site.answers["short"] = 200
            reach(product, "short", "up")
            got.wait(2, 40)
            site.answers["long"] = 200
            got.wait(3)
            end(product)
            first = product.stored("long")[0][0]
            assert product.rows(
                "SELECT t.key, i.notified FROM incidents AS i JOIN targets AS t ON t.id = i.target_id ORDER BY 1"
            ) == [("long", 1), ("other", 1), ("short", 0)]
            marked = product.rows(
                "SELECT max(timestamp) FROM check_results WHERE maintenance AND target_id ="
                " (SELECT id FROM targets WHERE key = 'long')"
            )
            assert marked[0][0] < ends * 1000
        assert got.story() == [("other", "down"), ("long", "down"), ("long", "up")]
        down = next(post.body for post in got.taken() if post.event_id == "long:1")
        assert down["data"][0]["since"] == _rfc3339(first)
        assert down["timestamp"] >= _rfc3339(ends * 1000)


def test_reminders_keep_their_time_over_a_kill(tmp_path: Path) -> None:
    """With `reminderInterval: 1m` a target that stays down is told again after a minute, not at each restart; then up
    is told once."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        config = _one(site, got.url, "shop")
        config["webhooks"][0] |= {"reminderInterval": "1m", "events": ["down", "up", "reminder"]}
        with life(tmp_path, config) as product:
            got.wait(1)
            kill(product)
        with life(tmp_path) as product:
            stays(10, lambda: len(got.story()) == 1, "no reminder before its time")
            got.wait(2, 80)
            reminder = got.taken()[-1].body
            assert (reminder["success"], reminder["data"][0]["reminder"]) == (False, 1)
            site.answers["shop"] = 200
            got.wait(3)
            end(product)
        assert got.story() == [("shop", "down"), ("shop", "reminder"), ("shop", "up")]
        told = {post.type: post.at for post in reversed(got.taken())}
        assert 55 < told["target.reminder"] - told["target.down"] < 75


def test_events_of_the_supervisor_itself(tmp_path: Path) -> None:
    """Who asks for them hears of each start, clean stop and refused reload, in order and numbered on through a kill;
    a kill is seen as a start without a stop before it."""
    with board() as site, receiver() as got:
        config = _one(site, got.url, "shop")
        config["webhooks"].append(hook("me", f"{got.url}me", events=["started", "stopped", "reloadFailed"]))
        with life(tmp_path, config) as product:
            got.wait(1, path="/me")
            assert product.reload("targets: [") is False
            got.wait(2, path="/me")
            product.write(config)
            kill(product)
        with life(tmp_path) as product:
            got.wait(3, path="/me")
            end(product)
            assert len(got.story("/me")) == 4, "the stop is told before the end, not at the next start"
        bodies = [post.body for post in got.taken("/me")]
        assert [body["type"] for body in bodies] == [
            "supervisor.started", "supervisor.reloadFailed", "supervisor.started", "supervisor.stopped",
        ]  # fmt: skip
        assert [body["eventId"] for body in bodies] == [f"_supervisor:{seq}" for seq in range(1, 5)]
        assert bodies[1]["success"] is False
        assert "config.yaml:" in bodies[1]["error"]
        assert bodies[0]["data"][0]["targets"] == 1
        assert state(product, "shop") == "up"
        assert got.story() == []


def _rfc3339(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{timestamp_ms % 1000:03d}Z"
