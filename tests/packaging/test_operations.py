"""docs/operations.md against the code: every log event, metric and error code is explained, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOC = (ROOT / "docs/operations.md").read_text()
EVENT = re.compile(r"[a-z]+\.[A-Za-z_]+")
ONE_STYLE = re.compile(r"[a-z]+\.[a-z]+(_[a-z]+)*")


def table(heading: str) -> set[str]:
    """What stands in the first column below a heading."""
    part = DOC.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"^\| `([^`]+)`", part, flags=re.MULTILINE))


def sources() -> list[Path]:
    return sorted([*(ROOT / "supervisor").rglob("*.py"), *(ROOT / "webui").rglob("*.py")])


def calls(path: Path) -> Iterator[tuple[ast.Call, ast.AST]]:
    """The calls of `event` in a module, each with the function that it stands in."""
    for function in ast.walk(ast.parse(path.read_text())):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for call in ast.walk(function):
            if not isinstance(call, ast.Call) or len(call.args) < 2:
                continue
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if name in ("event", "log_event", "become_event"):
                yield call, function


def logged(path: Path) -> Iterator[str]:
    """The names of the events that a module logs. A name chosen before the call is looked for in its function."""
    for call, function in calls(path):
        inside = call.args[1] if not isinstance(call.args[1], ast.Name) else function
        for node in ast.walk(inside):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and EVENT.fullmatch(node.value):
                yield node.value


def test_every_log_event_is_explained() -> None:
    """The table has exactly the events that the code logs."""
    assert table("Log events") == {name for path in sources() for name in logged(path)}


def test_names_of_log_events_have_one_style() -> None:
    """A word, a point, lower snake case, as are the fields; and no line goes past `event`, which that page follows."""
    assert [name for path in sources() for name in logged(path) if not ONE_STYLE.fullmatch(name)] == []
    fields = {one.arg or "" for path in sources() for call, _function in calls(path) for one in call.keywords}
    assert [name for name in fields if name != name.lower()] == []
    past = re.compile(r"\blog\.(debug|info|warning|error|exception|critical|log)\(")
    assert [path.name for path in sources() if path.name != "logs.py" and past.search(path.read_text())] == []


def test_every_error_code_is_explained() -> None:
    """The table has exactly the codes of the API's problem details."""
    text = (ROOT / "webui/errors.py").read_text()
    codes = set(re.findall(r'"([A-Z]+(?:_[A-Z]+)+)"', text))
    assert table("Error codes of the API") == codes
    outcome = re.search(r'^FAILED_CODE = "(.+)"', (ROOT / "supervisor/store/outbox.py").read_text(), flags=re.MULTILINE)
    assert outcome is not None
    assert f"`{outcome[1]}`" in DOC


def test_every_metric_of_the_supervisor_is_explained() -> None:
    """The table has exactly the metrics of the supervisor's listener, as a scrape names them."""
    names = set()
    for call in ast.walk(ast.parse((ROOT / "supervisor/metrics.py").read_text())):
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
            kind, name = getattr(call.func, "id", ""), str(call.args[0].value)
            if kind in ("_gauge", "_counter"):
                names.add(f"checkvisor_{name}" + ("_total" if kind == "_counter" else ""))
            elif kind.endswith("MetricFamily"):
                names.add(name + ("_total" if kind.startswith("Counter") else ""))
    assert table("The supervisor's metrics") == names


def test_no_metric_of_the_supervisor_is_also_one_of_the_page() -> None:
    """A Prometheus scrapes both: a sum over one name must not count a slot twice."""
    page = (ROOT / "docs/api.md").read_text().partition("## /metrics\n")[2].partition("\n## ")[0]
    names = set(re.findall(r"`(\w+)(?:\{\w+\})?`", page))
    assert "checkvisor_checks_missed_total" in names
    assert not names & table("The supervisor's metrics")


def test_files_that_are_named_exist() -> None:
    """What the page says about deploy/ is there."""
    for name in set(re.findall(r"\b(deploy/[A-Za-z-]+\.?[a-z]+)", DOC)):
        assert (ROOT / name).exists(), name
