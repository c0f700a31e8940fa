"""The address that the web app listens on: read, and opened before anything is started, so that a busy port is said."""

from __future__ import annotations

import errno
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from supervisor.errors import CheckvisorError

DEFAULT = "127.0.0.1:8080"
_TCP = re.compile(r"(?:tcp://|http://)?(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[A-Za-z0-9_.-]*)):(?P<port>[0-9]{1,5})/?")
_UNIX = re.compile(r"unix:(?://)?(?P<path>.+)", re.DOTALL)
_NEAR = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - all addresses of this machine, and one of them
_BACKLOG = 2048
_LONGEST_PATH = 107


class BindError(CheckvisorError):
    """The address can't be read."""

    exit_status = 2


class BusyError(CheckvisorError):
    """The address can be read, but not listened on."""


@dataclass(frozen=True, slots=True)
class Address:
    """HOST:PORT, or the path of a Unix socket."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def near(self) -> Address:
        """The same for a client on this machine."""
        return Address(_NEAR.get(self.host, self.host), self.port, self.path)

    @property
    def page(self) -> str:
        """Where a browser on this machine finds the page."""
        return str(self) if self.path else f"http://{self.near}"


def parse(text: str) -> Address:
    """Read `HOST:PORT`, `[IPV6]:PORT`, `:PORT` (all addresses) or `unix:/path`. Raises BindError."""
    unix = _UNIX.fullmatch(text.strip())
    if unix is not None:
        path = unix["path"]
        if not path.startswith("/") or len(path.encode("utf-8", "surrogateescape")) > _LONGEST_PATH:
            raise BindError(f"bind address {text!r}: expected an absolute path of at most {_LONGEST_PATH} bytes")
        return Address(path=path)
    found = _TCP.fullmatch(text.strip())
    if found is None or int(found["port"]) > 65535:
        raise BindError(f"bind address {text!r}: expected HOST:PORT with a port up to 65535, or unix:/path/to.sock")
    return Address(found["v6"] or found["host"] or "0.0.0.0", int(found["port"]))  # noqa: S104 - `:PORT` says so


def check(address: Address) -> None:
    """Whether a Unix socket can be made there; gunicorn, which opens it, would try for seconds. Raises BusyError."""
    path = Path(address.path)
    if not path.parent.is_dir():
        wrong = f"there is no directory {path.parent}; make it"
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        wrong = f"this user may not write to {path.parent}; change its owner or mode"
    elif path.exists() and not path.is_socket():
        wrong = "a file that is no socket stands there; remove it"
    else:
        return
    raise BusyError(f"can't listen on {address}: {wrong}, or choose another with --bind")


def listen(address: Address) -> socket.socket:
    """A listening socket on a TCP address; port 0 takes a free one. Raises BusyError."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _name, where = min(found, key=lambda one: one[0] != socket.AF_INET)
        opened = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise BusyError(f"can't listen on {address}: {_reason(error)}") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address.host != "::"))
        opened.bind(where)
        opened.listen(_BACKLOG)
    except OSError as error:
        opened.close()
        raise BusyError(f"can't listen on {address}: {_reason(error)}") from error
    return opened


def bound(listener: socket.socket) -> Address:
    """The address of a listening socket."""
    host, port = listener.getsockname()[:2]
    return Address(str(host), int(port))


def _reason(error: Exception) -> str:
    if not isinstance(error, OSError):
        return "the host name can't be used"
    if error.errno == errno.EADDRINUSE:
        return "the port is busy; stop what uses it, or choose another with --bind"
    if error.errno == errno.EACCES:
        return "this user may not use ports below 1024; choose another with --bind"
    if error.errno == errno.EADDRNOTAVAIL:
        return "this machine does not have that address; choose another with --bind"
    return error.strerror or str(error)
