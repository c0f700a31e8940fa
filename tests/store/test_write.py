"""supervisor.store.write: what is handed over is on disk, whole and once."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from supervisor import state
from supervisor.model import Certificate, Item, Metric, Timings
from supervisor.store import histogram
from supervisor.store.codec import certificate_from, failure_from, metrics_from, timings_from
from supervisor.store.connect import FILE_NAME
from supervisor.store.rollup import DAY_MS, HOUR_MS
from supervisor.store.write import Writer
from tests.make import make_failure, make_result, make_target
from tests.store.harness import NOW, count, make_feeder, query, until


def test_a_result_is_on_disk_soon_and_a_restart_goes_on(tmp_path: Path) -> None:
    """Result, state, incident, counters: all there within the window, and read back equal."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "uufffug")
    feeder.feed("b", "u")
    until(lambda: count(tmp_path) == 8)
    assert feeder.stop() == ()
    again = make_feeder(tmp_path)
    loaded = again.open()
    assert loaded.states == feeder.states
    assert loaded.max_incident_id == 1
    assert query(tmp_path, "SELECT resolved_at - started_at, failures, resolution FROM incidents") == [
        (3000, 3, "recovered")
    ]
    assert query(tmp_path, "SELECT matched_total, failed_total FROM target_states ORDER BY target_id") == [
        (4, 3),
        (1, 0),
    ]
    again.stop()


def test_every_state_survives_a_restart(tmp_path: Path) -> None:
    """After each single result the loaded state is the one in memory."""
    for number, word in enumerate(("u", "g", "f", "ff", "fff", "ffu", "ffuf", "ffuu", "uf", "gf")):
        directory = tmp_path / str(number)
        feeder = make_feeder(directory)
        feeder.open()
        feeder.feed("a", word)
        feeder.stop()
        reader = Writer(directory)
        assert reader.open().states["a"] == feeder.states["a"], word
        reader.flush_and_stop(5)


def test_what_a_result_carries_is_kept(tmp_path: Path) -> None:
    """Failures, warnings, timings, metrics and the certificate read back equal; a passing row keeps no timings."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    timings = Timings(1.25, 2.5, None, 7.125, 0.5)
    metrics = (Metric("load", 0.5, "s", "1:", "5", 0.0, None), Metric("läuft", None))
    certificate = Certificate(1, 2_000_000_000_000, "CN=a", "CN=b")
    failure = make_failure(expected="200", actual="503 \u2028 '; DROP TABLE targets")
    feeder.feed("a", "u", timings=timings, metrics=metrics, certificate=certificate)
    feeder.feed("a", "u", timings=timings, metrics=metrics, certificate=certificate)
    feeder.feed("a", "f", timings=timings, metrics=metrics, failure=failure)
    feeder.feed("a", "g", timings=timings)
    feeder.stop()
    rows = query(tmp_path, "SELECT failure, warning, timings, metrics FROM check_results ORDER BY id")
    assert [row[2] is not None for row in rows] == [False, False, True, True]
    assert [row[3] is not None for row in rows] == [True, False, True, False]  # the first of the hour, then the failed
    assert failure_from(rows[2][0]) == failure
    assert failure_from(rows[3][1]) == make_failure(path="warn.maxDurationMs", phase="duration")
    assert timings_from(rows[2][2]) == timings
    assert metrics_from(rows[2][3]) == metrics
    [(kept, latest, last)] = query(
        tmp_path, "SELECT certificate, timings, last_warning FROM target_states WHERE last_timestamp IS NOT NULL"
    )
    assert (certificate_from(kept), timings_from(latest), last is not None) == (None, timings, True)


def test_an_error_keeps_the_certificate_and_metrics_of_before(tmp_path: Path) -> None:
    """A run that saw nothing says nothing new."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u", metrics=(Metric("x", 1.0),), certificate=Certificate(1, 2, "s", "i"))
    error = make_failure(kind="error", phase="request", path="http.connect")
    feeder.feed("a", "f", failure=error)
    feeder.stop()
    [row] = query(tmp_path, "SELECT certificate, metrics, last_success FROM target_states WHERE last_timestamp > 0")
    assert row[0] is not None
    assert row[1] is not None
    assert row[2] == 0


def test_version_rises_when_a_reader_can_see_a_change(tmp_path: Path) -> None:
    """Not with every result: a page that shows the same is not made anew."""
    feeder = make_feeder(tmp_path, "a")
    feeder.open()

    def version() -> int:
        return int(query(tmp_path, "SELECT max(version) FROM target_states")[0][0])

    seen = []
    for number, letter in enumerate("uuufffuugu", start=1):
        feeder.feed("a", letter)
        until(lambda n=number: count(tmp_path) == n)  # type: ignore[misc]
        seen.append(version())
    grew = [after > before for before, after in pairwise(seen)]
    assert grew == [False, False, True, True, False, True, True, True, True]
    assert int(query(tmp_path, "SELECT value FROM meta WHERE key = 'version'")[0][0]) >= seen[-1]
    feeder.writer.put_meta("page", "{}")
    feeder.stop()
    assert int(query(tmp_path, "SELECT value FROM meta WHERE key = 'version'")[0][0]) > seen[-1]


