"""HTTP/1.1 answers from a socket (RFC 9112): strict where a loose reading could make a broken answer look whole,
lenient where every browser is (bare LF in heads, blanks before the colon, folded lines)."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass

from supervisor.deadline import Deadline, DeadlineExpired
from supervisor.net.budget import left_s
from supervisor.net.failure import NetFailure, OverCap, Place, sentence, timed_out
from supervisor.net.tls import broke, ended, tls_sentence

MOST_HEAD_BYTES = 256 * 1024  # all heads of one answer together, 1xx ones and trailers included
MOST_FIELDS = 1000
MOST_INTERIM = 64
_MOST_CHUNK_LINE = 4096
_READ_BYTES = 65536
_READ_BODY_BYTES = 262144

_STATUS_LINE = re.compile(r"HTTP/1\.([0-9]) ([1-9][0-9][0-9])(?: (.*))?", re.ASCII)
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", re.ASCII)
_LENGTH = re.compile(r"[0-9]{1,18}", re.ASCII)
_CHUNK_LINE = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(;[^\n]*)?")
_CHUNK_BEGINS = re.compile(rb"([0-9A-Fa-f]{1,16}[ \t]*(;[^\n]*)?\r?)?")
_NO_LINE = re.compile(rb"\r?")
_TRAILER_BEGINS = re.compile(rb"[^\n]*")
_BLANKS = " \t"

Fields = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Head:
    """A status line and its fields in order, latin-1 text, outer blanks removed."""

    minor: int
    status: int
    reason: str
    fields: Fields

    def all(self, name: str) -> list[str]:
        """The values of every field of this (lower-case) name."""
        return [value for found, value in self.fields if found.lower() == name]


# --- reading ---------------------------------------------------------------------------------------------------------


class Reader:
    """What has come from the peer and is not used yet."""

    __slots__ = ("_deadline", "_sock", "buffer", "ended", "head_bytes", "peer", "place", "ragged", "received")

    def __init__(self, sock: socket.socket, deadline: Deadline, peer: str) -> None:
        self._sock = sock
        self._deadline = deadline
        self.peer = peer
        self.place: Place = "headers"
        self.buffer = bytearray()
        self.ended = False
        self.ragged = False  # TLS ended without its closing alert
        self.received = 0
        self.head_bytes = 0

    def receive(self, size: int) -> bytes:
        """The next bytes, b"" at the end of the stream. Raises NetFailure at `place`, and DeadlineExpired."""
        try:
            self._sock.settimeout(left_s(self._deadline))
            data = self._sock.recv(size)
        except OSError as error:
            if timed_out(error):
                raise DeadlineExpired from error
            if broke(error):
                raise NetFailure("tls", tls_sentence(error, self.peer)) from error
            if ended(error):
                self.ended = self.ragged = True
                return b""
            raise NetFailure(self.place, self._broken(error)) from error
        if not data:
            self.ended = True
        self.received += len(data)
        return data

    def fill(self) -> bool:
        """Read more into the buffer; False at the end of the stream."""
        data = self.receive(_READ_BYTES)
        self.buffer += data
        return bool(data)

    def take(self, size: int) -> bytes:
        """The first `size` bytes of the buffer."""
        data = bytes(self.buffer[:size])
        del self.buffer[:size]
        return data

    def _broken(self, error: OSError) -> str:
        told = sentence(error, self.peer)
        if self.place == "body":
            return f"{told} in the middle of the body"
        return f"{told} after {self.received:,} bytes of the headers" if self.received else f"{told} before an answer"


# --- heads -----------------------------------------------------------------------------------------------------------


def read_head(reader: Reader, *, keep_101: bool = False) -> Head:
    """The final head: interim answers (1xx) are skipped, but 101 is kept where an upgrade was asked for.

    Raises NetFailure("headers"), NetFailure("tls") and DeadlineExpired."""
    for _ in range(MOST_INTERIM):
        head = parse_head(_head_text(reader))
        if head.status >= 200 or (head.status == 101 and keep_101):
            return head
    raise NetFailure("headers", f"{reader.peer} sent {MOST_INTERIM} interim (1xx) answers and no final one")


def _head_text(reader: Reader) -> str:
    buffer = reader.buffer
    searched = 0
    while True:
        end = _end_of_head(buffer, max(searched - 3, 0))
        if end:
            if reader.head_bytes + end > MOST_HEAD_BYTES:
                raise _too_much(reader)
            reader.head_bytes += end
            return reader.take(end).decode("latin-1")
        searched = len(buffer)
        if not b"HTTP/1."[:searched] == bytes(buffer[:7]):
            raise NetFailure("headers", _not_http(bytes(buffer[:64]), reader.peer), actual=_shown(bytes(buffer[:64])))
        if reader.head_bytes + searched > MOST_HEAD_BYTES:
            raise _too_much(reader)
        if not reader.fill():
            if not buffer and not reader.head_bytes:
                raise NetFailure("headers", f"{reader.peer} closed the connection without an answer")
            told = f"{reader.peer} closed the connection within the headers, after {reader.received:,} bytes"
            raise NetFailure("headers", told)


def _too_much(reader: Reader) -> NetFailure:
    return NetFailure("headers", f"{reader.peer} sent more than {MOST_HEAD_BYTES // 1024} KB of headers")


def _end_of_head(buffer: bytearray, start: int) -> int:
    """How long the head is with its empty line; 0 while it is not whole."""
    strict = buffer.find(b"\n\r\n", start)
    bare = buffer.find(b"\n\n", start)
    if strict >= 0 and (bare < 0 or strict < bare):
        return strict + 3
    return bare + 2 if bare >= 0 else 0


def _not_http(start: bytes, peer: str) -> str:
    if start[:2] in (b"\x15\x03", b"\x16\x03"):
        return f"{peer} speaks TLS on this port: use https://"
    line = re.split(rb"[\r\n]", start, maxsplit=1)[0]
    return f"{peer} did not answer with HTTP/1: it began with {_shown(line)}"


def _shown(data: bytes) -> str:
    return ascii(data.decode("latin-1"))


def parse_head(text: str) -> Head:
    """A head as latin-1 text, with its empty line. Raises NetFailure("headers")."""
    if "\0" in text:
        raise NetFailure("headers", "the headers hold a NUL character")
    lines = text.replace("\r\n", "\n").split("\n")
    if "\r" in text and any("\r" in line for line in lines):
        raise NetFailure("headers", "the headers hold a carriage return that ends no line")
    found = _STATUS_LINE.fullmatch(lines[0])
    if found is None:
        shown = ascii(lines[0][:64])
        message = f"the status line is {shown}, expected HTTP/1.1, a status from 100 to 999 and a reason"
        raise NetFailure("headers", message, actual=shown)
    fields = _fields(lines[1:-2], "headers")
    return Head(int(found[1]), int(found[2]), found[3] or "", fields)


def _fields(lines: list[str], place: Place) -> Fields:
    if len(lines) > MOST_FIELDS:
        raise NetFailure(place, f"the answer has more than {MOST_FIELDS:,} header lines")
    fields: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith((" ", "\t")):  # a folded value (RFC 9112, 5.2)
            if not fields:
                raise NetFailure(place, "the first header line begins with a blank")
            name, value = fields[-1]
            fields[-1] = (name, f"{value} {line.strip(_BLANKS)}".strip(_BLANKS))
            continue
        name, colon, value = line.partition(":")
        name = name.rstrip(_BLANKS)
        if not colon or _NAME.fullmatch(name) is None:
            what = "has no colon" if not colon else "has a name that is no token"
            raise NetFailure(place, f"a header line {what}: it begins with {name[:32]!a}")
        fields.append((name, value.strip(_BLANKS)))
    return tuple(fields)


# --- framing ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Framing:
    """How the end of a body is known: `none`, `length`, `chunked`, `close`; `unknown` names a coding we can't undo."""

    kind: str
    length: int | None = None
    unknown: str = ""


