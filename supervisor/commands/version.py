"""`checkvisor version` and `--version`."""

from __future__ import annotations

import platform
from typing import Any

import click

from supervisor.commands import options, output


def _version() -> str:
    from supervisor import __version__

    return __version__


def show(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """The callback of `--version`."""
    if wanted and not context.resilient_parsing:
        output.line(f"checkvisor {_version()}")
        context.exit()


@click.command(epilog="Example: checkvisor version --json")
@options.as_json
def version(as_json: bool) -> None:
    """Show the version, and those of Python and SQLite."""
    import sqlite3

    known: dict[str, Any] = {
        "version": _version(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    }
    if as_json:
        output.document(known)
    else:
        output.line(f"checkvisor {known['version']} (Python {known['python']}, SQLite {known['sqlite']})")