def test_meta_heartbeat_and_missed(tmp_path: Path) -> None:
    """The latest value of a key wins; missed slots are counted in state and rollups."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    for beat in range(5):
        feeder.writer.put_heartbeat(NOW + beat)
    feeder.writer.put_meta("page", '{"title":"ä"}')
    feeder.writer.put_missed("a", NOW, 2)
    feeder.writer.put_missed("a", NOW, 3)
    feeder.stop()
    meta = dict(query(tmp_path, "SELECT key, value FROM meta"))
    assert meta["heartbeat_at"] == str(NOW + 4)
    assert meta["page"] == '{"title":"ä"}'
    assert len(meta["source"]) == 36
    assert query(tmp_path, "SELECT missed_total FROM target_states ORDER BY target_id") == [(5,), (0,)]
    assert query(tmp_path, "SELECT DISTINCT missed FROM rollups") == [(5,)]


# --- targets ---------------------------------------------------------------------------------------------------------


def test_the_running_set_is_kept_in_its_order(tmp_path: Path) -> None:
    """Order, names, labels, masked configuration; a removed target keeps its row and history, and comes back to it."""
    feeder = make_feeder(tmp_path)
    first = make_target(
        id="a", name="Ä <b>", group="G", labels=(("team", "x"),), config_json='{"expect":{"status":[200]}}', summary="s"
    )
    feeder.targets = (first, make_target(id="b", enabled=False))
    feeder.open()
    feeder.feed("a", "uu")
    feeder.writer.put_targets((make_target(id="c"), replace(first, name="new")), NOW + 1)
    until(lambda: query(tmp_path, "SELECT count(*) FROM targets") == [(3,)])
    rows = query(tmp_path, "SELECT key, name, position, enabled, expect, labels, removed_at FROM targets ORDER BY key")
    assert rows == [
        ("a", "new", 1, 1, '{"status":[200]}', '{"team":"x"}', None),
        ("b", "b", 1, 0, "{}", "{}", NOW + 1),
        ("c", "c", 0, 1, "{}", "{}", None),
    ]
    assert query(tmp_path, "SELECT first_result_at FROM targets WHERE key = 'a'") == [(NOW + 1000,)]
    feeder.writer.put_targets(feeder.targets, NOW + 2)
    feeder.stop()
    assert query(tmp_path, "SELECT key FROM targets WHERE removed_at IS NULL") == [("a",), ("b",)]
    again = Writer(tmp_path)
    loaded = again.open()
    assert loaded.removed == {"c"}
    assert loaded.states["a"] == feeder.states["a"]
    again.flush_and_stop(5)


def test_a_target_that_is_removed_while_down_and_comes_back(tmp_path: Path) -> None:
    """Its incident is closed with the reason; the id continues its history at `pending`."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "uff")
    closed = state.close(feeder.states["a"], "removed", NOW + 9000)
    feeder.writer.put(Item(None, closed.state, "a", closed.incident))
    feeder.writer.put_targets((feeder.targets[1],), NOW + 9000)
    feeder.stop()
    assert query(tmp_path, "SELECT resolved_at, resolution FROM incidents") == [(NOW + 9000, "removed")]
    again = make_feeder(tmp_path, "a")
    assert again.open().states["a"].state == "pending"
    again.feed("a", "u")
    again.stop()
    assert query(tmp_path, "SELECT count(*), count(DISTINCT target_id) FROM check_results") == [(4, 1)]
    assert query(tmp_path, "SELECT state FROM target_states ORDER BY target_id") == [("up",), ("pending",)]


