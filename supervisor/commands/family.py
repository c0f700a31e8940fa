"""The two processes of `checkvisor up`: started, watched, told of signals, ended. Neither outlives the other for long.

Signals are blocked and taken one by one, so nothing happens between two steps. Each child has its own session: Ctrl-C
reaches only us, and we decide. The kernel tells both to stop if we are killed.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from supervisor import processes
from supervisor.commands.page import Page
from supervisor.logs import event

log = logging.getLogger(__name__)

_LOOK_S = 0.1  # while the page does not answer yet
_REST_S = 60.0
_STOP_WITHIN_S = 20.0  # the supervisor needs at most 10
_HURRY_WITHIN_S = 3.0
_BACKOFF_S = (1.0, 30.0)
_STEADY_S = 60.0  # a web app that lived this long starts again at once
_WRONG_SETTINGS = 2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(slots=True)
class _Child:
    """One of the two: how it is started, and its process while there is one."""

    name: str
    command: Sequence[str]
    environ: dict[str, str]
    keep: int | None = None  # a descriptor that it inherits
    pid: int | None = None
    started: float = 0.0

    def start(self) -> None:
        self.started = time.monotonic()
        self.pid = _spawn(self.command, self.environ, self.keep)

    def send(self, number: int) -> None:
        if self.pid is not None:
            with suppress(ProcessLookupError):  # it has just ended; SIGCHLD says how
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)


class Family:
    """Both processes. `run` returns the exit status when both are gone."""

    def __init__(
        self,
        *,
        supervisor: Sequence[str],
        supervisor_environ: dict[str, str],
        web: Sequence[str],
        web_environ: dict[str, str],
        listener: socket.socket | None,
        page: Page,
    ) -> None:
        self._supervisor = _Child("supervisor", supervisor, supervisor_environ)
        self._web = _Child("web", web, web_environ, None if listener is None else listener.fileno())
        self._listener = listener
        self._page = page
        self._page_answers = False
        self._status: int | None = None  # what we end with, once that is clear
        self._asked: list[int] = []  # the signals that asked us to stop
        self._kill_at = float("inf")
        self._restart_at = float("inf")
        self._backoff_s = _BACKOFF_S[0]
        self._had_terminal = _has_terminal()

    def run(self) -> int:
        """Start both, and return when both have ended."""
        wanted = {number for number in _SIGNALS if number != signal.SIGHUP or _heard(number)}
        signal.pthread_sigmask(signal.SIG_BLOCK, wanted)
        self._supervisor.start()
        self._web.start()
        while self._supervisor.pid is not None or self._web.pid is not None:
            received = signal.sigtimedwait(wanted, max(0.0, self._wake() - time.monotonic()))
            if received is not None and received.si_signo != signal.SIGCHLD:
                self._on_signal(received.si_signo)
            self._reap()
            self._upkeep(time.monotonic())
        return self._status or 0

    # --- signals -----------------------------------------------------------------------------------------------------

    def _on_signal(self, number: int) -> None:
        if number == signal.SIGHUP:
            if not self._had_terminal or _has_terminal():
                self._supervisor.send(signal.SIGHUP)
                return
            number = signal.SIGTERM  # the terminal is gone, and with it the user
        self._asked.append(number)
        event(log, "up.stopping", signal=signal.Signals(number).name, times=len(self._asked))
        now = time.monotonic()
        if len(self._asked) == 1:
            self._stop(number, now + _STOP_WITHIN_S)
        elif len(self._asked) == 2:
            # a signal that is still pending swallows the next of its kind: the second is of the other kind
            self._supervisor.send(signal.SIGINT if self._asked[0] == signal.SIGTERM else signal.SIGTERM)
            self._web.send(signal.SIGQUIT)
            self._kill_at = min(self._kill_at, now + _HURRY_WITHIN_S)
        else:
            self._kill_at = now

    def _stop(self, number: int, kill_at: float) -> None:
        self._kill_at = kill_at
        self._restart_at = float("inf")
        self._supervisor.send(number)
        self._web.send(signal.SIGTERM)
        self._page.forget()
        if self._listener is not None:
            self._listener.close()

    @property
    def _stopping(self) -> bool:
        return self._kill_at != float("inf")

    # --- ends --------------------------------------------------------------------------------------------------------

    def _reap(self) -> None:
        """Also what we inherit as the first process of a container."""
        while True:
            try:
                pid, wait_status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._supervisor.pid:
                self._supervisor.pid = None
                self._supervisor_ended(os.waitstatus_to_exitcode(wait_status))
            elif pid == self._web.pid:
                self._web.pid = None
                self._web_ended(os.waitstatus_to_exitcode(wait_status))

    def _supervisor_ended(self, code: int) -> None:
        if code < 0 and -code in self._asked:  # it was asked to stop before it could hear that
            code = 0
        if self._status is None:
            self._status = code if code >= 0 else 128 - code
        if code != 0 or not self._stopping:
            event(log, "up.supervisor_ended", level=logging.ERROR, how=_how(code))
        if not self._stopping:
            self._stop(signal.SIGTERM, time.monotonic() + _STOP_WITHIN_S)

    def _web_ended(self, code: int) -> None:
        self._page.forget()
        self._page_answers = False
        if self._stopping:
            return
        if code == _WRONG_SETTINGS:  # it has said what is wrong, and would again
            self._status = code
            self._stop(signal.SIGTERM, time.monotonic() + _STOP_WITHIN_S)
            return
        now = time.monotonic()
        if now - self._web.started >= _STEADY_S:
            self._backoff_s = _BACKOFF_S[0]
        self._restart_at = now + self._backoff_s
        event(log, "up.web_ended", level=logging.ERROR, how=_how(code), restart_in_s=self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, _BACKOFF_S[1])

    # --- time --------------------------------------------------------------------------------------------------------

    def _wake(self) -> float:
        now = time.monotonic()
        waits_for_page = self._web.pid is not None and not self._page_answers and not self._stopping
        return min(self._kill_at, self._restart_at, now + (_LOOK_S if waits_for_page else _REST_S))

    def _upkeep(self, now: float) -> None:
        if now >= self._kill_at:
            for child in (self._supervisor, self._web):
                if child.pid is not None:
                    event(log, "up.killed", level=logging.ERROR, process=child.name)
                    child.kill()
            self._kill_at = now + _HURRY_WITHIN_S
        if now >= self._restart_at:
            self._restart_at = float("inf")
            self._web.start()
        if self._web.pid is not None and not self._page_answers and not self._stopping and self._page.answers():
            self._page_answers = True
            event(log, "up.ready", page=self._page.url)


def _how(code: int) -> str:
    return f"exit status {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"


def _heard(number: int) -> bool:
    """Whether whoever started us has not asked to ignore this signal, as nohup does."""
    return signal.getsignal(number) is not signal.SIG_IGN


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _spawn(command: Sequence[str], environ: dict[str, str], keep: int | None) -> int:
    """A process in its own session, with default signals, that the kernel ends with us. Needs a single thread."""
    parent = os.getpid()
    pid = os.fork()
    if pid != 0:
        return pid
    try:
        os.setsid()
        processes.signal_when_parent_dies(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)
        for number in _SIGNALS:
            if _heard(number):
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        if keep is not None:
            os.set_inheritable(keep, True)
        os.execve(command[0], list(command), environ)  # noqa: S606 - our own interpreter
    except OSError as error:
        os.write(2, f"checkvisor up: {command[0]}: {error.strerror}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(4)
