"""What passes between the pool and a worker process: orders in, frames out, and two pieces of shared memory.

An order is 28 bytes in a packet pipe. The pool holds that pipe's read end too, so it can take an order back that the
worker has not begun: a read is the only way to get it, and only one of both can succeed. The target itself lies in the
catalogue (written once, read by any worker), the worker's present place in its row of the board.
"""

from __future__ import annotations

import copyreg
import fcntl
import mmap
import os
import pickle
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from multiprocessing import reduction
from operator import attrgetter
from typing import Any

from supervisor.model import Certificate, CheckFailure, CheckResult, Metric, ResolvedTarget, Secret, Timings
from supervisor.processes import Seen

# --- orders: pool -> worker ------------------------------------------------------------------------------------------

_ORDER = struct.Struct("<QQQI")  # far below PIPE_BUF, so a packet is read whole or not at all
ORDER_BYTES = _ORDER.size
_PACKETS = 4  # one that runs and three ahead; each takes a page


@dataclass(frozen=True, slots=True)
class Order:
    """Run this target: `version` names it (never reused), `offset` and `length` say where the catalogue has it."""

    run_id: int
    version: int
    offset: int
    length: int

    def pack(self) -> bytes:
        return _ORDER.pack(self.run_id, self.version, self.offset, self.length)

    @classmethod
    def unpack(cls, data: bytes) -> Order:
        return cls(*_ORDER.unpack(data))


def order_pipe() -> tuple[int, int]:
    """(read end, write end): non-blocking, each write one packet, room for a few. Both ends close on exec."""
    pair = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK | os.O_DIRECT)
    with suppress(PermissionError):  # short already, for a user with very many pipes
        fcntl.fcntl(pair[1], fcntl.F_SETPIPE_SZ, _PACKETS * mmap.PAGESIZE)
    return pair


# --- frames: worker -> pool ------------------------------------------------------------------------------------------

_FRAME = struct.Struct("<BQdI")
HELLO, VERDICT, FREED, RETIRING = 1, 2, 4, 8  # bits: a check with nothing left to end sends VERDICT | FREED


@dataclass(frozen=True, slots=True)
class Frame:
    """`started` is monotonic; the payload is a CheckResult with VERDICT, else a tuple of what could not be ended."""

    kind: int
    run_id: int = 0
    started: float = 0.0
    payload: Any = None

    def pack(self) -> bytes:
        data = pickle.dumps(self.payload, pickle.HIGHEST_PROTOCOL) if self.payload is not None else b""
        return _FRAME.pack(self.kind, self.run_id, self.started, len(data)) + data


def frames(buffer: bytearray) -> Iterator[Frame]:
    """Take the whole frames off the buffer; a begun one stays for later."""
    while len(buffer) >= _FRAME.size:
        kind, run_id, started, length = _FRAME.unpack_from(buffer)
        end = _FRAME.size + length
        if len(buffer) < end:
            return
        payload = pickle.loads(bytes(buffer[_FRAME.size : end])) if length else None  # noqa: S301 - our own worker
        del buffer[:end]
        yield Frame(kind, run_id, started, payload)


def _by_constructor(cls: type[Any]) -> None:
    """Pickle by constructor call: a third of the time of a frozen dataclass's own state, and validated on arrival."""
    values: Callable[[Any], tuple[Any, ...]] = attrgetter(*(field.name for field in fields(cls)))
    copyreg.pickle(cls, lambda instance: (cls, values(instance)))


for _type in (CheckResult, CheckFailure, Timings, Certificate, Metric, Seen, ResolvedTarget, Secret):
    _by_constructor(_type)

# --- the catalogue of targets ----------------------------------------------------------------------------------------

_SMALLEST_BLOCK = 512


@dataclass(slots=True)
class _Entry:
    target: ResolvedTarget
    version: int
    offset: int
    length: int
    users: int = 0
    current: bool = True


