"""Every fault of an HTTP check as a CheckFailure, and the words for a deadline that has passed."""

from __future__ import annotations

from supervisor.checkers.http.decode import DecodeError
from supervisor.model import CheckFailure
from supervisor.net import Exchange, NetFailure, OverCap

PLACES = {
    "dns": ("request", "http.dns"),
    "connect": ("request", "http.connect"),
    "proxy": ("request", "http.proxy"),
    "tls": ("request", "http.tls"),
    "send": ("request", "http.send"),
    "headers": ("request", "http.headers"),
    "redirect": ("request", "http.redirect"),
    "body": ("body", "http.body"),
}


def failure_of(fault: NetFailure | DecodeError, redirects: int = 0) -> CheckFailure:
    """What stopped the check."""
    message = f"{fault if isinstance(fault, DecodeError) else fault.message}{after(redirects)}"
    if isinstance(fault, DecodeError):
        return CheckFailure("error", "body", "http.decode", message)
    phase, path = PLACES[fault.place]
    if isinstance(fault, OverCap):
        path = "http.maxBodyBytes"
    return CheckFailure("error", phase, path, message, expected=fault.expected, actual=fault.actual)


def redirect_failure(message: str, redirects: int = 0) -> CheckFailure:
    """A redirect that was not followed."""
    return CheckFailure("error", "request", "http.redirect", f"{message}{after(redirects)}")


def after(redirects: int) -> str:
    """` (after 2 redirects)`, or nothing."""
    return f" (after {redirects} redirect{'s' if redirects > 1 else ''})" if redirects else ""


def expired_message(place: str, exchange: Exchange | None, timeout_s: float, redirects: int) -> str:
    """How far the exchange got when the deadline passed."""
    limit = f"within {timeout_s:g} s{after(redirects)}"
    peer = exchange.peer if exchange is not None and exchange.peer else "the server"
    match place:
        case "dns":
            return f"no answer from the name server {limit}"
        case "connect":
            return f"no connection to {peer} {limit}"
        case "tls":
            return f"no TLS connection to {peer} {limit}: the handshake did not end"
        case "proxy":
            return f"no answer from the proxy {peer.removeprefix('proxy ')} {limit}"
        case "send":
            return f"no answer {limit}: {peer} did not take the whole request"
        case "body":
            return f"no whole answer {limit}: {peer} sent headers and then {_body_progress(exchange)}"
        case _:
            return f"no answer {limit}: {peer} {_head_progress(exchange)}"


def _head_progress(exchange: Exchange | None) -> str:
    received = exchange.reader.received if exchange is not None and exchange.reader is not None else 0
    return f"sent only {received:,} bytes of headers" if received else "accepted the connection and sent nothing"


def _body_progress(exchange: Exchange | None) -> str:
    stream = exchange.stream if exchange is not None else None
    if stream is None:
        return "nothing"
    if stream.expected_bytes is not None:
        return f"{stream.read_bytes:,} of {stream.expected_bytes:,} bytes"
    return f"{stream.read_bytes:,} bytes without an end" if stream.read_bytes else "nothing"
