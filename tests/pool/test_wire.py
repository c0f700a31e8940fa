"""What passes between pool and worker: orders that only one side can get, frames, targets, places."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import select
import time
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from supervisor.model import Secret
from supervisor.pool.wire import (
    FREED,
    ORDER_BYTES,
    VERDICT,
    Board,
    Catalogue,
    Descriptor,
    Frame,
    Order,
    Row,
    frames,
    order_pipe,
    read_target,
    ticks,
)
from supervisor.processes import look
from tests.make import make_failure, make_result, make_target


@given(st.lists(st.integers(0, 2**63), max_size=5), st.integers(1, 40))
def test_frames_come_out_whole_however_the_bytes_come_in(ids: list[int], step: int) -> None:
    """A pipe knows no messages."""
    sent = [Frame(VERDICT | FREED, id_, 1.5, make_result(False, target_id=str(id_))) for id_ in ids]
    data = b"".join(frame.pack() for frame in sent)
    buffer, got = bytearray(), []
    for start in range(0, len(data), step):
        buffer += data[start : start + step]
        got += list(frames(buffer))
    assert got == sent
    assert not buffer


def test_a_result_arrives_as_it_was() -> None:
    """With failure, secrets and all."""
    result = make_result(False, failure=make_failure(actual="\u20ac", expected=None), status_detail="HTTP 503")
    assert next(frames(bytearray(Frame(VERDICT, 1, 0.0, result).pack()))).payload == result
    assert pickle.loads(pickle.dumps(Secret("A", "b"))) == Secret("A", "b")


def _taker(inbox: int, outbox: int) -> None:
    poll = select.poll()
    poll.register(inbox, select.POLLIN)
    while True:
        try:
            data = os.read(inbox, ORDER_BYTES)
        except BlockingIOError:
            poll.poll()
            continue
        if not data:
            return
        os.write(outbox, data)


def test_each_order_is_got_by_exactly_one_side() -> None:
    """Two processes read one pipe of orders: none is lost, none is had twice."""
    inbox_read, inbox_write = order_pipe()
    outbox_read, outbox_write = os.pipe()
    os.set_blocking(outbox_read, False)
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_taker, args=(Descriptor(inbox_read), Descriptor(outbox_write)))
    process.start()
    os.close(outbox_write)
    mine, theirs = set(), set()

    def collect() -> None:
        try:
            while data := os.read(outbox_read, ORDER_BYTES):
                assert Order.unpack(data).run_id not in theirs
                theirs.add(Order.unpack(data).run_id)
        except BlockingIOError:
            pass

    sent = 0
    deadline = time.monotonic() + 20
    while sent < 3000 and time.monotonic() < deadline:
        try:
            os.write(inbox_write, Order(sent, 1, 2, 3).pack())
            sent += 1
        except BlockingIOError:
            pass
        if sent % 7 == 0:
            with suppress(BlockingIOError):
                mine.add(Order.unpack(os.read(inbox_read, ORDER_BYTES)).run_id)
        collect()
    os.close(inbox_write)
    process.join(10)
    collect()
    assert mine | theirs == set(range(sent))
    assert not mine & theirs
    for descriptor in (inbox_read, outbox_read):
        os.close(descriptor)
    process.close()


def test_the_catalogue_gives_each_order_its_own_version() -> None:
    """An order under way keeps its target, whatever is changed meanwhile; places are used again later."""
    catalogue = Catalogue()
    first = make_target(id="a", name="one")
    order = catalogue.order(1, first)
    assert catalogue.order(2, first).version == order.version, "written once"
    for i in range(50):
        changed = catalogue.order(3 + i, make_target(id="a", name=f"other {i}"))
        assert read_target(catalogue.descriptor, changed).name == f"other {i}"
        assert read_target(catalogue.descriptor, order).name == "one"
        catalogue.release(3 + i)
    assert os.fstat(catalogue.descriptor).st_size < 20 * 512, "outdated ones give their place back"
    catalogue.release(1)
    catalogue.release(2)
    catalogue.forget(frozenset())
    assert catalogue.order(99, first).version > order.version
    catalogue.close()


def test_a_worker_gets_what_it_needs_and_no_more() -> None:
    """Labels and the configuration as text stay with the supervisor."""
    catalogue = Catalogue()
    target = make_target(id="a", labels=(("team", "shop"),), config_json='{"x": 1}', secrets=(Secret("T", "v"),))
    got = read_target(catalogue.descriptor, catalogue.order(1, target))
    assert (got.settings, got.expect, got.secrets, got.timeout_s) == (
        target.settings,
        target.expect,
        target.secrets,
        target.timeout_s,
    )
    assert got.labels == ()
    catalogue.close()


def test_the_board_tells_the_last_place() -> None:
    """Rows do not touch each other; a long path is cut; a reported process is known by its start."""
    board = Board.create(2)
    first, second = Row(board.descriptor, 0), Row(board.descriptor, 1)
    first.mark("body", "expect.body[1].json($.ü)")
    second.mark("exec", "x" * 5000)
    first.report(-1)
    assert board.read(0).session == -1
    first.report(os.getpid())
    place = board.read(0)
    assert (place.phase, place.path, place.session) == ("body", "expect.body[1].json($.ü)", os.getpid())
    me = look(os.getpid())
    assert me is not None
    assert not place.is_leader(me), "this process is older than the report"
    assert place.earliest <= ticks() <= place.latest + 100
    assert board.read(1).path.startswith("xxx")
    assert len(board.read(1).path) < 1024
    board.clear(0)
    assert (board.read(0).session, board.read(0).phase) == (0, "")
    board.close()
