"""deploy/alerts.yml: valid rules over metrics that exist."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.packaging.test_operations import table

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/alerts.yml"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool (Debian package prometheus)")
def test_promtool_accepts_the_rules() -> None:
    """`promtool check rules` has nothing to say."""
    done = subprocess.run(["promtool", "check", "rules", str(RULES)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_metrics_exist() -> None:
    """Each metric of a rule is one of the supervisor's (docs/operations.md) or of the page's."""
    web = (ROOT / "webui/metrics.py").read_text()
    for name in set(re.findall(r"\bcheckvisor_[a-z_]+", RULES.read_text())):
        assert name.removesuffix("_bucket") in table("The supervisor's metrics") or f'"{name}"' in web, name
