"""`deploy/alerts.yml`: the rules are sound, alarm as they should, and ask for metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.product import configuration, until
from tests.faults.faults import board, hook, life, receiver

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "deploy" / "alerts.yml"
_SELECTOR = re.compile(r"\b((?:checkvisor|probe)_\w+)(?:\{([^}]*)\})?")


def _rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool of Debian's package prometheus")
def test_promtool_takes_and_tests_the_rules() -> None:
    """`promtool check rules` finds nothing, and each fault of the table alarms while a healthy supervisor does not."""
    for arguments in (("check", "rules", RULES), ("test", "rules", Path(__file__).with_name("alerts.test.yml"))):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_says_what_to_do() -> None:
    """Each has a name of its own, a severity, a summary and a description; log events and commands it names exist."""
    names = [rule["alert"] for rule in _rules()]
    assert len(names) == len(set(names))
    source = "".join(path.read_text() for path in (ROOT / "supervisor").rglob("*.py"))
    for rule in _rules():
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["summary"].endswith(".")
        for log_event in re.findall(r"\b(?:store|loop|worker|webhook|reload)\.\w+", rule["annotations"]["description"]):
            assert f'"{log_event}"' in source, f"{rule['alert']} names {log_event}"


@pytest.mark.slow
def test_every_metric_of_the_rules_exists(tmp_path: Path) -> None:
    """A scrape of the running product has each metric that a rule asks for, with the label values it names."""
    with board() as site, receiver() as got:
        site.answers["shop"] = 503
        config = configuration([site.target("shop")], webhooks=[hook("ops", got.url)])
        with life(tmp_path, config, command="up") as product:
            got.wait(1)
            series = until(
                lambda: (found := _scrape(product)) and "_deliveries_total" in found and found, 20, "a scrape"
            )
            product.stop(seconds=25)
    for rule in _rules():
        for name, labels in _SELECTOR.findall(rule["expr"]):
            matching = [line for line in series.splitlines() if re.match(rf"{name}[ {{]", line)]
            assert matching, f"{rule['alert']} asks for {name}, which is nowhere"
            for pair in re.findall(r'\w+="[^"]*"', labels):
                assert any(pair in line for line in matching), f"{rule['alert']}: no {name} has {pair}"


def _scrape(product: Any) -> str:
    own = "\n".join(f"{name} {value}" for name, value in product.metrics().items())
    return own + "\n" + str(product.page("metrics"))
