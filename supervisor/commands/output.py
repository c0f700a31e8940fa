"""How commands print: one line an item, colour on terminals only, JSON as one document."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from supervisor.text import clean


def line(text: str = "") -> None:
    """One line on stdout. Text from outside goes through `shown` first."""
    click.echo(text)


def document(value: Any) -> None:
    """One JSON document on stdout. What stdout can't encode is escaped as JSON escapes it."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower().replace("_", "-")
    whole = encoding in ("utf-8", "utf8")
    click.echo(json.dumps(_finite(value), ensure_ascii=not whole, indent=2, allow_nan=False))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def shown(text: str) -> str:
    """Text from outside as one harmless line."""
    return clean(text)


def sentence(text: str) -> None:
    """One sentence on stderr."""
    click.echo(clean(text), err=True)


def problems(text: str) -> None:
    """Problems of a configuration on stderr, a line each; they are clean already."""
    click.echo(text, err=True)


def paint(text: str, colour: str | None) -> str:
    """The text in a colour, where stdout is a terminal that may show it (NO_COLOR)."""
    if colour is None or os.environ.get("NO_COLOR") or sys.stdout is None or not sys.stdout.isatty():
        return text
    return click.style(text, fg=colour)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Columns under a header, each as wide as its longest cell; the last one is not padded."""
    cells = [tuple(header), *(tuple(clean(cell) for cell in row) for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(header))]
    for row in cells:
        padded = [cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False)]
        line("  ".join([*padded, row[-1]]).rstrip())


def duration(seconds: float) -> str:
    """As in the configuration: `30s`, `1m30s`, `500ms`."""
    if seconds < 1 or seconds != int(seconds):
        return f"{seconds * 1000:g}ms"
    left, shown = int(seconds), ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m"), (1, "s")):
        count, left = divmod(left, size)
        shown += f"{count}{unit}" if count else ""
    return shown or "0s"
