"""docs/cli.md against the command line: both know the same commands and options, and every example can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from supervisor.cli import checkvisor as group

DOCS = Path(__file__).parents[1] / "docs"
TEXT = (DOCS / "cli.md").read_text()
EXAMPLES = sorted(
    {
        line.partition(" #")[0].partition(" > ")[0].strip()
        for page in sorted(DOCS.glob("*.md"))
        for line in page.read_text().splitlines()
        if line.startswith("checkvisor ")
    }
)


def _all(command: click.Command, words: str) -> list[tuple[str, click.Command]]:
    found = [(words, command)]
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            found += _all(inner, f"{words} {name}".strip())
    return found


COMMANDS = _all(group, "")


def test_every_command_and_option_is_documented() -> None:
    """Each command has its heading or row, each option is named."""
    for words, command in COMMANDS:
        if words and words != "events":
            assert f"`checkvisor {words}" in TEXT or f"| `{words}" in TEXT, words
        for option in command.params:
            if isinstance(option, click.Option):
                assert any(name in TEXT for name in option.opts), (words, option.opts)


def test_no_option_is_documented_that_does_not_exist() -> None:
    """Every `--option` in the text belongs to a command."""
    known = {name for _words, command in COMMANDS for param in command.params for name in param.opts} | {"--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", TEXT)) <= known


def _parse(command: click.Command, words: list[str], parent: click.Context | None) -> None:
    with command.make_context(command.name, words, parent=parent) as context:
        if isinstance(command, click.Group):
            rest = [*context._protected_args, *context.args]
            _name, inner, left = command.resolve_command(context, rest)
            assert inner is not None
            _parse(inner, left, context)


@pytest.mark.parametrize("line", EXAMPLES)
def test_every_example_parses(line: str) -> None:
    """What stands in a block of docs/ or in a command's help is accepted as it stands."""
    _parse(group, shlex.split(line)[1:], None)


def test_the_examples_in_the_help_parse() -> None:
    """The same for each command's own example."""
    for words, command in COMMANDS:
        line = (command.epilog or "").removeprefix("Example: checkvisor").partition(" > ")[0]
        assert line.strip().startswith(words.partition(" ")[0]), words
        _parse(group, shlex.split(line), None)