class Catalogue:
    """The pickled targets in shared memory, so that a worker gets a target by number. Used by the pool only."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("checkvisor-targets", os.MFD_CLOEXEC)
        self._entries: dict[str, _Entry] = {}
        self._used: dict[int, _Entry] = {}  # run id -> entry
        self._free: dict[int, list[int]] = {}  # block size -> offsets
        self._end = 0
        self._version = 0

    def order(self, run_id: int, target: ResolvedTarget) -> Order:
        """The order for a run of this target; `release` must follow when the run is over."""
        entry = self._entries.get(target.id)
        if entry is None or (entry.target is not target and entry.target != target):
            if entry is not None:
                entry.current = False
                self._drop_unused(entry)
            entry = self._entries[target.id] = self._write(target)
        entry.users += 1
        self._used[run_id] = entry
        return Order(run_id, entry.version, entry.offset, entry.length)

    def release(self, run_id: int) -> None:
        """The run is over; an outdated target gives its place back with its last run."""
        entry = self._used.pop(run_id, None)
        if entry is not None:
            entry.users -= 1
            self._drop_unused(entry)

    def forget(self, keep: frozenset[str]) -> None:
        """Drop the targets that are in the configuration no more."""
        for name in [name for name in self._entries if name not in keep]:
            entry = self._entries.pop(name)
            entry.current = False
            self._drop_unused(entry)

    def close(self) -> None:
        os.close(self.descriptor)

    def _write(self, target: ResolvedTarget) -> _Entry:
        data = pickle.dumps(_for_worker(target), pickle.HIGHEST_PROTOCOL)
        block = _block(len(data))
        offsets = self._free.get(block)
        if offsets:
            offset = offsets.pop()
        else:
            offset, self._end = self._end, self._end + block
        os.pwrite(self.descriptor, data, offset)
        self._version += 1
        return _Entry(target, self._version, offset, len(data))

    def _drop_unused(self, entry: _Entry) -> None:
        if not entry.current and entry.users == 0:
            self._free.setdefault(_block(entry.length), []).append(entry.offset)


def _for_worker(target: ResolvedTarget) -> ResolvedTarget:
    """Without what only the loop and the store use: workers keep many targets."""
    return replace(target, group="", labels=(), notify=(), depends_on=(), summary="", config_json="{}")


def _block(length: int) -> int:
    """Powers of two: a changed target of about the same size finds its place again."""
    return max(_SMALLEST_BLOCK, 1 << (length - 1).bit_length())


def read_target(descriptor: int, order: Order) -> ResolvedTarget:
    """What a worker does with an order of a version it does not know yet."""
    target = pickle.loads(os.pread(descriptor, order.length, order.offset))  # noqa: S301 - written by our own pool
    assert isinstance(target, ResolvedTarget)
    return target


# --- the board -------------------------------------------------------------------------------------------------------

_ROW_BYTES = 1024
_HEAD = struct.Struct("<qqqH")  # process, earliest and latest start in ticks; length of the stage
_STAGE_LIMIT = _ROW_BYTES - _HEAD.size
_TICKS = os.sysconf("SC_CLK_TCK")


def ticks() -> int:
    """Now, in the unit and on the clock of a process's start time in /proc."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a worker is: the stage of its check, and the session of its command (0: none; -1: being started)."""

    phase: str
    path: str
    session: int
    earliest: int
    latest: int

    def is_leader(self, seen: Seen) -> bool:
        """Whether this process is the command that was reported, and not a later one with its number."""
        return self.earliest <= seen.started <= self.latest


class Board:
    """Rows of shared memory, one a worker: written by it, read by the pool when it has died or is to be killed."""

    def __init__(self, descriptor: int, rows: int) -> None:
        self.descriptor = descriptor
        self._map = mmap.mmap(descriptor, rows * _ROW_BYTES)

    @classmethod
    def create(cls, rows: int) -> Board:
        descriptor = os.memfd_create("checkvisor-board", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, rows * _ROW_BYTES)
        return cls(descriptor, rows)

    def clear(self, row: int) -> None:
        self._map[row * _ROW_BYTES : row * _ROW_BYTES + _HEAD.size] = bytes(_HEAD.size)

    def read(self, row: int) -> Place:
        start = row * _ROW_BYTES
        session, earliest, latest, length = _HEAD.unpack_from(self._map, start)
        stage = bytes(self._map[start + _HEAD.size : start + _HEAD.size + min(length, _STAGE_LIMIT)])
        phase, _, path = stage.decode("utf-8", "replace").partition("\0")
        return Place(phase, path, session, earliest, latest)

    def close(self) -> None:
        self._map.close()
        os.close(self.descriptor)


class Row:
    """A worker's own row of the board."""

    def __init__(self, descriptor: int, row: int) -> None:
        self._map = mmap.mmap(descriptor, (row + 1) * _ROW_BYTES)
        self._start = row * _ROW_BYTES
        self._earliest = 0

    def mark(self, phase: str, path: str) -> None:
        """This stage runs now."""
        stage = f"{phase}\0{path}".encode("utf-8", "replace")[:_STAGE_LIMIT]
        first = self._start + _HEAD.size
        self._map[first : first + len(stage)] = stage
        struct.pack_into("<H", self._map, first - 2, len(stage))

    def report(self, session: int) -> None:
        """-1 before a command is started, its pid (= its session) right after, 0 when it is over."""
        now = ticks()
        if session == -1:
            self._earliest = now - 1
        struct.pack_into("<qqq", self._map, self._start, session, self._earliest, now + 1)


# --- descriptors on their way to a worker ----------------------------------------------------------------------------


class Descriptor:
    """A file descriptor among the arguments of a process: arrives there as a plain number."""

    def __init__(self, number: int) -> None:
        self._number = number

    def __reduce__(self) -> tuple[Callable[[Any], int], tuple[Any]]:
        return _arrived, (reduction.DupFd(self._number),)


def _arrived(sent: Any) -> int:
    number: int = sent.detach()
    return number
