"""A body out of its content codings, in pieces, so that a bomb ends at the cap and not in memory."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BytesIO

from supervisor.deadline import Deadline
from supervisor.net import OverCap
from supervisor.net.wire import BodyStream

_PIECE = 262144
_MOST_CODINGS = 4
_GZIP = 31  # zlib's window bits: gzip container
_ZLIB = 15
_RAW = -15


class DecodeError(Exception):
    """The body is not what its Content-Encoding says, or that is a coding we don't have."""


def codings_of(values: list[str]) -> tuple[str, ...]:
    """The codings of all Content-Encoding fields in the order they were applied. Raises DecodeError."""
    names = [part.strip(" \t").lower() for value in values for part in value.split(",")]
    codings = tuple(name for name in names if name not in ("", "identity"))
    for name in codings:
        if name not in ("gzip", "x-gzip", "deflate"):
            raise DecodeError(f"the body has the content-encoding {name[:40]!a}, which is not supported")
    if len(codings) > _MOST_CODINGS:
        raise DecodeError(f"the body has {len(codings)} content-encodings, at most {_MOST_CODINGS} are undone")
    return codings


def read_decoded(stream: BodyStream, codings: tuple[str, ...], cap: int, deadline: Deadline) -> bytes:
    """The whole decoded body. Raises NetFailure, OverCap, DecodeError, DeadlineExpired."""
    pieces: Iterator[bytes] = stream.chunks(None if codings else cap)
    for coding in reversed(codings):
        pieces = _decoded(pieces, coding, deadline)
    first = next(pieces, b"")
    second = next(pieces, None)
    if second is None and len(first) <= cap:
        return first  # the usual case: all in one piece
    whole = BytesIO()  # grows in place, and gives its bytes without a copy
    whole.write(first)
    while second is not None:
        if whole.tell() + len(second) > cap:
            raise OverCap(cap)
        whole.write(second)
        second = next(pieces, None)
    if whole.tell() > cap:
        raise OverCap(cap)
    return whole.getvalue()


def _decoded(pieces: Iterator[bytes], coding: str, deadline: Deadline) -> Iterator[bytes]:
    """One coding undone. Its stream must reach its end, and only another gzip member may follow."""
    decoder = _Decoder(coding)
    for piece in pieces:
        data = piece
        while data:
            deadline.remaining_s()  # inflating can take long without a single read
            out, data = decoder.feed(data)
            if out:
                yield out
    if not decoder.whole:
        raise DecodeError(f"the {coding} body is cut off: it ends before its {coding} stream does")


class _Decoder:
    """Inflates gzip (all members), or deflate as zlib or raw, whichever it is."""

    def __init__(self, coding: str) -> None:
        self._name = coding
        self._gzip = coding != "deflate"
        self._inflater = zlib.decompressobj(_GZIP) if self._gzip else None
        self._begin = b""
        self._any = False

    @property
    def whole(self) -> bool:
        return self._inflater is not None and self._inflater.eof

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """What comes out, at most _PIECE bytes, and what is still to be fed. Raises DecodeError."""
        if self._inflater is None:
            data = self._begin + data
            if len(data) < 2:
                self._begin = data
                return b"", b""
            self._inflater = zlib.decompressobj(_ZLIB if _looks_like_zlib(data) else _RAW)
        if self._inflater.eof:
            data = self._after(data)
            if not data:
                return b"", b""
        try:
            out = self._inflater.decompress(data, _PIECE)
        except zlib.error as error:
            if not self._gzip and not self._any:
                return self._raw_after_all(data)
            raise DecodeError(f"the body is not valid {self._name}, although its content-encoding says so") from error
        self._any = True
        return out, self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail

    def _after(self, data: bytes) -> bytes:
        """Behind the end of a stream: another gzip member, or padding with NULs."""
        rest = data.lstrip(b"\0")
        if rest and not (self._gzip and b"\x1f\x8b".startswith(rest[:2])):
            raise DecodeError(f"{len(rest):,} or more bytes follow the end of the {self._name} stream")
        if rest:
            self._inflater = zlib.decompressobj(_GZIP)
        return rest

    def _raw_after_all(self, data: bytes) -> tuple[bytes, bytes]:
        """Two bytes of raw deflate can look like a zlib header: one more try."""
        self._any = True
        self._inflater = zlib.decompressobj(_RAW)
        try:
            out = self._inflater.decompress(data, _PIECE)
        except zlib.error as error:
            raise DecodeError("the body is not valid deflate, although its content-encoding says so") from error
        return out, self._inflater.unused_data if self._inflater.eof else self._inflater.unconsumed_tail


def _looks_like_zlib(data: bytes) -> bool:
    """RFC 1950: method 8, and the two header bytes are a multiple of 31."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