_NONE = Framing("none", 0)


def framing(head: Head, method: str) -> Framing:
    """RFC 9112, 6.3. Raises NetFailure("headers") for a Content-Length that is none, or several different ones."""
    if method == "HEAD" or head.status < 200 or head.status in (204, 304):
        return _NONE
    lengths: list[str] = []
    codings: list[str] = []
    for name, value in head.fields:
        lower = name.lower()
        if lower == "content-length":
            lengths += [part.strip(_BLANKS) for part in value.split(",")]
        elif lower == "transfer-encoding":
            codings += [part.strip(_BLANKS).lower() for part in value.split(",") if part.strip(_BLANKS)]
    length = _one_length(lengths) if lengths else None
    codings = [coding for coding in codings if coding != "identity"]
    if codings == ["chunked"]:
        return Framing("chunked")
    if codings:
        return Framing("unknown", unknown=", ".join(codings))
    if length is not None:
        return Framing("length", length)
    return Framing("close")


def _one_length(values: list[str]) -> int:
    for value in values:
        if _LENGTH.fullmatch(value) is None:
            raise NetFailure("headers", f"Content-Length is {value[:40]!a}, expected a number", actual=value[:40])
    numbers = {int(value) for value in values}
    if len(numbers) > 1:
        shown = " and ".join(str(number) for number in sorted(numbers)[:3])
        raise NetFailure("headers", f"the answer has different Content-Length values: {shown}", actual=shown)
    return numbers.pop()


