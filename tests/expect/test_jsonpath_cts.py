"""The compliance suite of RFC 9535, run through the same functions that checks use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from supervisor.expect import check_json_path
from supervisor.expect.operators import json_equal
from supervisor.expect.select import select_json
from tests.expect.support import refusal

SUITE = Path(__file__).parents[3] / "shared" / "data" / "jsonpath-cts.json"


def _problem(case: dict[str, Any]) -> str | None:
    path = case["selector"]
    problem = refusal(check_json_path, path)
    if problem is not None:
        return None if case.get("invalid_selector") and problem else f"refused: {problem}"
    if case.get("invalid_selector"):
        return "accepted"
    wanted = case["results"] if "results" in case else [case["result"]]
    found = list(select_json(case["document"], path, "rfc9535").values)
    return None if any(json_equal(found, each) for each in wanted) else f"gave {found}"


@pytest.mark.skipif(not SUITE.is_file(), reason="no compliance suite (../shared/data/jsonpath-cts.json)")
def test_all_cases_of_the_compliance_suite_hold() -> None:
    """703 of 703: what it selects is selected, what it refuses is refused."""
    cases = json.loads(SUITE.read_text())["tests"]
    problems = {case["name"]: problem for case in cases if (problem := _problem(case)) is not None}
    assert problems == {}
    assert len(cases) >= 703
