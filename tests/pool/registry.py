"""Checkers for workers under test: the real one for commands, and some that do what a checker must not do."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time

from supervisor.checkers.base import CheckContext, Outcome
from supervisor.checkers.command import CommandChecker
from supervisor.model import ResolvedTarget


class _Unpicklable(Exception):
    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)
        self.lock = threading.Lock()
        self.second = second


class BadChecker:
    """Does what the target's name says."""

    type = "bad"

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        context.enter("request", "http.connect")
        match target.name:
            case "sys.exit":
                sys.exit(3)
            case "os._exit":
                os._exit(7)
            case "segfault":
                ctypes.string_at(0)
            case "unpicklable":
                raise _Unpicklable("one", "two")
            case "raise":
                raise RuntimeError("with \x1b[31m colours and \ud800")
            case "memory":
                raise MemoryError
            case "swallow":  # as a library does that catches everything, in C or with a bare except
                while True:
                    try:
                        time.sleep(60)
                    except BaseException:
                        continue
            case "late":
                time.sleep(60)
            case "gap":  # dies between the start of a command and its report
                context.report_process(-1)
                null = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)]
                left = "sleep 62.13 & test $0 = leader && exec sleep 62.13"
                for name in ("gone", "leader"):  # one whose leader has ended, one whose leader has not
                    os.posix_spawn("/bin/sh", ["sh", "-c", left, name], {}, setsid=True, file_actions=null)
                os.kill(os.getpid(), signal.SIGKILL)
            case "big":
                return Outcome(0.0, status_detail=f"{len(target.settings)}")
            case "keep":
                return Outcome(0.0, status_detail=f"{context.keep}")
            case "pid":
                return Outcome(0.0, status_detail=f"{os.getpid()}")
            case "loaded":
                unwanted = [
                    name for name in ("supervisor.cli", "supervisor.store", "sqlalchemy") if name in sys.modules
                ]
                return Outcome(0.0, status_detail=" ".join([*unwanted, *sorted(set(sys.modules) - _AT_START)]))
        return Outcome(context.deadline.elapsed_ms(), status_detail="fine")


_AT_START = frozenset(sys.modules)  # of a worker; this module is its last import

CHECKERS = {"command": CommandChecker(), "bad": BadChecker()}
