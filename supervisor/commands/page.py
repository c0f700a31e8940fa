"""Whether the web app answers: asked in steps that never wait, for a loop that has signals to handle."""

from __future__ import annotations

import socket
import time

from supervisor.listening import Address

_ANSWER_WITHIN_S = 5.0


class Page:
    """The page at an address; `answers` asks its /healthz."""

    def __init__(self, address: Address, base_path: str) -> None:
        self._address = address
        self._base_path = "/" + base_path.strip().strip("/") if base_path.strip().strip("/") else ""
        self._asking: socket.socket | None = None
        self._until = 0.0

    @property
    def url(self) -> str:
        """Where a browser on this machine finds it."""
        return self._address.page if self._address.path else f"{self._address.page}{self._base_path}/"

    def answers(self) -> bool:
        """One step: ask, or look whether the answer has come."""
        try:
            if self._asking is None:
                self._ask()
                return False
            answer = self._asking.recv(64)
        except BlockingIOError:
            if time.monotonic() > self._until:
                self.forget()
            return False
        except OSError:  # not listening yet, or ended
            self.forget()
            return False
        self.forget()
        return answer.startswith((b"HTTP/1.0 200", b"HTTP/1.1 200"))

    def forget(self) -> None:
        """Give up the present question."""
        if self._asking is not None:
            self._asking.close()
            self._asking = None

    def _ask(self) -> None:
        self._until = time.monotonic() + _ANSWER_WITHIN_S
        if self._address.path:
            self._asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._asking.settimeout(0.2)
            self._asking.connect(self._address.path)
        else:
            near = self._address.near
            family = socket.AF_INET6 if ":" in near.host else socket.AF_INET
            self._asking = socket.socket(family, socket.SOCK_STREAM)
            self._asking.settimeout(0.2)
            self._asking.connect((near.host, near.port))
        request = f"GET {self._base_path}/healthz HTTP/1.0\r\nHost: localhost\r\n\r\n"
        self._asking.sendall(request.encode("ascii", "replace"))
        self._asking.setblocking(False)
