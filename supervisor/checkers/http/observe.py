"""What `judge` may look at: an answer whose body is read only when a rule asks for it."""

from __future__ import annotations

import time

from supervisor.checkers.http.decode import DecodeError, codings_of, read_decoded
from supervisor.checkers.http.failures import failure_of
from supervisor.context import CheckContext
from supervisor.expect.observation import Body
from supervisor.model import Certificate, CheckFailure
from supervisor.net import Exchange, NetFailure
from supervisor.net.certificate import parse
from supervisor.net.wire import Head


class Answer:
    """The HttpObservation of one final answer."""

    __slots__ = ("_body", "_cap", "_context", "_exchange", "_head", "duration_ms", "headers_ms")

    def __init__(self, exchange: Exchange, head: Head, cap: int, context: CheckContext) -> None:
        self._exchange = exchange
        self._head = head
        self._cap = cap
        self._context = context
        self._body: Body | CheckFailure | None = None
        self.headers_ms = context.deadline.elapsed_ms()
        self.duration_ms = self.headers_ms

    @property
    def status(self) -> int:
        return self._head.status

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return self._head.fields

    @property
    def certificate(self) -> Certificate | None:
        return parse(self._exchange.leaf) if self._exchange.leaf else None

    def body(self) -> Body | CheckFailure:
        """Read it, the first time; the connection is closed behind it. DeadlineExpired passes."""
        if self._body is None:
            place = self._context.phase, self._context.path
            self._context.enter("body", "http.body")
            self._body = self._read()
            self._context.enter(*place)
        return self._body

    def _read(self) -> Body | CheckFailure:
        exchange, context = self._exchange, self._context
        stream = exchange.stream
        assert stream is not None
        began = time.monotonic()
        try:
            codings = codings_of(self._head.all("content-encoding")) if stream.may_exist else ()
            content = read_decoded(stream, codings, self._cap, context.deadline)
        except (NetFailure, DecodeError) as fault:
            return failure_of(fault)
        finally:
            self.duration_ms = context.deadline.elapsed_ms()
            exchange.transfer_ms = (time.monotonic() - began) * 1000
            exchange.close()
        if context.steps is not None:
            coded = f", {' over '.join(codings)} of {stream.read_bytes:,} bytes" if codings else ""
            context.note("body", f"{len(content):,} bytes{coded}")
        types = self._head.all("content-type")
        return Body(content, types[0] if types else "")
