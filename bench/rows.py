"""What all benchmarks share: their options, and their rows as JSON."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

from bench.proc import end_cleanly

Row = dict[str, Any]
"""One figure and what was measured with it: `name` is text, unique in its module; the other values are plain numbers.

The unit is in the field's name: `us` is CPU time in microseconds for one piece of work, `_ms`, `_s`, `_mb` as written,
`per_s` pieces of work in a second.
"""

FULL = os.environ.get("BENCH_FULL", "") not in ("", "0")
"""Whether this is `make bench-full`: longer runs, and the scenarios that only it has."""


def options(description: str | None) -> argparse.ArgumentParser:
    """A parser with what every benchmark takes. What it starts will end with it, also by SIGTERM."""
    end_cleanly()
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    return parser


def save(path: Path | None, rows: list[Row]) -> None:
    """Write the rows, if they are wanted."""
    if path is not None:
        path.write_text(json.dumps(rows, indent=1) + "\n")


def quantile(values: list[float], q: float) -> float:
    """The q-quantile of a list that need not be sorted, linear between ranks."""
    ordered = sorted(values)
    rank = q * (len(ordered) - 1)
    low = int(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)
