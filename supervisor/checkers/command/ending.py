"""The end of a command: its process group first, then whatever is left of its session. TERM, 2 s, KILL, 1 s.

Orphaned descendants become children of this process (a subreaper), so what is left can be seen and reaped. What has
left the session on purpose is not ours to end.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

from supervisor import processes
from supervisor.processes import Seen

TERM_S = 2.0
KILL_S = 1.0
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.005, 0.1


class CommandEnding:
    """Ends one command. `pid` leads its own session; `exit_code` is known once it has been reaped."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.exit_code: int | None = None
        self._terminated = False

    def wait(self) -> int:
        """The exit code of a command that has ended; negative for a signal."""
        if self.exit_code is None:
            self.exit_code = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.exit_code

    def terminate(self) -> bool:
        """TERM to the group. False if none of it may be signalled: it runs as another user."""
        self._terminated = True
        try:
            os.killpg(self.pid, signal.SIGTERM)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return True

    @property
    def done(self) -> bool:
        """Whether nothing of it is left. Quick when there is no descendant at all."""
        if self.exit_code is not None and _childless():
            return True
        return self._group_is_gone() and not self._members()

    def finish(self) -> tuple[Seen, ...]:
        """End what is left; give back what does not end."""
        if not self._terminated:
            self.terminate()
        if self._gone_within(TERM_S, signal.SIGTERM):
            return ()
        self._gone_within(KILL_S, signal.SIGKILL)
        return tuple(self._members())

    def _gone_within(self, seconds: float, number: int) -> bool:
        """Signal and wait. The whole session is looked at only at the start of KILL and when the group is gone: that
        reads all of /proc."""
        until = time.monotonic() + seconds
        look_s = _SHORTEST_LOOK_S
        signalled: set[Seen] = set()
        if number == signal.SIGKILL:
            self._signal(self._members(), number, signalled)
        while True:
            if self._group_is_gone():
                members = self._members()
                if not members:
                    return True
                self._signal(members, number, signalled)
            left_s = until - time.monotonic()
            if left_s <= 0:
                return False
            self._pause(min(look_s, left_s))
            look_s = min(look_s * 1.5, _LONGEST_LOOK_S)

    def _signal(self, members: list[Seen], number: int, signalled: set[Seen]) -> None:
        for seen in members:
            if seen not in signalled or number == signal.SIGKILL:
                processes.send(seen, number)
                signalled.add(seen)

    def _pause(self, seconds: float) -> None:
        if self.exit_code is None:
            with suppress(ProcessLookupError):
                handle = os.pidfd_open(self.pid)
                try:
                    select.select([handle], [], [], seconds)
                finally:
                    os.close(handle)
                return
        time.sleep(seconds)

    def _group_is_gone(self) -> bool:
        """Reap what has ended of the group, and see whether that was all."""
        if self.exit_code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == 0:
                return False
            self.exit_code = os.waitstatus_to_exitcode(status)
        with suppress(ChildProcessError):
            while os.waitid(os.P_PGID, self.pid, os.WEXITED | os.WNOHANG) is not None:
                pass
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        return False

    def _members(self) -> list[Seen]:
        """Who lives in the session. The dead among them that are our children are reaped on the way."""
        alive: list[Seen] = []
        for seen in processes.in_sessions((self.pid,)):
            if seen.alive:
                alive.append(seen)
            elif seen.pid != self.pid:
                processes.reap(seen.pid)
        return alive


def _childless() -> bool:
    """Whether this process has no children: then nothing of a command is left, for orphans would have become ours."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False
