"""What goes wrong between us and a server, as one exception with its place and a sentence."""

from __future__ import annotations

import errno
import os
import ssl
from typing import Literal

import requests

from supervisor.model import Certificate

Place = Literal["dns", "connect", "proxy", "tls", "send", "headers", "body"]


class NetFailure(requests.exceptions.ConnectionError):
    """`place` is the step that failed; `message` is a sentence without URL paths, queries or credentials."""

    def __init__(self, place: Place, message: str, *, actual: str | None = None, expected: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.message = message
        self.actual = actual
        self.expected = expected


class Blocked(NetFailure):
    """The address policy forbids an address the name resolves to."""


class OverCap(NetFailure):
    """The body is larger than it may be."""

    def __init__(self, cap: int) -> None:
        super().__init__(
            "body", f"the body is larger than maxBodyBytes ({cap:,} bytes)", expected=f"at most {cap} bytes"
        )


class CertificateFailure(NetFailure):
    """The server's certificate does not verify; `certificate` is the one it showed, when it could be read."""

    def __init__(self, message: str, certificate: Certificate | None, *, actual: str | None = None) -> None:
        super().__init__("tls", message, actual=actual)
        self.certificate = certificate


_SENTENCES = {
    errno.ECONNREFUSED: "connection refused by {peer}",
    errno.ECONNRESET: "connection reset by {peer}",
    errno.EPIPE: "connection closed by {peer}",
    errno.ECONNABORTED: "connection aborted by {peer}",
    errno.EHOSTUNREACH: "no route to {peer}",
    errno.ENETUNREACH: "the network of {peer} is unreachable from here",
    errno.EHOSTDOWN: "the host of {peer} is down",
    errno.ETIMEDOUT: "{peer} does not answer (the system gave up)",
    errno.EACCES: "connecting to {peer} is not permitted (a local firewall rule?)",
    errno.EPERM: "connecting to {peer} is not permitted (a local firewall rule?)",
    errno.EADDRNOTAVAIL: "no local address or port is free to reach {peer}",
    errno.EINVAL: "{peer} can't be connected to (an address without its zone?)",
    errno.EMFILE: "no descriptor is free to reach {peer}: raise the limit of open files",
    errno.ENFILE: "no descriptor is free to reach {peer}: raise the system's limit of open files",
}


def sentence(error: OSError, peer: str) -> str:
    """What this error of a connection to `peer` means."""
    if isinstance(error, ssl.SSLError):  # its errno is OpenSSL's, not the system's
        return f"{peer} closed the connection under TLS"
    known = _SENTENCES.get(error.errno or 0)
    if known is not None:
        return known.format(peer=peer)
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else type(error).__name__
    return f"the connection to {peer} failed: {reason}"


def timed_out(error: OSError) -> bool:
    """True when our own socket timeout ended the call: the system's ETIMEDOUT is the same class with a number."""
    return isinstance(error, TimeoutError) and error.errno is None
