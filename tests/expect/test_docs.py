"""docs/expect.md: every example loads, and every table under one says what the check says."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import pytest

from supervisor.config import load
from supervisor.expect import Verdict, judge_command, judge_http
from supervisor.model import ResolvedTarget
from tests.expect.support import Answer, Ended, certificate, context

PAGE = Path(__file__).parents[2] / "docs" / "expect.md"
EXAMPLES = re.findall(
    r"```yaml\n(.*?)```\n+((?:\| (?:Body|Output) \| Verdict \|\n\|---\|---\|\n)(?:\|[^\n]*\n)+)?",
    PAGE.read_text(),
    re.DOTALL,
)
ROWS = [
    pytest.param(block, cell, verdict.strip(), id=f"{number}-{row}")
    for number, (block, table) in enumerate(EXAMPLES)
    for row, line in enumerate(table.splitlines()[2:])
    for cell, verdict in [re.fullmatch(r"\| (`.*?`|\(empty\)) \| (.*) \|", line).groups()]  # type: ignore[union-attr]
]


def _target(block: str, directory: Path) -> ResolvedTarget:
    return _loaded(block, directory)[0]


def _loaded(block: str, directory: Path) -> tuple[ResolvedTarget, tuple[str, ...]]:
    is_command = any(key in block for key in ("stdout:", "stderr:", "exitCode:"))
    kind = "command: {exec: sh}" if is_command else "http: {url: 'https://127.0.0.1:9/'}"
    head = f"id: t\n    name: t\n    type: {'command' if is_command else 'http'}\n    {kind}\n"
    file = directory / "config.yaml"
    file.write_text(f"targets:\n  - {head}{textwrap.indent(block, '    ')}")
    config = load(file)
    return config.targets[0], config.warnings


def _bytes(cell: str) -> bytes:
    if cell == "(empty)":
        return b""
    return cell[1:-1].replace("\\n", "\n").replace("\\r", "\r").encode()


def _judge(target: ResolvedTarget, content: bytes) -> Verdict:
    if target.type == "command":
        return judge_command(target.expect, target.warn, Ended(stdout=content), context())
    headers = (("Content-Type", "application/json"),) if content.startswith(b"{") else ()
    answer = Answer(content, headers=headers, certificate=certificate(90))
    return judge_http(target.expect, target.warn, answer, context())


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_loads(number: int, tmp_path: Path) -> None:
    """Without a warning."""
    target, warnings = _loaded(EXAMPLES[number][0], tmp_path)
    assert target.expect
    assert warnings == ()


@pytest.mark.parametrize(("block", "cell", "verdict"), ROWS)
def test_every_row_is_what_the_check_says(block: str, cell: str, verdict: str, tmp_path: Path) -> None:
    """`matches`, the message, or `warning:` and the message."""
    judged = _judge(_target(block, tmp_path), _bytes(cell))
    found: Any = "matches"
    if judged.failure is not None:
        found = judged.failure.message
    elif judged.warning is not None:
        found = f"warning: {judged.warning.message}"
    assert found.replace("\n", "\\n") == verdict


STATES = PAGE.read_text().partition("| | path not there |")[2].splitlines()[2:10]


@pytest.mark.parametrize("line", STATES, ids=lambda line: line.split("`")[1])
def test_the_table_of_absent_null_and_empty(line: str, tmp_path: Path) -> None:
    """Each cell of a row."""
    _, operator, *cells, _ = [cell.strip(" `*") for cell in line.split("|")]
    target = _target(f"expect:\n  body:\n    - json: {{path: $.v, {operator}}}\n", tmp_path)
    for cell, body in zip(cells, (b"{}", b'{"v":null}', b'{"v":""}', b'{"v":[]}'), strict=True):
        assert (_judge(target, body).failure is None) == (cell == "yes"), f"{operator} on {body!r}"


def test_there_are_examples() -> None:
    """The page is read as it should be."""
    assert len(EXAMPLES) >= 18
    assert len(ROWS) >= 45
