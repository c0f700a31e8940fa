"""The web app in every state of the store: not there, empty, junk, read-only, at rest, newer, busy, restored."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy import text

from supervisor.store import read
from tests.webui.fill import DAY, Fill, now

MakeClient = Callable[..., FlaskClient]


def test_w07_no_database_yet(tmp_path: Path, make_client: MakeClient) -> None:
    """W07: before the supervisor's first start the page says so; programs get 503, never an empty list."""
    client = make_client(tmp_path / "none.db")
    page = client.get("/")
    assert page.status_code == 200
    assert "No data yet" in page.text
    assert client.get("/readyz").status_code == 503
    assert client.get("/healthz").status_code == 200
    answer = client.get("/api/v1/targets")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert answer.json is not None
    assert answer.json["code"] == "STORE_UNAVAILABLE"
    assert "checkvisor_web_store_readable 0.0" in client.get("/metrics").text
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("content", [b"", b"this is no database at all " * 100], ids=["empty", "junk"])
def test_w07_not_a_database(content: bytes, tmp_path: Path, make_client: MakeClient) -> None:
    """W07: an empty file is "no data yet", junk a 503 page that still renders; neither is changed."""
    path = tmp_path / "x.db"
    path.write_bytes(content)
    client = make_client(path)
    page = client.get("/")
    assert page.status_code == (503 if content else 200)
    assert ("State unknown" if content else "No data yet") in page.text
    assert client.get("/api/v1/summary").status_code == 503
    assert path.read_bytes() == content


def test_w07_file_comes_later(tmp_path: Path, make_client: MakeClient) -> None:
    """W07: the page fills by itself once the supervisor has made its database."""
    client = make_client(tmp_path / "later.db")
    assert client.get("/api/v1/summary").status_code == 503
    with Fill(tmp_path / "later.db") as fill:
        fill.target("t")
        assert "All" in client.get("/").text or "The one target is up" in client.get("/").text


def test_trouble_is_logged_once(tmp_path: Path, make_client: MakeClient, caplog: pytest.LogCaptureFixture) -> None:
    """A store that can't be read is one line of the log, not one a request; its return is another."""
    caplog.set_level(logging.INFO, "webui")
    client = make_client(tmp_path / "later.db")
    for path in ("/", "/metrics", "/readyz", "/api/v1/targets", "/"):
        client.get(path)
    assert [record.message for record in caplog.records] == ["store.unreadable"]
    with Fill(tmp_path / "later.db"):
        client.get("/")
        client.get("/")
    assert [record.message for record in caplog.records] == ["store.unreadable", "store.readable"]


def test_no_targets(client: FlaskClient) -> None:
    """A configuration without targets is no success: the page says what to do."""
    page = client.get("/")
    assert "No targets yet" in page.text
    assert client.get("/api/v1/targets").json == []
    assert client.get("/incidents").status_code == 200


def test_w05_stopped_supervisor_in_a_directory_we_cannot_write(tmp_path: Path, make_client: MakeClient) -> None:
    """W05: after a clean stop (no -wal, no -shm) the page says that nothing is checked, and creates no file."""
    with Fill(tmp_path / "checkvisor.db") as fill:
        fill.target("t")
    assert sorted(os.listdir(tmp_path)) == ["checkvisor.db"]
    client = make_client(tmp_path / "checkvisor.db")
    page = client.get("/")
    assert page.status_code == 200
    assert "State unknown" in page.text
    assert "This data is stale" in page.text
    assert 'class="i s-up"' not in page.text
    assert client.get("/api/v1/targets/t/health").status_code == 503
    assert client.get("/readyz").status_code == 200
    assert client.get("/readyz?strict=1").status_code == 503
    assert sorted(os.listdir(tmp_path)) == ["checkvisor.db"]


def test_newer_schema(fill: Fill, client: FlaskClient) -> None:
    """A database of a newer version is a 503, not a guess."""
    fill.run(text("UPDATE alembic_version SET version_num = '9999'"))
    assert client.get("/").status_code == 503
    assert client.get("/api/v1/summary").status_code == 503


def test_broken_json_in_a_row_costs_only_that_row(fill: Fill, client: FlaskClient) -> None:
    """A failure, labels or metrics that can't be read do not cost the page."""
    number = fill.target("bad", "down")
    fill.change(number, last_failure="{", timings="[", metrics="x", certificate="1")
    fill.run(text("UPDATE targets SET labels = 'x', config = 'y'"))
    fill.target("good")
    for path in ("/", "/targets/bad", "/api/v1/targets", "/api/v1/targets/bad", "/metrics"):
        assert client.get(path).status_code == 200, path


def test_a_setting_that_is_no_text_is_as_good_as_missing(fill: Fill, client: FlaskClient) -> None:
    """Bytes in `meta`: the page is stale, as it is without a heartbeat, not broken."""
    fill.target("t")
    fill.run(text("UPDATE meta SET value = x'ff00fe'"))
    for path in ("/", "/targets/t", "/api/v1/targets", "/metrics", "/readyz", "/badges/t/status.svg"):
        assert client.get(path).status_code == 200, path
    assert client.get("/readyz?strict=1").status_code == 503
    assert client.get("/badges/t/status.json").json["message"] == "unknown"  # type: ignore[index]


