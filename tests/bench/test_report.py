"""The table of budgets, what feeds it, and the databases that the benchmarks run on."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bench import budgets, generate, report
from bench.rows import Row
from bench.running import interpolated

ROOT = Path(__file__).parents[2]
PLAIN: dict[str, list[Row]] = {
    "store": [
        {"name": "floor, plain INSERT, 1,000 targets", "us": 2.0, "bytes": 50.0},
        {"name": "empty database, 1,000 targets", "us": 30.0, "bytes": 55.0},
        {"name": "empty database, 5,000 targets", "us": 50.0},
    ],
    "product": [
        {"name": "floor command, C posix_spawn", "us": 500.0},
        {"name": "command, 100/s", "us": 700.0},
        {"name": "command, 400/s", "us": 800.0},
    ],
}


def row_of(name: str, modules: dict[str, list[Row]]) -> list[str]:
    """One line of the table."""
    return next(row for row in budgets.table(budgets.values(modules)) if row[0] == name)


def test_every_budget_has_its_line() -> None:
    """B1 to B15, in order, each with at least one bound."""
    assert [line.name for line in budgets.LINES] == [f"B{number}" for number in range(1, 16)]
    assert all(any(part.bounded for part in line.reached) for line in budgets.LINES)


def test_a_line_says_what_was_reached_and_what_missed() -> None:
    """What is out of its bound is bold, and the line is not in its budget; the ratio is to the floor."""
    assert row_of("B12", PLAIN)[2:] == ["plain table 50.0 B", "-", "≤ 60", "55.0 B", "yes", "1.10"]
    *_, reached, inside, ratio = row_of("B11", PLAIN)
    assert reached == "1,000 targets 30.0 µs, 5,000 **50.0 µs**, 5,000 : 1,000 **1.67**"
    assert (inside, ratio) == ("no", "15.0")
    assert row_of("B5", PLAIN)[5:7] == ["100/s +200 µs, 400/s +**300 µs**", "no"]


def test_what_was_not_measured_is_no_success() -> None:
    """A module that did not run leaves its lines out of their budgets."""
    assert row_of("B3", {})[5:7] == ["**not measured**", "no"]


def test_a_table_replaces_what_stands_between_the_comments() -> None:
    """The rest of the document stays; without the comments nothing is written."""
    text = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    once = report.replaced(text, "new")
    assert once == f"before\n{report.BEGIN}\n\nnew\n\n{report.END}\nafter\n"
    assert report.replaced(once, "new") == once
    with pytest.raises(SystemExit, match="the document needs a line"):
        report.replaced("nothing", "new")


def test_what_a_deletion_delays_is_told() -> None:
    """A write may be 200 ms later than without the deletion; more is told as a miss."""
    quiet: Row = {"name": "writes without deletion", "put_p50_ms": 30.0, "put_p99_ms": 60.0, "put_max_ms": 90.0}
    busy = {**quiet, "name": "writes beside the deletion", "deleted": 864_000, "per_s": 500.0}
    busy |= {"put_max_ms": 230.0, "finished": 0}
    assert "largest 230 ms; without" in report.retention(budgets.values({"retention": [quiet, busy]}))
    assert report.retention(budgets.values({"retention": [quiet, busy]})).endswith("200 ms: yes.")
    assert "(10% of the deletion, which was ended early)" in report.retention(
        budgets.values({"retention": [quiet, busy]})
    )
    late = {**busy, "put_max_ms": 231.0}
    assert report.retention(budgets.values({"retention": [quiet, late]})).endswith("200 ms: **no**.")
    assert report.retention({}) == ""


def test_an_earlier_run_is_printed_again(tmp_path: Path) -> None:
    """`--from` makes the same table of the kept JSON, with the machine above it."""
    machine = {"cpu": "A CPU", "cores": 2, "kernel": "6.1", "debian": "12.5", "python": "3.11.2", "date": "today"}
    run = {
        "machine": machine | {"load_before": 0.1},
        "full": True,
        "took_s": {"all": 1200},
        "failed": [],
        "programs": ["abc"],
        "modules": PLAIN,
    }
    (tmp_path / "run.json").write_text(json.dumps(run))
    document = tmp_path / "page.md"
    document.write_text(f"{report.BEGIN}\n{report.END}\n")
    command = [sys.executable, "-m", "bench.report", "--from", str(tmp_path / "run.json"), "--markdown", str(document)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "`make bench-full`, today: 2 cores (A CPU), Linux 6.1, Debian 12.5" in done.stdout
    assert "Sources abc." in done.stdout
    assert "mixes versions" not in done.stdout
    assert "mixes versions" in report.heading(run | {"programs": ["abc", "def"]})
    assert "| B12 | bytes on disk per passing result, with index | plain table 50.0 B |" in document.read_text()


def test_the_document_has_the_table() -> None:
    """docs/performance.md has the comments, and a line for each budget between them."""
    text = (ROOT / "docs" / "performance.md").read_text()
    table = text.partition(report.BEGIN)[2].partition(report.END)[0]
    assert [row.split("|")[1].strip() for row in table.splitlines() if row.startswith("| B")] == [
        line.name for line in budgets.LINES
    ]


@pytest.mark.parametrize(
    ("q", "expected_ms"), [(0.5, 1.5), (0.75, 4.25), (0.99, 10.0)], ids=["inside", "later-bucket", "open-bucket"]
)
def test_a_quantile_is_linear_inside_its_bucket(q: float, expected_ms: float) -> None:
    """From what a histogram gained: 40 up to 1 ms, 20 up to 2 ms, 20 up to 5 ms, 0 up to 10 ms, 20 above."""
    before = [(0.001, 5.0), (0.002, 5.0), (0.005, 5.0), (0.01, 5.0), (float("inf"), 5.0)]
    after = [(0.001, 45.0), (0.002, 65.0), (0.005, 85.0), (0.01, 85.0), (float("inf"), 105.0)]
    assert interpolated(before, after, q) == pytest.approx(expected_ms)


def test_a_made_database_is_consistent(tmp_path: Path) -> None:
    """The sums of the rollups are those of the results, to the last one, and the store opens it as its own."""
    path = tmp_path / "checkvisor.db"
    number = generate.make(path, targets=20, per_hour=60, hours=30, hourly_days=3, days=90)
    with closing(sqlite3.connect(path)) as raw:
        counted = raw.execute(
            "SELECT target_id, timestamp - timestamp % 3600000, sum(matched), sum(NOT matched) FROM check_results "
            "GROUP BY 1, 2 ORDER BY 1, 2"
        ).fetchall()
        first = min(row[1] for row in counted)
        kept = raw.execute(
            "SELECT target_id, bucket, matched, failed FROM rollups WHERE step = 3600000 AND bucket >= ? "
            "ORDER BY 1, 2", (first,),
        ).fetchall()  # fmt: skip
        days = raw.execute("SELECT count(*), max(failed) FROM rollups WHERE step = 86400000").fetchone()
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("SELECT max(id), count(*) FROM check_results").fetchone() == (number, number)
    assert kept == counted
    assert sum(row[3] for row in counted) > 0
    assert days == (20 * 91, 30)
