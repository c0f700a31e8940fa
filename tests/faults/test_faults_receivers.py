"""Receivers that are away, dead, or refuse; and what an operator can do about single events."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.e2e.product import configuration, until
from tests.faults.faults import ask, board, end, hook, kill, life, metric, reach, receiver
from tests.servers import closed_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def test_outage_of_a_receiver_beside_a_good_one(tmp_path: Path) -> None:
    """One receiver's port is closed for a while, with a kill of the supervisor in between; the other hears of 30
    targets going down and up at once. When the first is back it gets everything, each target in order, and its breaker
    closes by itself; nothing became a dead letter."""
    port = closed_port()
    with board() as site, receiver() as good:
        site.answers |= {f"t{n}": 200 for n in range(30)}
        hooks = [hook("good", good.url), hook("away", f"http://127.0.0.1:{port}/", retries=["0s", *["1s"] * 40])]
        targets = [site.target(f"t{n}") for n in range(30)]
        config = configuration(targets, webhooks=hooks, runtime={"maxConcurrentChecks": 8})
        with life(tmp_path, config) as product:
            until(lambda: product.rows("SELECT count(*) FROM target_states WHERE state = 'up'") == [(30,)], 30, "up")
            site.answers = dict.fromkeys(site.answers, 503)
            good.wait(30, 30)
            until(lambda: product.metrics()['checkvisor_webhook_endpoint_state{endpoint="away",state="open"}'] == 1, 20)
            kill(product)
        with life(tmp_path) as product:
            site.answers = dict.fromkeys(site.answers, 200)
            good.wait(60, 30)
            assert product.metrics()['checkvisor_webhook_pending_events{endpoint="away"}'] == 60
            with receiver(port) as away:
                away.wait(60, 60)
                until(lambda: metric(product, "webhook_pending_events") == 0, 20, "an empty queue")
                state = product.metrics()['checkvisor_webhook_endpoint_state{endpoint="away",state="closed"}']
                assert state == 1
                end(product)
        for got in (good, away):
            for name in site.answers:
                assert [event for event in got.story() if event[0] == name] == [(name, "down"), (name, "up")]
        assert product.rows("SELECT count(*) FROM webhook_dead_letters") == [(0,)]


def test_receiver_that_never_takes_anything(tmp_path: Path) -> None:
    """A receiver answers 404 to everything: after its tries each event is a dead letter that the page shows with the
    status, in the database and the metrics; the checks and the other receiver notice nothing."""
    with board() as site, receiver() as got:
        got.status = lambda path, _headers, _raw: 404 if path == "/bad" else 200
        site.answers["shop"] = 503
        hooks = [hook("good", f"{got.url}good"), hook("bad", f"{got.url}bad")]
        with life(tmp_path, configuration([site.target("shop")], webhooks=hooks), command="up") as product:
            got.wait(1, path="/good")
            site.answers["shop"] = 200
            got.wait(2, path="/good")
            letters = until(lambda: len(found := product.api("errors")["items"]) == 2 and found, 20, "dead letters")
            assert [(one["eventId"], one["endpoint"], one["outcome"]) for one in letters] == [
                ("shop:2", "bad", "failed"), ("shop:1", "bad", "failed"),
            ]  # fmt: skip
            assert "404" in letters[0]["error"]
            assert "/bad" not in letters[0]["url"]
            assert product.metrics()['checkvisor_webhook_deliveries_total{endpoint="bad",outcome="failed"}'] == 2
            assert metric(product, "webhook_pending_events") == 0
            assert "was not delivered" in product.page("targets/shop")
            product.stop(seconds=25)


def test_test_redeliver_and_skip(tmp_path: Path) -> None:
    """Over the control socket of the running supervisor: a sample arrives and takes no number; an event that waits for
    a broken receiver is skipped, visibly, and what is behind it goes on; a delivered one comes again with the same
    bytes and a mark."""
    with board() as site, receiver() as got:
        got.status = lambda path, _headers, _raw: 500 if path == "/ops" and broken else 200
        broken = True
        site.answers["shop"] = 503
        hooks = [hook("ops", f"{got.url}ops", retries=["0s", "1h"])]
        with life(tmp_path, configuration([site.target("shop")], webhooks=hooks)) as product:
            until(lambda: any(post.path == "/ops" for post in got.posts), 20, "the first attempt")
            assert oct((product.folder / "data" / "control.sock").stat().st_mode)[-3:] == "600"
            assert ask(product, command="ping")["result"] == {"pid": product.process.pid}
            broken = False
            sample = ask(product, command="test", target="shop", endpoint="ops")
            assert sample["ok"], sample
            assert sample["result"][0]["delivered"]
            assert [post.type for post in got.taken("/ops")] == ["target.test"]
            assert "seq" not in got.taken("/ops")[0].body or got.taken("/ops")[0].body["seq"] is None
            site.answers["shop"] = 200
            reach(product, "shop", "up")
            skipped = ask(product, command="skip", eventId="shop:1")
            assert skipped == {"ok": True, "result": ["ops"]}
            until(lambda: ("shop", "up") in got.story("/ops"), 20, "what was behind it")
            until(lambda: metric(product, "webhook_pending_events") == 0, 10, "an empty queue")
            again = ask(product, command="redeliver", eventId="shop:2")
            assert again["result"][0]["delivered"], again
            first, second = (post for post in got.taken("/ops") if post.event_id == "shop:2")
            assert first.raw == second.raw
            assert (first.headers.get("webhook-redelivery"), second.headers["webhook-redelivery"]) == (None, "true")
            late = ask(product, command="redeliver", eventId="shop:1")  # a dead letter can still be sent
            assert late["result"][0]["delivered"], late
            for wrong in (
                {"command": "test", "target": "nobody"},
                {"command": "skip", "eventId": "shop:99"},
                {"command": "x"},
            ):
                answer = ask(product, **wrong)
                assert answer["ok"] is False
                assert answer["error"]
            end(product)
        assert product.rows("SELECT seq, outcome FROM webhook_dead_letters") != []
        assert product.rows("SELECT last_seq FROM webhook_streams WHERE stream = 'shop'") == [(2,)]


def test_dead_man_ping(tmp_path: Path) -> None:
    """`runtime.heartbeatUrl` is asked soon after the start and while the loop turns; a stopped process pings no more,
    so somebody else notices. A service that is away is counted and costs nothing."""
    with board() as site, receiver() as got:
        runtime = {"heartbeatUrl": f"{got.url}ping/uuid"}
        config = configuration([site.target("shop")], runtime=runtime)
        with life(tmp_path, config) as product:
            until(lambda: len(got.taken("/ping/uuid")) == 1, 20, "the ping")
            os.kill(product.process.pid, signal.SIGSTOP)
            os.kill(product.process.pid, signal.SIGCONT)
            end(product)
        config["runtime"]["heartbeatUrl"] = f"http://127.0.0.1:{closed_port()}/"
        with life(tmp_path, config) as product:
            until(lambda: metric(product, "heartbeat_failures_total") == 1, 20, "the count")
            reach(product, "shop", "up")
            end(product)
        assert len(got.taken("/ping/uuid")) == 1
