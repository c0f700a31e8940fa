"""The configuration changes while checks run: S15, S17, and 100 edits in a row."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import checkvisor, children, configuration, shell, state_of, text_of, until

pytestmark = pytest.mark.slow


def test_s15_reload_during_checks(tmp_path: Path) -> None:
    """S15: the check of a removed or paused target leaves no result and its command ends; a changed one is judged by
    what it started with; nothing is left over."""
    gone = shell("gone", "sleep 4730; true", timeout="60s")
    paused = shell("paused", "sleep 4731; true", timeout="60s")
    changed = shell("changed", "sleep 3; exit 3", timeout="9s", interval="4s")
    same = shell("same", "true")
    config = configuration([gone, paused, changed, same], runtime={"maxConcurrentChecks": 4})
    with checkvisor(tmp_path, config) as product:
        for text in ("sleep 4730", "sleep 4731", "sleep 3"):
            until(lambda running=text: product.running(running), 10, text)
        later = {**changed, "expect": {"exitCode": [3]}}
        assert product.reload({**config, "targets": [{**paused, "enabled": False}, later, same]})
        until(lambda: not product.running("sleep 4730") and not product.running("sleep 4731"), 4, "their end")
        results = product.results_wait("changed", 2)
        assert [result["matched"] for result in results[:2]] == [False, True]
        assert results[0]["failure"]["path"] == "expect.exitCode"
        assert product.stored("gone") == product.stored("paused") == []
        assert product.fetch("api/v1/targets/gone")[0] == 404
        assert product.target("paused")["overlay"] == "paused"
        assert [target["id"] for target in product.api("targets")] == ["paused", "changed", "same"]
        assert not [pid for pid in children(product.supervisor()) if state_of(pid) == "Z"]
        assert product.reload(config)
        until(lambda: product.running("sleep 4730") and product.running("sleep 4731"), 10, "both again")
        assert product.stop()[0] == 0
        stopped = product.wait_for("supervisor.stopped")
        assert stopped["scheduled"] == stopped["results"] + stopped["missed"] + stopped["cancelled"]
        assert stopped["cancelled"] == 4


def test_s17_bad_configuration_on_reload(tmp_path: Path) -> None:
    """S17: a configuration that can't be used changes nothing; log, API, page and metric say so until a good one."""
    config = configuration([shell("ok", "true")])
    with checkvisor(tmp_path, config) as product:
        assert product.metrics()["checkvisor_config_last_reload_successful"] == 1
        for bad in ("targets: [", json.dumps({**config, "targts": []}), "", "\ttargets: []"):
            assert product.reload(bad) is False
            before = len(product.results("ok"))
            shown = until(lambda: product.api("summary")["supervisor"]["reloadError"], 5, "the error in the API")
            assert "config.yaml" in shown
            assert shown.splitlines()[0] in text_of(product.page())
            assert product.metrics()["checkvisor_config_last_reload_successful"] == 0
            product.results_wait("ok", before + 2)
        assert product.reload({**config, "page": {"title": "A new title"}})
        until(lambda: product.api("summary")["supervisor"]["reloadError"] is None, 5, "no error")
        until(lambda: "A new title" in product.page(), 5, "the new title")
        assert product.metrics()["checkvisor_config_last_reload_successful"] == 1
        product.config.unlink()
        assert product.reload() is False
        assert product.stop()[0] == 0


def _edit(base: list[dict[str, Any]], number: int, chance: random.Random) -> tuple[list[dict[str, Any]], bool]:
    """Targets with some others changed, added, removed, paused, in another order; and whether they can be used."""
    others = [shell(f"other{chance.randrange(30)}", "true", interval=f"{chance.randint(1, 9)}s")]
    others.append(shell(f"edit{number}", "sleep 1", enabled=chance.random() < 0.7))
    if chance.random() < 0.5:
        others.append(shell("sometimes", f"sleep {chance.random():.2f}", timeout="2s"))
    targets = [*base, *others]
    chance.shuffle(targets)
    if good := chance.random() < 0.7:
        return targets, good
    broken = chance.choice([{"id": "x"}, {**base[0]}, shell("x", "true", interval="5"), shell("x", "true", nope=1)])
    return [*targets, broken], good


def test_100_edits_lose_no_check(tmp_path: Path) -> None:
    """100 edits, some broken, by SIGHUP and by --watch: no unchanged target loses a check or its rhythm."""
    chance = random.Random(20)
    base = [shell(f"base{n}", "true") for n in range(20)]
    config = configuration(base, runtime={"maxConcurrentChecks": 8})
    with checkvisor(tmp_path, config, "--watch") as product:
        until(lambda: product.api("summary")["counts"]["up"] == 20, 15, "first results")
        taken = refused = 0
        for number in range(100):
            targets, good = _edit(base, number, chance)
            if number % 10:
                assert product.reload({**config, "targets": targets}) is good
            else:
                name = "reload.done" if good else "reload.failed"
                before = len(product.events(name))
                product.write({**config, "targets": targets})
                product.wait_for(name, 15, before + 1)
            taken, refused = taken + good, refused + (not good)
        before = len(product.stored("base0"))
        until(lambda: len(product.stored("base0")) >= before + 2, 10, "results after the last edit")
        metrics = product.metrics()
        assert product.stop()[0] == 0
    stopped = product.wait_for("supervisor.stopped")
    assert stopped["scheduled"] == stopped["results"] + stopped["missed"] + stopped["cancelled"]
    worst = 0
    for target in base:
        rows = product.stored(target["id"])
        assert all(matched for _, _, matched in rows)
        stamps = [row[0] for row in rows][1:]
        slots = {round((stamp - stamps[-1]) / 1000) for stamp in stamps}
        lost = set(range(min(slots), 1)) - slots
        missed = product.rows(
            "SELECT missed_total FROM target_states s JOIN targets t ON t.id = s.target_id WHERE key = ?", target["id"]
        )[0][0]
        assert len(lost) <= missed, (target["id"], lost, missed)
        assert len(slots) == len(stamps), "no slot ran twice"
        worst = max(worst, missed)
    print(
        f"{taken} taken, {refused} refused in {(time.time() * 1000 - stamps[0]) / 1000:.0f} s; most missed slots of an"
        f" unchanged target: {worst}; largest lag {metrics['checkvisor_schedule_lag_max_seconds']:.2f} s"
    )
    assert worst <= 2  # of a machine that is busy with the test itself
