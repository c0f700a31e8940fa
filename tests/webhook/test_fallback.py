"""When the store fails (W18 to W24): numbers go on, deliveries go on, nothing is sent twice, nothing is silent."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from supervisor.webhook.fallback import HighWater, Room
from tests.webhook.handwriter import HandRig
from tests.webhook.rig import FakeClock, Reply, Rig, always, endpoint, receiver


def degrade(rig: HandRig, wait_until: Any) -> None:
    """Break the store and let everybody notice, with one event that can't be written."""
    rig.writer.set_broken(True)
    rig.send("_noticed", "target.result")  # nobody wants it: only an item without event
    wait_until(rig.degraded)


def test_w21_deliveries_go_on_from_disk_and_then_from_memory_in_order(tmp_path: Path, wait_until: Any) -> None:
    """Events that were on disk go first, those of the fault follow; recovery sends nothing again."""
    with receiver() as got:
        got.default = always(500)
        with HandRig(tmp_path, endpoint("ops", got.url)) as rig:
            for _ in range(3):
                rig.send("a")
            wait_until(lambda: len(rig.writer.committed_events) == 3)
            wait_until(lambda: len(got.got) == 1)
            degrade(rig, wait_until)
            got.default = always(200)
            for _ in range(3):
                assert not rig.hooks.full("a")
                rig.send("a", "target.up")
            rig.advance(7)
            wait_until(lambda: rig.pending() == 0)
            assert rig.hooks.stats().events["degraded"] == 1
            assert rig.hooks.stats().degraded_streams == 1
            assert rig.rows("SELECT acked_seq FROM webhook_cursors") == [{"acked_seq": 0}]
            rig.writer.set_broken(False)
            wait_until(lambda: not rig.degraded())
            wait_until(rig.writer.idle)
            wait_until(lambda: rig.rows("SELECT acked_seq FROM webhook_cursors") == [{"acked_seq": 6}])
            assert rig.rows("SELECT count(*) AS n FROM webhook_events") == [{"n": 6}]
            assert rig.hooks.stats().memory_events == 0
            rig.send("a")
            wait_until(lambda: rig.pending() == 0)
        with HandRig(tmp_path, endpoint("ops", got.url)) as rig:
            assert rig.pending() == 0
        assert got.ids() == ["a:1"] + [f"a:{seq}" for seq in range(1, 8)]


def test_w21_an_outcome_the_writer_had_when_it_broke_is_not_waited_for(tmp_path: Path, wait_until: Any) -> None:
    """The lane goes on although the commit of its last outcome never comes."""
    with receiver() as got, HandRig(tmp_path, endpoint("ops", got.url)) as rig:
        got.default = lambda _seen: Reply(after_s=0.3)
        rig.send("a")
        rig.send("a")
        wait_until(lambda: len(got.got) == 1)
        rig.writer.set_broken(True)
        wait_until(lambda: got.ids() == ["a:1", "a:2"], seconds=8)
        wait_until(lambda: rig.pending() == 0)
        rig.writer.set_broken(False)
        wait_until(lambda: rig.rows("SELECT acked_seq FROM webhook_cursors") == [{"acked_seq": 2}], seconds=8)
        assert got.ids() == ["a:1", "a:2"]


def test_w22_numbers_used_in_a_fault_are_never_used_again(tmp_path: Path, wait_until: Any) -> None:
    """After a crash in a fault every stream starts above the highest number any stream may have used."""
    with receiver() as got:
        rig = HandRig(tmp_path, endpoint("ops", got.url)).start()
        rig.send("a")
        wait_until(lambda: rig.rows("SELECT acked_seq FROM webhook_cursors") == [{"acked_seq": 1}])
        degrade(rig, wait_until)
        for _ in range(5):
            assert not rig.hooks.full("a")
            rig.send("a", "target.up")
        wait_until(lambda: len(got.got) == 6)
        assert HighWater(tmp_path).load() >= 6
        rig.crash()
        with HandRig(tmp_path, endpoint("ops", got.url)) as rig:
            (first,) = rig.send("a")
            (other,) = rig.send("b")
            assert first.seq > 6
            assert other.seq > 6
            wait_until(lambda: rig.pending() == 0)
        bodies = {item.body["eventId"]: item.raw for item in got.got}
        assert len(bodies) == 8


def test_w22_without_a_place_for_numbers_events_wait(tmp_path: Path, wait_until: Any) -> None:
    """Neither file can be written: no number is taken, and what has one is not sent."""
    with receiver() as got:
        missing = tmp_path / "missing"
        with HandRig(tmp_path, endpoint("ops", got.url), data_dir=missing, runtime_dir=missing) as rig:
            assert not rig.hooks.full("a")
            rig.writer.set_broken(True)
            rig.send("a")
            wait_until(rig.degraded)
            assert rig.hooks.full("a")
            assert rig.hooks.stats().waiting_streams == 1
            rig.advance(3)
            missing.mkdir()
            assert not rig.hooks.full("a")
            assert rig.hooks.stats().waited_s == pytest.approx(3)
            rig.advance(6)
            wait_until(lambda: got.ids() == ["a:1"])


