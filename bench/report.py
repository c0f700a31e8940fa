"""Runs the benchmarks one after the other and makes the table of budgets: `make bench`, `make bench-full`.

Each module runs in a process of its own and writes its rows as JSON; all of them, with the machine, go into one file.
The table is printed, and with `--markdown FILE` it replaces what stands in that file between two comments. A module
that fails ends nothing: its lines are not measured, and the exit status is 1. `--from FILE` only prints a run again.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import budgets
from bench.proc import die_with_parent, machine, program
from bench.retention import GONE
from bench.rows import FULL, options

# the order matters: what changes the big databases most comes last
MODULES = ("generate", "http_check", "pool", "webhooks", "product", "store", "web", "retention")
WITH_DATABASES = ("product", "store", "web", "retention")
DELAYED_MS = 200  # by a deletion, at most, over what a write takes without one
_DELAYS = ("p50", "p99", "largest")
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def run(folder: Path, only: list[str]) -> dict[str, Any]:
    """All modules; what they wrote, and how long each took."""
    begun, programs = time.monotonic(), {program()}
    report: dict[str, Any] = {"machine": machine(), "full": FULL, "took_s": {}, "failed": [], "modules": {}}
    for name in MODULES:
        if only and name not in only:
            continue
        print(f"--- {name}", flush=True)
        rows = folder / f"{name}.json"
        command = [sys.executable, "-m", f"bench.{name}", "--json", str(rows)]
        command += [str(folder)] if name == "generate" else []
        command += ["--databases", str(folder)] if name in WITH_DATABASES else []
        at = time.monotonic()
        if subprocess.run(command, check=False, preexec_fn=die_with_parent).returncode == 0:
            report["modules"][name] = json.loads(rows.read_text())
        else:
            report["failed"].append(name)
        report["took_s"][name] = round(time.monotonic() - at, 1)
        programs.add(program())
    report["programs"] = sorted(programs)
    report["took_s"]["all"] = round(time.monotonic() - begun, 1)
    return report


def heading(report: dict[str, Any]) -> str:
    """One paragraph: where and when."""
    host, programs = report["machine"], report["programs"]
    target = "`make bench-full`" if report["full"] else "`make bench`"
    changed = " **The sources were changed during the run: this table mixes versions.**" if len(programs) > 1 else ""
    return (
        f"{target}, {host['date']}: {host['cores']} cores ({host['cpu']}), Linux {host['kernel']}, Debian "
        f"{host['debian']}, Python {host['python']}, load {host['load_before']} before; it took "
        f"{report['took_s']['all'] / 60:.0f} minutes. Sources {', '.join(programs)}.{changed}"
    )


def retention(found: budgets.Found) -> str:
    """What deleting did to writing, in a sentence; nothing if it was not measured."""
    quiet, busy = "retention/writes without deletion", "retention/writes beside the deletion"
    if f"{busy}/per_s" not in found:
        return ""
    delays = [[found[f"{name}/put_{which}_ms"] for which in ("p50", "p99", "max")] for name in (busy, quiet)]
    told = [", ".join(f"{which} {value:.0f} ms" for which, value in zip(_DELAYS, one, strict=True)) for one in delays]
    part = found[f"{busy}/deleted"] / GONE
    partly = "" if found[f"{busy}/finished"] else f" ({part:.0%} of the deletion, which was ended early)"
    inside = "yes" if delays[0][2] - delays[1][0] <= DELAYED_MS else "**no**"
    return (
        f"Retention: {found[f'{busy}/deleted']:,.0f} results deleted{partly}, {found[f'{busy}/per_s']:,.0f} a second, "
        f"while 100 a second are written. From put to committed {told[0]}; without the deletion {told[1]}. "
        f"No write may be delayed by more than {DELAYED_MS} ms: {inside}."
    )


def markdown(report: dict[str, Any]) -> str:
    """The heading, the table, and what retention costs."""
    found = budgets.values(report["modules"])
    rows = budgets.table(found)
    rows.insert(1, ["---"] * len(rows[0]))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([heading(report), "", *lines, "", retention(found)]).rstrip()


def replaced(text: str, table: str) -> str:
    """A document with what lies between the two comments replaced. Raises SystemExit when they are not there."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"the document needs a line {BEGIN} and, below it, a line {END}")
    return f"{before}{begin}\n\n{table}\n\n{end}{after}"


def main() -> int:
    parser = options(__doc__)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="replace the table in this document")
    parser.add_argument("--only", action="append", choices=MODULES, default=[], help="run this module; may be repeated")
    parser.add_argument("--from", type=Path, dest="earlier", metavar="FILE", help="read an earlier run's JSON")
    given = parser.parse_args()
    if given.earlier is not None:
        report = json.loads(given.earlier.read_text())
    else:
        with tempfile.TemporaryDirectory(prefix="checkvisor-bench-") as folder:
            report = run(Path(folder), given.only)
    table = markdown(report)
    print(f"\n{table}\n")
    for name in report["failed"]:
        print(f"bench.{name} failed: its figures are missing")
    if given.markdown is not None:
        given.markdown.write_text(replaced(given.markdown.read_text(), table))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if report["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