# --- bodies ----------------------------------------------------------------------------------------------------------


class BodyStream:
    """A body's bytes as they come, without its framing and still in its content coding. Read once."""

    __slots__ = ("_cap", "_framing", "_reader", "read_bytes")

    def __init__(self, reader: Reader, how: Framing) -> None:
        self._reader = reader
        self._framing = how
        self._cap: int | None = None
        self.read_bytes = 0

    @property
    def expected_bytes(self) -> int | None:
        """What Content-Length announced, if that is how the body ends."""
        return self._framing.length

    @property
    def may_exist(self) -> bool:
        """False where no body can be, whatever the headers claim (HEAD, 1xx, 204, 304)."""
        return self._framing.kind != "none"

    def chunks(self, cap: int | None = None) -> Iterator[bytes]:
        """The body in pieces; ends only where the framing says so. More than `cap` bytes, even only announced, are
        OverCap. Raises NetFailure("body") and DeadlineExpired."""
        self._reader.place = "body"
        self._cap = cap
        match self._framing.kind:
            case "none":
                return iter(())
            case "length":
                return self._by_length(self._framing.length or 0)
            case "chunked":
                return self._by_chunks()
            case "close":
                return self._by_close()
            case _:
                coding = ascii(self._framing.unknown[:60])
                raise NetFailure("body", f"the body is in the transfer coding {coding}, which is not supported")

    def _by_length(self, length: int) -> Iterator[bytes]:
        self._allow(length)
        left = length
        while left:
            data = self._next(left)
            if not data:
                told = f"the body ended after {length - left:,} of {length:,} bytes"
                raise NetFailure("body", told, actual=f"{length - left} bytes", expected=f"{length} bytes")
            left -= len(data)
            yield data

    def _by_close(self) -> Iterator[bytes]:
        while data := self._next(_READ_BODY_BYTES):
            self._allow(0)
            yield data
        if self._reader.ragged:
            told = "the connection ended without TLS's closing alert, so the body may be cut"
            raise NetFailure("body", f"{told} after {self.read_bytes:,} bytes")

    def _by_chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            self._allow(size)
            left = size
            while left:
                data = self._next(left)
                if not data:
                    raise NetFailure("body", f"the body ended within a chunk, after {self.read_bytes:,} bytes")
                left -= len(data)
                yield data
            if self._line(2, _NO_LINE):
                raise NetFailure("body", f"a chunk is longer than the {size:,} bytes it announced")
        self._trailers()

    def _allow(self, more: int) -> None:
        if self._cap is not None and self.read_bytes + more > self._cap:
            raise OverCap(self._cap)

    def _next(self, most: int) -> bytes:
        reader = self._reader
        if reader.buffer:
            data = reader.take(min(most, len(reader.buffer)))
        elif reader.ended:
            return b""
        else:
            data = reader.receive(min(most, _READ_BODY_BYTES))
        self.read_bytes += len(data)
        return data

    def _chunk_size(self) -> int:
        line = self._line(_MOST_CHUNK_LINE, _CHUNK_BEGINS)
        found = _CHUNK_LINE.fullmatch(line)
        if found is None:
            shown = _shown(line[:40])
            raise NetFailure("body", f"a chunk begins with {shown}, expected its size in hexadecimal", actual=shown)
        return int(found[1], 16)

    def _line(self, limit: int, begins: re.Pattern[bytes]) -> bytes:
        """One line that ends with CRLF, without it. What is too long, or does not begin like one, comes back as far as
        it is there: waiting for its end would end at the deadline."""
        reader = self._reader
        searched = 0
        while True:
            end = reader.buffer.find(b"\r\n", searched)
            if 0 <= end <= limit:
                return reader.take(end + 2)[:-2]
            if end > limit or len(reader.buffer) > limit + 2 or begins.fullmatch(reader.buffer) is None:
                return reader.take(limit + 2)
            searched = max(len(reader.buffer) - 1, 0)
            if reader.ended or not reader.fill():
                raise NetFailure("body", f"the body ended before its last chunk, after {self.read_bytes:,} bytes")

    def _trailers(self) -> None:
        reader = self._reader
        count = 0
        while line := self._line(MOST_HEAD_BYTES, _TRAILER_BEGINS):
            if b"\n" in line:
                raise NetFailure("body", f"the trailers after the body are malformed: {_shown(line[:40])}")
            count += 1
            reader.head_bytes += len(line)
            if count > MOST_FIELDS or reader.head_bytes > MOST_HEAD_BYTES:
                raise NetFailure("body", f"{reader.peer} sent too many trailers after the body")
