"""What stands in for the database while it can't be written: the highest number (W22), room for events (W18, W19)."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import zlib
from pathlib import Path

from supervisor.logs import event

log = logging.getLogger(__name__)

_FILE_NAME = "checkvisor.seq"
_SLOT_BYTES = 32
_AHEAD = 100  # numbers set aside by one write, so that a thousand events do not cost a thousand fsyncs
EVENTS_IN_MEMORY = 10_000
RESERVED_PER_STREAM = 4


class HighWater:
    """The highest number that any stream may have used, in up to two files of 64 bytes.

    Each file has two slots, written in turn, in place, and fsynced: this works on a full disk, and a write that is torn
    by a power cut leaves the other slot, after which no number was used yet.
    """

    def __init__(self, *directories: Path | None) -> None:
        self._paths = tuple(directory / _FILE_NAME for directory in directories if directory is not None)
        self._failed: set[Path] = set()
        self._lock = threading.Lock()
        self.value = 0

    def load(self) -> int:
        """The highest number of all files. Allocates a file that is not there; brings the others up to the highest."""
        found = {path: self._try(path, 0) or 0 for path in self._paths}
        self.value = max(found.values(), default=0)
        for path, value in found.items():
            if value < self.value:
                self._try(path, self.value)
        return self.value

    def cover(self, number: int) -> bool:
        """True when a file says that every number up to this one may be used up."""
        with self._lock:
            if number <= self.value:
                return True
            ceiling = number + _AHEAD
            written = [self._try(path, ceiling) is not None for path in self._paths]
            if any(written):
                self.value = ceiling
            return any(written)

    def _try(self, path: Path, value: int) -> int | None:
        """Raise the file's number to `value`; the number it then has, None (logged once) if it can't be written."""
        try:
            number = _raise_to(path, value)
        except OSError as error:
            if path not in self._failed:
                self._failed.add(path)
                event(log, "webhook.seq_file", level=logging.ERROR, file=path, error=error.strerror)
            return _readable_number(path) if value == 0 else None
        self._failed.discard(path)
        return number


def _slot(value: int) -> bytes:
    text = f"{value:020d}"
    return f"{text} {zlib.crc32(text.encode()):08x}\n".encode().ljust(_SLOT_BYTES)


def _numbers(content: bytes) -> list[int]:
    """The number of each slot; -1 for one that is torn or not there."""
    numbers = []
    for start in (0, _SLOT_BYTES):
        slot = content[start : start + _SLOT_BYTES]
        digits = slot[:20]
        whole = digits.isdigit() and slot == _slot(int(digits))
        numbers.append(int(digits) if whole else -1)
    return numbers


def _readable_number(path: Path) -> int | None:
    try:
        return max(0, *_numbers(path.read_bytes()))
    except OSError:
        return None


def _raise_to(path: Path, value: int) -> int:
    """Write `value` into the lower slot if the file does not have it yet; the file's number then."""
    is_new = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        numbers = _numbers(os.pread(descriptor, 2 * _SLOT_BYTES, 0))
        if min(numbers) >= 0 and max(numbers) >= value:
            return max(numbers)
        value = max(value, *numbers)
        if is_new:
            with contextlib.suppress(OSError):  # a file system without fallocate allocates by the writes below
                os.posix_fallocate(descriptor, 0, 2 * _SLOT_BYTES)
        lower = numbers.index(min(numbers))
        os.pwrite(descriptor, _slot(value), lower * _SLOT_BYTES)
        os.fsync(descriptor)
        if numbers[1 - lower] < 0:
            os.pwrite(descriptor, _slot(value), (1 - lower) * _SLOT_BYTES)
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if is_new:
        _sync_directory(path.parent)
    return value


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Room:
    """Counts the events that are only in memory. Every stream has 4 places of its own, the rest is shared."""

    def __init__(self, total: int = EVENTS_IN_MEMORY, reserved: int = RESERVED_PER_STREAM) -> None:
        self._total = total
        self._reserved = reserved
        self._used: dict[str, int] = {}
        self._shared = 0
        self.count = 0

    def full(self, stream: str, streams: int) -> bool:
        """True when the stream's own places are taken and nothing is left of what `streams` streams share."""
        if self._used.get(stream, 0) < self._reserved:
            return False
        return self._shared >= max(self._total - self._reserved * streams, 0)

    def take(self, stream: str) -> None:
        used = self._used.get(stream, 0) + 1
        self._used[stream] = used
        self.count += 1
        if used > self._reserved:
            self._shared += 1

    def give_back(self, stream: str) -> None:
        used = self._used[stream]
        if used > self._reserved:
            self._shared -= 1
        self.count -= 1
        if used == 1:
            del self._used[stream]
        else:
            self._used[stream] = used - 1
