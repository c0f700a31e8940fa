"""Names to addresses, by the deadline. Nothing bounds getaddrinfo, not even a signal, so it runs in a thread: when the
deadline passes first, the thread is left to end its call alone and serves again afterwards."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
from dataclasses import dataclass
from typing import Any

from supervisor.deadline import Deadline, DeadlineExpired
from supervisor.net.budget import left_s
from supervisor.net.failure import NetFailure

_MOST_HANGING = 16
_FAMILY = {"any": socket.AF_UNSPEC, "4": socket.AF_INET, "6": socket.AF_INET6}
_MOST_ADDRESSES = 20


@dataclass(frozen=True, slots=True)
class Address:
    """One address to dial. `ip` is numeric, `peer` is how it is shown: `127.0.0.1:80`, `[::1]:80`."""

    family: int
    sockaddr: Any
    ip: str
    peer: str


def peer_name(host: str, port: int) -> str:
    """`host:port` as people write it, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def resolve(host: str, port: int, ip_version: str, deadline: Deadline) -> tuple[Address, ...]:
    """All addresses of `host` in the system's order, the families taking turns (RFC 8305); numeric hosts at once.

    Raises NetFailure("dns") and DeadlineExpired."""
    if ip_version != "6" and _is_dotted(host):
        return (Address(socket.AF_INET, (host, port), host, f"{host}:{port}"),)
    found = _look_up(host, port, _FAMILY[ip_version], deadline)
    if isinstance(found, OSError | UnicodeError | ValueError):
        raise NetFailure("dns", _sentence(found, host, ip_version)) from found
    addresses = _in_turns(found)
    if not addresses:
        raise NetFailure("dns", f"{host} has no {_kind(ip_version)} address")
    return addresses


def _is_dotted(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, host)
    except (OSError, ValueError):
        return False
    return True


def _in_turns(found: list[Any]) -> tuple[Address, ...]:
    by_family: dict[int, list[Address]] = {}
    for family, _type, _protocol, _name, sockaddr in found:
        if family not in (socket.AF_INET, socket.AF_INET6):
            continue
        ip = str(sockaddr[0])
        address = Address(family, sockaddr, ip, peer_name(ip, sockaddr[1]))
        group = by_family.setdefault(family, [])
        if address not in group:
            group.append(address)
    groups = list(by_family.values())
    longest = max(map(len, groups), default=0)
    turns = [group[place] for place in range(longest) for group in groups if place < len(group)]
    return tuple(turns[:_MOST_ADDRESSES])


# --- the threads -----------------------------------------------------------------------------------------------------


class _Job:
    """One look-up; `done` is released when `found` is there."""

    __slots__ = ("done", "family", "found", "host", "port")

    def __init__(self, host: str, port: int, family: int) -> None:
        self.host = host
        self.port = port
        self.family = family
        self.found: Any = None
        self.done = threading.Lock()
        self.done.acquire()


class _Resolver(threading.Thread):
    """Serves one look-up at a time. A daemon: a hanging name server must not keep the process from ending."""

    def __init__(self) -> None:
        super().__init__(name="resolver", daemon=True)
        self.jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()

    def run(self) -> None:
        # Signals belong to the main thread: one that wakes this thread would come too late there.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            job = self.jobs.get()
            try:
                # As bytes: the `idna` codec refuses names that resolvers accept. An empty name would mean loopback.
                name = job.host.encode("ascii") if job.host.isascii() else job.host
                job.found = socket.getaddrinfo(name, job.port, job.family, socket.SOCK_STREAM)
            except (OSError, UnicodeError, ValueError, OverflowError) as error:
                job.found = error
            # First into the row, then the answer: whoever waits may look something up again at once.
            _idle.append(self)
            job.done.release()


_idle: list[_Resolver] = []  # pop and append are atomic; a lock could stay taken when SIGALRM raises
_hanging: list[_Job] = []
os.register_at_fork(after_in_child=_idle.clear)
os.register_at_fork(after_in_child=_hanging.clear)


def _look_up(host: str, port: int, family: int, deadline: Deadline) -> Any:
    """What getaddrinfo gave, or the exception it raised."""
    try:
        resolver = _idle.pop()
    except IndexError:
        _hanging[:] = [job for job in _hanging if job.done.locked()]
        if len(_hanging) >= _MOST_HANGING:
            message = f"{host} was not looked up: {len(_hanging)} earlier look-ups still wait for the name server"
            raise NetFailure("dns", message) from None
        resolver = _Resolver()
        resolver.start()
    job = _Job(host, port, family)
    resolver.jobs.put(job)
    found = False
    try:
        found = job.done.acquire(timeout=left_s(deadline))
    finally:
        if not found:
            _hanging.append(job)
    if not found:
        raise DeadlineExpired
    return job.found


def _kind(ip_version: str) -> str:
    return "IP" if ip_version == "any" else f"IPv{ip_version}"


_UNKNOWN_NAME = {socket.EAI_NONAME}
_NO_DATA = {getattr(socket, name) for name in ("EAI_NODATA", "EAI_ADDRFAMILY") if hasattr(socket, name)}


def _sentence(error: Exception, host: str, ip_version: str) -> str:
    if not isinstance(error, socket.gaierror):
        return f"{host[:255]} is not a valid host name"
    if error.errno in _NO_DATA or (error.errno in _UNKNOWN_NAME and ip_version != "any"):
        return f"{host} does not exist or has no {_kind(ip_version)} address"
    if error.errno in _UNKNOWN_NAME:
        return f"the name {host} does not exist"
    if error.errno == socket.EAI_AGAIN:
        return f"the name server gave no answer for {host} (a temporary failure)"
    if error.errno == socket.EAI_FAIL:
        return f"the name server failed to answer for {host}"
    return f"looking up {host} failed: {error.strerror or error}"