@pytest.mark.parametrize("slot", [0, 32])
def test_w22_a_torn_write_leaves_the_number_before_it(tmp_path: Path, slot: int) -> None:
    """Of two slots one is always whole, and the number in it is the one up to which numbers were used."""
    marks = HighWater(tmp_path)
    assert marks.load() == 0
    assert marks.cover(5)
    first = marks.value
    assert marks.cover(first + 1)
    file = tmp_path / "checkvisor.seq"
    content = bytearray(file.read_bytes())
    assert len(content) == 64
    torn_newest = f"{marks.value:020d}".encode() == bytes(content[slot : slot + 20])
    content[slot + 10 : slot + 32] = b"\0" * 22
    file.write_bytes(content)
    assert HighWater(tmp_path).load() == (first if torn_newest else marks.value)


def test_w22_the_higher_of_both_files_counts(tmp_path: Path) -> None:
    """The run-time directory's file survives a restart, the data directory's file a reboot; both are brought up."""
    (tmp_path / "data").mkdir()
    (tmp_path / "run").mkdir()
    HighWater(tmp_path / "run").cover(500)
    both = HighWater(tmp_path / "data", tmp_path / "run")
    assert both.load() == 600
    assert HighWater(tmp_path / "data").load() == 600
    (tmp_path / "run" / "checkvisor.seq").write_bytes(b"rubbish")
    assert HighWater(tmp_path / "data", tmp_path / "run").load() == 600
    assert HighWater(tmp_path / "run").load() == 600


def test_w19_only_the_streams_without_a_place_wait() -> None:
    """A stream beyond its 4 places waits when the shared rest is used up; every other has its own 4."""
    room = Room(total=20, reserved=4)
    streams = 3
    while not room.full("loud", streams):
        room.take("loud")
    assert room.count == 4 + 8
    for _ in range(4):
        assert not room.full("quiet", streams)
        room.take("quiet")
    assert room.full("quiet", streams)
    room.give_back("loud")
    assert not room.full("quiet", streams)
    for _ in range(4):
        room.give_back("quiet")
    assert room.count == 11


def test_w19_full_memory_holds_up_only_its_own_stream(tmp_path: Path, wait_until: Any) -> None:
    """In a fault with a dead receiver the loud stream fills the memory; another still gets its event in."""
    with HandRig(tmp_path, endpoint("ops", "http://127.0.0.1:9/", events=("result", "down")), memory=20) as rig:
        rig.send("quiet")
        rig.send("loud")
        wait_until(lambda: len(rig.writer.committed_events) == 2)
        degrade(rig, wait_until)
        sent = 0
        while not rig.hooks.full("loud"):
            rig.send("loud", "target.result")
            sent += 1
            assert sent < 100
        assert not rig.hooks.full("quiet")
        rig.send("quiet")
        rig.writer.set_broken(False)
        wait_until(lambda: not rig.hooks.full("loud"))


def test_w23_dead_letters_of_a_fault_are_kept_and_stored_later(tmp_path: Path, wait_until: Any) -> None:
    """What fails for good while the store is away has its dead letter after it."""
    with receiver() as got, HandRig(tmp_path, endpoint("ops", got.url, permanent_retries_s=(0.0,))) as rig:
        got.default = always(404)
        rig.send("a")
        wait_until(lambda: rig.pending() == 0)
        degrade(rig, wait_until)
        for _ in range(3):
            rig.send("a")
        wait_until(lambda: rig.pending() == 0)
        rig.writer.set_broken(False)
        wait_until(lambda: len(rig.rows("SELECT * FROM webhook_dead_letters")) == 4, seconds=8)
        assert got.ids() == ["a:1", "a:2", "a:3", "a:4"]


def test_w24_events_lost_at_shutdown_are_named_and_counted(
    tmp_path: Path, wait_until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The store stays away until the end: each event only in memory is logged with its id and counted `dropped`."""
    rig = HandRig(tmp_path, endpoint("ops", "http://127.0.0.1:9/")).start()
    rig.send("a")
    wait_until(lambda: len(rig.writer.committed_events) == 1)
    degrade(rig, wait_until)
    rig.send("a")
    rig.send("b")
    with caplog.at_level(logging.ERROR):
        rig.stop()
        assert rig.hooks.close() == 2
    lost = {record.checkvisor_fields["event_id"] for record in caplog.records if record.message == "webhook.dropped"}
    assert lost == {"a:2", "b:1"}
    assert rig.hooks.stats().events["dropped"] == 2


@pytest.mark.slow
def test_the_real_writer_behind_a_locked_database(tmp_path: Path, wait_until: Any) -> None:
    """Another program holds the database's write lock: events are delivered all the same, and stored afterwards."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), writer={"retry_s": 0.2}, clock=FakeClock()) as rig:
        rig.declare("a", "b")
        rig.send("a")
        wait_until(lambda: rig.pending() == 0)
        wait_until(lambda: rig.writer.stats().queued == 0)
        blocker = sqlite3.connect(rig.writer.path, isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        rig.send("a", "target.up")
        rig.send("b")
        wait_until(lambda: sorted(got.ids()) == ["a:1", "a:2", "b:1"], seconds=20)
        assert rig.writer.stats().degraded_since is not None
        blocker.execute("ROLLBACK")
        blocker.close()
        wait_until(lambda: rig.writer.stats().degraded_since is None, seconds=10)
        wait_until(
            lambda: [row["acked_seq"] for row in rig.rows("SELECT * FROM webhook_cursors")] == [2, 1], seconds=10
        )
    assert sorted(got.ids()) == ["a:1", "a:2", "b:1"]
