"""How other threads ask the loop for something that only the main thread may do or look at."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class Mailbox:
    """Calls made by other threads, carried out by the loop's next turn. Also wakes the loop up for signals."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self.reader, self.writer = socket.socketpair()
        self.reader.setblocking(False)
        self.writer.setblocking(False)

    def wake(self) -> None:
        """Make the loop turn now."""
        try:
            self.writer.send(b"\0")
        except BlockingIOError:
            return  # the pipe is full of wake-ups already

    def ask(self, call: Callable[[], Answer], timeout_s: float = 2.0) -> Answer:
        """Run `call` in the main thread and return what it gives. Raises TimeoutError when the loop does not turn."""
        future: Future[Answer] = Future()
        self._calls.append((call, future))
        self.wake()
        return future.result(timeout_s)

    def post(self, call: Callable[[], Any]) -> None:
        """Run `call` in the main thread, without waiting."""
        self._calls.append((call, Future()))
        self.wake()

    def ready(self, _fileobj: object, _mask: int) -> None:
        """The selector's callback: forget the wake-ups."""
        try:
            while self.reader.recv(4096):
                continue
        except BlockingIOError:
            return

    def turn(self) -> None:
        """Carry out what was asked."""
        while self._calls:
            call, future = self._calls.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except (KeyError, ValueError, OSError) as error:  # the asking thread's to tell
                future.set_exception(error)

    def close(self) -> None:
        """Close both ends."""
        self.reader.close()
        self.writer.close()