def test_events_without_a_target_are_written(tmp_path: Path) -> None:
    """The supervisor's own stream has no row in targets."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    started = feeder.event("_supervisor", "supervisor.started")
    feeder.writer.put(Item(None, state.initial(), "_supervisor", events=(started,)))
    feeder.stop()
    assert query(tmp_path, "SELECT stream, seq, type FROM webhook_events") == [("_supervisor", 1, "supervisor.started")]


def test_events_are_in_the_transaction_of_their_result(tmp_path: Path) -> None:
    """W7: result, state, incident, number and event appear together; the callback comes after."""
    feeder = make_feeder(tmp_path, "a")
    told: list[tuple[int, int]] = []

    def committed(item: Item) -> None:
        told.append((item.events[0].seq, count(tmp_path)))

    feeder.writer = Writer(tmp_path, committed=committed)
    feeder.open()
    feeder.feed("a", "uff", events=True)
    until(lambda: told)
    feeder.stop()
    assert told == [(1, 3)]
    assert query(tmp_path, "SELECT last_seq FROM webhook_streams") == [(1,)]


# --- rollups ---------------------------------------------------------------------------------------------------------


def test_rollups_are_what_the_results_say(tmp_path: Path) -> None:
    """Counts, covered time, durations and percentiles of hours and days, over a restart in the middle."""
    start = NOW - NOW % DAY_MS - DAY_MS + 23 * HOUR_MS
    durations = [3.0 + (n * 7919 % 500) for n in range(400)]
    for half in range(2):
        feeder = make_feeder(tmp_path, "a")
        feeder.open()
        for n in range(200 * half, 200 * (half + 1)):
            letter = "f" if n % 10 == 9 else "u"
            feeder.now = start + n * 30_000
            item = feeder.result("a", letter, duration_ms=durations[n], timings=Timings(dns=1.0, connect=2.0))
            feeder.put(item, maintenance=n % 50 == 0)
        feeder.stop()
    for step, buckets in ((HOUR_MS, 4), (DAY_MS, 2)):
        rows = query(tmp_path, "SELECT * FROM rollups WHERE step = ? ORDER BY bucket", step)
        assert len(rows) == buckets
        for row in rows:
            bucket = row[2]
            inside = [n for n in range(400) if start + n * 30_000 - (start + n * 30_000) % step == bucket]
            assert row[3:5] == (
                sum(1 for n in inside if n % 10 != 9 and n % 50),
                sum(1 for n in inside if n % 10 == 9),
            )
            assert row[8] == sum(1 for n in inside if n % 50 == 0)
            last = start + 399 * 30_000
            assert row[9] == min(bucket + step, last) - max(bucket, start)
            values = sorted(durations[n] for n in inside)
            assert row[10] == pytest.approx(sum(values))
            assert (row[11], row[12]) == (values[0], values[-1])
            assert histogram.total(row[13]) == len(values)
            assert histogram.quantile(row[13], 0.5) == pytest.approx(values[len(values) // 2], rel=0.05)
            if step == HOUR_MS:
                assert json.loads(row[14]) == {
                    "dns": [len(inside), len(inside)],
                    "connect": [2 * len(inside), len(inside)],
                }
            else:
                assert row[14] is None


def test_a_result_covers_two_intervals_and_timeout_at_most(tmp_path: Path) -> None:
    """O5: a gap is neither up nor down; a result's time is split where hours end."""
    feeder = make_feeder(tmp_path, "a")  # interval 30 s, timeout 3 s
    feeder.open()
    start = NOW - NOW % DAY_MS - 30_000
    for at in (start, start + 600_000, start + 620_000):
        feeder.now = at
        feeder.put(feeder.result("a", "u"))
    feeder.stop()
    rows = query(tmp_path, "SELECT bucket - ?, covered_ms FROM rollups WHERE step = ? ORDER BY bucket", start, HOUR_MS)
    assert [row[1] for row in rows] == [30_000, 33_000 + 20_000]


def test_w11_a_clock_set_back_counts_nothing_twice_as_up(tmp_path: Path) -> None:
    """W11, S01: results at 100, 90 (clock back) and 110: three results, uptime two of three, no negative time."""
    feeder = make_feeder(tmp_path, "a")
    feeder.open()
    for second, letter in ((100, "u"), (90, "u"), (110, "f")):
        feeder.now = NOW + second * 1000
        feeder.put(feeder.result("a", letter))
    feeder.stop()
    [(matched, failed, covered)] = query(
        tmp_path, "SELECT sum(matched), sum(failed), min(covered_ms) FROM rollups WHERE step = ?", DAY_MS
    )
    assert (matched, failed) == (2, 1)
    assert covered >= 0


# --- stop ------------------------------------------------------------------------------------------------------------


def test_a_clean_stop_leaves_what_a_reader_needs(tmp_path: Path) -> None:
    """web.md: everything is in the file, empty -wal and -shm are there."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    assert {name: os.path.getsize(tmp_path / name) for name in ("checkvisor.db-wal", "checkvisor.db-shm")} == {
        "checkvisor.db-wal": 0,
        "checkvisor.db-shm": 0,
    }
    assert count(tmp_path) == 1


def test_the_database_is_made_as_designed(tmp_path: Path) -> None:
    """auto_vacuum incremental, WAL, our application id; foreign keys hold."""
    feeder = make_feeder(tmp_path)
    feeder.open()
    feeder.feed("a", "u")
    feeder.stop()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as raw:
        assert raw.execute("PRAGMA auto_vacuum").fetchone() == (2,)
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert raw.execute("PRAGMA application_id").fetchone() == (0x43484B56,)
        assert raw.execute("PRAGMA foreign_key_check").fetchall() == []
        assert raw.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_many_threads_may_hand_over(tmp_path: Path) -> None:
    """Delivery threads and the loop put at the same time; nothing is lost."""
    names = [f"t{n}" for n in range(8)]
    feeder = make_feeder(tmp_path, *names)
    feeder.open()

    def work(name: str) -> None:
        for n in range(200):
            result = make_result(target_id=name, timestamp_ms=NOW + n)
            feeder.writer.put(Item(result, replace(state.initial(), state="up"), name))

    threads = [threading.Thread(target=work, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    feeder.stop()
    assert query(tmp_path, "SELECT count(*), count(DISTINCT target_id) FROM check_results") == [(1600, 8)]
