"""Connects to the first of several addresses that answers. They share one budget: the next one is tried beside a silent
one after a short while (RFC 8305), so a dead first address costs a quarter of a second and not the whole timeout."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Sequence

from supervisor.deadline import Deadline, DeadlineExpired, HeldBack
from supervisor.net.budget import left_s
from supervisor.net.failure import NetFailure, sentence, timed_out
from supervisor.net.resolve import Address

_STAGGER_S = 0.25


def dial(
    addresses: Sequence[Address], deadline: Deadline, budget_s: float | None = None
) -> tuple[socket.socket, Address]:
    """A connected socket and the address it goes to. The budget ends with the deadline at the latest.

    Raises NetFailure("connect") when every address failed or the budget is used up, and DeadlineExpired."""
    left = left_s(deadline)
    if budget_s is None or budget_s >= left:
        end, own_limit = time.monotonic() + left, None
    else:
        end, own_limit = time.monotonic() + budget_s, budget_s
    if len(addresses) == 1:
        return _dial_one(addresses[0], end, own_limit), addresses[0]
    race = _Race(addresses, end)
    try:
        winner = race.run()
    finally:
        race.close()
    if winner is not None:
        return winner
    if own_limit is None:
        raise DeadlineExpired
    raise NetFailure("connect", f"no connection within {own_limit:g} s: {race.told()}")


def _dial_one(address: Address, end: float, own_limit: float | None) -> socket.socket:
    sock: socket.socket | None = None
    try:
        with HeldBack():  # until it is held here, nobody could close it
            sock = socket.socket(address.family, socket.SOCK_STREAM)
        sock.settimeout(max(end - time.monotonic(), 0.001))
        sock.connect(address.sockaddr)
    except OSError as error:
        if sock is not None:
            sock.close()
        if not timed_out(error):
            raise NetFailure("connect", sentence(error, address.peer)) from error
        if own_limit is None:
            raise DeadlineExpired from error
        raise NetFailure("connect", f"no connection to {address.peer} within {own_limit:g} s") from error
    except BaseException:
        if sock is not None:
            sock.close()
        raise
    return sock


class _Race:
    """Connection attempts side by side; the first that stands wins, the rest are closed."""

    def __init__(self, addresses: Sequence[Address], end: float) -> None:
        self._waiting = list(reversed(addresses))
        self._end = end
        self._stagger_s = min(_STAGGER_S, max(end - time.monotonic(), 0) / (len(addresses) + 1))
        self._running: dict[int, tuple[socket.socket, Address]] = {}
        self._poller = select.poll()
        self._faults: list[str] = []

    def run(self) -> tuple[socket.socket, Address] | None:
        """The winner, or None at the end of the budget. Raises NetFailure when every address has failed."""
        next_start = time.monotonic()
        while True:
            now = time.monotonic()
            if now >= self._end:
                return None
            if self._waiting and (now >= next_start or not self._running):
                with HeldBack():  # nothing in it waits, and a socket is known only at its end
                    winner = self._start(self._waiting.pop())
                if winner is not None:
                    return winner
                next_start = now + self._stagger_s
                continue
            if not self._running:
                raise NetFailure("connect", f"no address answers: {self.told()}")
            until = min(self._end, next_start) if self._waiting else self._end
            for descriptor, _event in self._poller.poll(max(until - now, 0.0) * 1000 + 1):
                winner = self._finish(descriptor)
                if winner is not None:
                    return winner
                next_start = now

    def _start(self, address: Address) -> tuple[socket.socket, Address] | None:
        try:
            sock = socket.socket(address.family, socket.SOCK_STREAM)
        except OSError as error:
            self._faults.append(sentence(error, address.peer))
            return None
        sock.setblocking(False)
        code = sock.connect_ex(address.sockaddr)
        if code == 0:
            return sock, address
        if code != errno.EINPROGRESS:
            sock.close()
            self._faults.append(sentence(OSError(code, ""), address.peer))
            return None
        self._running[sock.fileno()] = (sock, address)
        self._poller.register(sock, select.POLLOUT)
        return None

    def _finish(self, descriptor: int) -> tuple[socket.socket, Address] | None:
        sock, address = self._running.pop(descriptor)
        self._poller.unregister(descriptor)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code == 0:
            return sock, address
        sock.close()
        self._faults.append(sentence(OSError(code, ""), address.peer))
        return None

    def told(self) -> str:
        """What became of each address, for the message."""
        silent = [f"no answer from {address.peer}" for _sock, address in self._running.values()]
        told = self._faults + silent
        more = len(told) - 4
        return ", ".join(told[:4]) + (f" and {more} more" if more > 0 else "")

    def close(self) -> None:
        for sock, _address in self._running.values():
            sock.close()
