"""Prints the steps of .ci/run and one summary over all pytest reports, in pytest's own form; exits 1 on a failure."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

STEPS_WITH_REPORT = {"test": "default.xml", "test-slow": "slow.xml"}
AGAIN = "-again"  # the step in which what failed was run once more


def read(report: Path, counts: Counter[str], lines: list[str]) -> float:
    """Count the cases of one report, list what is not well, and return the seconds."""
    seconds = 0.0
    for suite in ElementTree.parse(report).getroot().iter("testsuite"):
        seconds += float(suite.get("time", "0"))
        for case in suite.iter("testcase"):
            name = f"{case.get('classname', '').replace('.', '/')}::{case.get('name', '')}"
            kind = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
            if kind is None:
                counts["passed"] += 1
            elif kind.tag == "skipped":
                counts["skipped"] += 1
                lines.append(f"SKIPPED {name} - {kind.get('message', '')[:150]}")
            else:
                counts["failed" if kind.tag == "failure" else "error"] += 1
                word = "FAILED" if kind.tag == "failure" else "ERROR"
                lines.append(f"{word} {name} - {(kind.get('message') or '-').splitlines()[0][:150]}")
    return seconds


def steps(artefacts: Path) -> list[tuple[str, str, str]]:
    """Status, seconds and name of each step."""
    lines = (artefacts / "steps.txt").read_text().splitlines()
    return [(status, took, name) for status, took, name in (line.split(" ", 2) for line in lines)]


def recovered(artefacts: Path, name: str, counts: Counter[str], lines: list[str]) -> bool:
    """Whether every test that failed in this step passed when it was run again; then it counts as passed, and is told.

    A step that was stopped or crashed is not recovered: what it had not run was not run again.
    """
    first, second = (
        artefacts / STEPS_WITH_REPORT[name],
        artefacts / STEPS_WITH_REPORT[name].replace(".xml", "-again.xml"),
    )
    if not first.exists() or not second.exists():
        return False
    found: tuple[Counter[str], list[str]] = (Counter(), [])
    read(first, *found)
    again: tuple[Counter[str], list[str]] = (Counter(), [])
    read(second, *again)
    bad = found[0]["failed"] + found[0]["error"]
    if again[0]["failed"] or again[0]["error"] or not bad or not again[0]["passed"]:
        return False
    counts.update({"passed": found[0]["passed"] + again[0]["passed"], "skipped": found[0]["skipped"]})
    lines.extend(line.replace("FAILED ", "FLAKY ").replace("ERROR ", "FLAKY ") for line in found[1])
    return True


def main(artefacts: Path) -> int:
    """Read steps.txt and the reports; return the exit status."""
    counts: Counter[str] = Counter()
    lines: list[str] = []
    seconds, failed = 0.0, False
    print("\n=== steps")
    ran = steps(artefacts)
    good = {name for status, _, name in ran if status == "0"}
    for status, took, name in ran:
        print(f"{'ok' if status == '0' else f'exit {status}':>9} {took:>5} s  {name}")
        if name.endswith(AGAIN):
            continue
        if status == "2" and name + AGAIN in good and recovered(artefacts, name, counts, lines):
            seconds += float(took)
            continue
        before = counts["failed"] + counts["error"]
        report = STEPS_WITH_REPORT.get(name)
        if report and (artefacts / report).exists():
            seconds += read(artefacts / report, counts, lines)
        if status != "0":
            failed = True
            if counts["failed"] + counts["error"] == before:  # not a test: the step itself
                counts["error"] += 1
                lines.append(f"ERROR {name} - exit status {status}, see its output above")
    print("\n" + " short test summary info ".center(100, "="))
    for line in sorted(set(lines)):
        print(line)
    words = [f"{counts[kind]} {kind}" for kind in ("failed", "passed", "skipped", "error") if counts[kind]]
    words = [word + "s" if word.endswith("error") and not word.startswith("1 ") else word for word in words]
    print(f" {', '.join(words) or 'no tests ran'} in {seconds:.2f}s ".center(100, "="))
    return 1 if failed or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
