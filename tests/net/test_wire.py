"""The HTTP/1.1 reader on arbitrary bytes."""

from __future__ import annotations

import contextlib
import socket

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from supervisor.deadline import Deadline
from supervisor.net import NetFailure
from supervisor.net.wire import BodyStream, Reader, framing, parse_head, read_head

PIECES = st.sampled_from(
    [
        b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 C\r\n\r\n", b"\r\n", b"\n", b"\r", b"\0", b"Content-Length: 3\r\n",
        b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n", b"A: b\r\n", b" fold\r\n", b"3\r\nabc\r\n",
        b"0\r\n", b"abc", b"ffffffffffffffff\r\n", b";x", b"-1", b":",
    ]
)  # fmt: skip


def answer(data: bytes, method: str = "GET") -> tuple[int, bytes]:
    """Status and body of these bytes followed by the end of the stream."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        reader = Reader(ours, Deadline(5), "peer")
        head = read_head(reader)
        return head.status, b"".join(BodyStream(reader, framing(head, method)).chunks(10_000))


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.lists(PIECES, max_size=12).map(b"".join), st.binary(max_size=300)))
@example(b"HTTP/1.1 200 OK\r\n" * 3)
def test_arbitrary_bytes_give_an_answer_or_a_failure(data: bytes) -> None:
    """Whatever comes, it is an answer or a NetFailure with one line of text: nothing else, and no wait."""
    message = "none"
    try:
        assert 100 <= answer(data)[0] <= 999
    except NetFailure as failure:
        message = failure.message
    assert message.isprintable()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=50), max_size=6), st.data())
def test_a_whole_body_comes_out_and_a_cut_one_never_does(chunks: list[bytes], data: st.DataObject) -> None:
    """What was sent in chunks comes out; the same answer cut anywhere is a failure."""
    coded = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + coded
    assert answer(whole) == (200, b"".join(chunks))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(NetFailure):
        answer(whole[:cut])


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(max_codepoint=255), max_size=200))
def test_heads_parse_or_fail(text: str) -> None:
    """A head of any latin-1 text parses, or fails as NetFailure."""
    for head in (text, f"HTTP/1.1 200 OK\r\n{text}\r\n\r\n"):
        with contextlib.suppress(NetFailure):
            parse_head(head.replace("\n\n", "\n").replace("\n\r\n", "\n") + "\n\n")
