"""Reads what a process writes: several streams at once, under one byte cap and one deadline.

Waits for the process itself too (a pidfd), for neither tells of the other: a process can close its streams and go on,
and a grandchild can hold them open after its end.
"""

from __future__ import annotations

import math
import os
import select
import time
from typing import Literal

CaptureEnd = Literal["done", "cap", "deadline"]

_READ_BYTES = 65536
_DRAIN_S = 0.5
_FIRST_WAIT_S = 0.005


class Capture:
    """The streams of one process. Takes over the descriptors; `close` releases them."""

    def __init__(self, streams: tuple[int, ...], process: int, limit_bytes: int) -> None:
        self._streams = streams
        self._process = process
        self._limit_bytes = limit_bytes
        self._chunks: dict[int, list[bytes]] = {stream: [] for stream in streams}
        self._open = set(streams)
        self.size = 0
        self.over: int | None = None  # the index of the stream that went over the cap

    def read(self, deadline_at: float) -> CaptureEnd:
        """Read until the process has ended and its streams have too (or 0.5 s later), the cap or the deadline."""
        poll = select.poll()
        poll.register(self._process, select.POLLIN)
        # most commands end at once: to wait for that first, not for each stream's end, saves wake-ups
        poll.poll(max(0.0, min(_FIRST_WAIT_S, deadline_at - time.monotonic())) * 1000)
        for descriptor in self._streams:
            poll.register(descriptor, select.POLLIN)
        running = True
        until = deadline_at
        while running or self._open:
            left_s = until - time.monotonic()
            if left_s <= 0:
                return "deadline" if running else "done"
            for descriptor, _ in poll.poll(math.ceil(left_s * 1000)):
                if descriptor == self._process:
                    running = False
                    poll.unregister(descriptor)
                    now = time.monotonic()
                    # a stream held open must not make a timeout of a process that has ended in time
                    until = now + min(_DRAIN_S, max(deadline_at - now, 0.0) * 0.8)
                elif not self._take(descriptor):
                    poll.unregister(descriptor)
                elif self.size > self._limit_bytes:
                    self.over = self._streams.index(descriptor)
                    return "cap"
        return "done"

    def content(self, index: int) -> bytes:
        """All that came on this stream, up to the cap."""
        chunks = self._chunks[self._streams[index]]
        if len(chunks) > 1:
            chunks[:] = [b"".join(chunks)]
        return chunks[0] if chunks else b""

    def tail(self, index: int, limit_bytes: int) -> bytes:
        """The last bytes of this stream, for a message."""
        kept: list[bytes] = []
        missing = limit_bytes
        for chunk in reversed(self._chunks[self._streams[index]]):
            kept.append(chunk[-missing:])
            missing -= len(kept[-1])
            if missing <= 0:
                break
        return b"".join(reversed(kept))

    def close(self) -> None:
        """Release the descriptors; who still writes gets SIGPIPE."""
        for descriptor in (*self._streams, self._process):
            os.close(descriptor)

    def _take(self, descriptor: int) -> bool:
        data = os.read(descriptor, _READ_BYTES)
        if not data:
            self._open.discard(descriptor)
            return False
        self._chunks[descriptor].append(data)
        self.size += len(data)
        return True