def test_w03_readers_hold_no_transaction(fill: Fill, client: FlaskClient) -> None:
    """W03: after a request nothing of ours keeps the log from being reset."""
    number = fill.target("t")
    for path in ("/", "/targets/t", "/api/v1/targets", "/api/v1/targets/t/results", "/metrics", "/incidents"):
        client.get(path)
        for index in range(20):
            fill.result(number, now() + index)
        with sqlite3.connect(fill.path) as other:
            busy, pages, done = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        other.close()
        assert (busy, pages, done) == (0, 0, 0), path


def test_a_writer_in_the_middle_of_a_transaction_does_not_matter(fill: Fill, client: FlaskClient) -> None:
    """WAL: a page is served while the supervisor writes."""
    fill.target("t")
    with fill.begin():
        fill.run(text("UPDATE targets SET name = 'not yet'"))
        page = client.get("/")
        assert page.status_code == 200
        assert "not yet" not in page.text


def test_restored_database_is_noticed(tmp_path: Path, make_client: MakeClient) -> None:
    """Another file at the same path is read at once, with its own history."""
    path = tmp_path / "checkvisor.db"
    client = make_client(path)
    with Fill(path) as fill:
        number = fill.target("old")
        fill.rollup(number, DAY, now() - 5 * DAY, 50, 50)
        assert "old" in client.get("/api/v1/targets").text
        assert "50.0 %" in client.get("/").text
    path.unlink()
    with Fill(path) as fill:
        fill.meta(source="11111111-6b1f-4a43-9c67-2f1f4dd0a001")
        number = fill.target("new")
        fill.rollup(number, DAY, now() - 5 * DAY, 100)
        assert "new" in client.get("/api/v1/targets").text
        page = client.get("/").text
        assert "new" in page
        assert "50.0 %" not in page


PLANNED = (
    lambda c: read.all_targets(c, detail=True), lambda c: read.one_target(c, "t"), read.fingerprint,
    read.highest_version,
    lambda c: read.buckets(c, DAY, 0, now()), lambda c: read.buckets(c, DAY, 0, now(), remarkable=True),
    lambda c: read.sums(c, DAY, 0, now()), lambda c: read.duration_parts(c, DAY, 0, now(), 2 * DAY),
    lambda c: read.target_rollups(c, 1, DAY, 0, now()), lambda c: read.results(c, 1, limit=5, before=(now(), 5)),
    lambda c: read.results(c, 1, limit=5, outcome="failed", from_ms=1, to_ms=now()),
    lambda c: read.durations(c, 1, 0, 10), lambda c: read.list_incidents(c, limit=5, before=(now(), 1)),
    lambda c: read.list_incidents(c, limit=5, target_id=1), lambda c: read.dead_letters(c, limit=5),
    lambda c: read.dead_letters(c, limit=5, stream="t"), lambda c: read.endpoints(c, 0),
    lambda c: read.events(c, "t", 5), lambda c: read.acknowledged(c, "t"), read.all_meta,
)  # fmt: skip


@pytest.mark.parametrize("ask", PLANNED, ids=range(len(PLANNED)))
def test_no_query_scans_results_or_rollups(ask: Callable[..., object], fill: Fill) -> None:
    """EXPLAIN QUERY PLAN: results are always searched by target, rollups by target or by time, never scanned."""
    from sqlalchemy import event

    fill.target("t")
    asked: list[tuple[str, object]] = []
    connection = fill.connection
    assert connection is not None

    def note(_c: object, _cursor: object, statement: str, parameters: object, *_: object) -> None:
        asked.append((statement, parameters))

    event.listen(fill.engine, "before_cursor_execute", note)
    with connection.begin():
        ask(connection)
    event.remove(fill.engine, "before_cursor_execute", note)
    queries = [(statement, parameters) for statement, parameters in asked if statement.lstrip().startswith("SELECT")]
    assert queries
    raw = sqlite3.connect(fill.path)
    for statement, parameters in queries:
        for *_, plan in raw.execute(f"EXPLAIN QUERY PLAN {statement}", parameters):
            for table in ("check_results", "rollups"):
                assert not plan.startswith(f"SCAN {table}"), plan
                if plan.startswith(f"SEARCH {table}"):
                    by_time = table == "rollups" and "(step=? AND bucket>? AND bucket<?)" in plan
                    assert "target_id=?" in plan or by_time, plan
    raw.close()


def test_no_page_asks_anything_else(fill: Fill, client: FlaskClient) -> None:
    """The overview, the API's lists and the metrics never read raw results."""
    fill.target("t")
    fill.run(text("ALTER TABLE check_results RENAME TO hidden"))
    for path in (
        "/",
        "/?q=t",
        "/incidents",
        "/api/v1/targets",
        "/api/v1/summary",
        "/api/v1/incidents",
        "/metrics",
        "/readyz",
    ):
        assert client.get(path).status_code == 200, path
