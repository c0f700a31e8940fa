"""What dead workers leave: commands without anybody who waits for them. The supervisor is their parent then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field

from supervisor import processes
from supervisor.pool.types import Run, Stuck
from supervisor.pool.wire import Place
from supervisor.processes import Seen

_LOOK_AGAIN_S = 0.02
_STUCK_AFTER_S = 1.0
_LOOK_AT_STUCK_S = 1.0
_SWEEP_S = 5.0
_APPEARS_S = 0.1


@dataclass(slots=True)
class _Rest:
    """What is left of one run: sessions to end, or processes known to be stuck."""

    run: Run
    since: float
    look_at: float
    place: Place | None = None
    sessions: set[int] = field(default_factory=set)
    processes: tuple[Seen, ...] = ()

    @property
    def unreported(self) -> bool:
        """The worker died while it started a command, so nobody knows that command's number."""
        return self.place is not None and self.place.session == -1


class Orphans:
    """Ends and reaps the rests of runs; tells when nothing is left."""

    def __init__(self) -> None:
        self._rests: list[_Rest] = []
        self._sweep_at = 0.0
        self._ended: set[Seen] = set()  # zombies of the last sweep
        self._own_session = os.getsid(0)

    def add_session(self, run: Run, place: Place, now: float) -> None:
        """The worker of this run is dead; end the session of its command."""
        sessions = {place.session} if place.session > 0 else set()
        self._rests.append(_Rest(run, now, now, place=place, sessions=sessions))

    def add_stuck(self, run: Run, left: tuple[Seen, ...], now: float) -> None:
        """A worker could not end these."""
        self._rests.append(_Rest(run, now - _STUCK_AFTER_S, now, processes=left))

    def turn(self, now: float) -> list[Run]:
        """Kill, reap and look again where it is time to; the runs of which nothing is left any more."""
        due = [rest for rest in self._rests if rest.look_at <= now]
        gone: list[Run] = []
        for rest in due:
            if rest.unreported and rest.place is not None:
                rest.sessions |= self._unreported(rest.place)
        members = processes.in_sessions(session for rest in due for session in rest.sessions)
        for rest in due:
            rest.processes = tuple(_end(_of(rest, members)))
            # a command that was just being started may take a moment until it has its own session
            if not rest.processes and now - rest.since >= (_APPEARS_S if rest.unreported else 0.0):
                gone.append(rest.run)
                self._rests.remove(rest)
            else:
                stuck = now - rest.since >= _STUCK_AFTER_S
                rest.look_at = now + (_LOOK_AT_STUCK_S if stuck else _LOOK_AGAIN_S)
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            self._sweep()
        return gone

    def next_wake(self) -> float:
        """Monotonic time of the next look."""
        return min([self._sweep_at, *(rest.look_at for rest in self._rests)])

    def stuck(self, now: float) -> tuple[Stuck, ...]:
        """What could not be ended within a second."""
        return tuple(
            Stuck(rest.run.target.id, rest.processes)
            for rest in self._rests
            if rest.processes and now - rest.since >= _STUCK_AFTER_S
        )

    def any_left(self, now: float) -> bool:
        """Whether something is still being ended; what is stuck is given up."""
        return any(now - rest.since < _STUCK_AFTER_S for rest in self._rests)

    def reap_all(self) -> None:
        """At the end: reap whatever has ended, there is no next sweep."""
        for seen in self._adopted_and_ended():
            processes.reap(seen.pid)

    def _sweep(self) -> None:
        """Reap what commands left behind in sessions of their own, and what those left. Children of other parts of this
        process are in our session, or are waited for by those who started them: they get one sweep's time to do it."""
        ended = self._adopted_and_ended()
        for seen in ended & self._ended:
            processes.reap(seen.pid)
        self._ended = ended

    def _adopted_and_ended(self) -> set[Seen]:
        return {seen for seen in _children() if not seen.alive and seen.session != self._own_session}

    def _unreported(self, place: Place) -> set[int]:
        """The sessions of children that we have adopted since the command was started. Its leader may have ended by
        now; one that lives has a null stdin, as commands have and helpers of this process, which talk to it, do not."""
        sessions = {
            seen.session for seen in _children() if seen.session != self._own_session and seen.started >= place.earliest
        }
        leaders = {session: processes.look(session) for session in sessions}
        return {
            session
            for session, leader in leaders.items()
            if leader is None or not leader.alive or (leader.started >= place.earliest and _has_null_stdin(leader))
        }


def _children() -> list[Seen]:
    return [seen for seen in map(processes.look, processes.children()) if seen is not None]


def _end(members: Iterable[Seen]) -> list[Seen]:
    """Kill who lives and reap who does not; who lived."""
    left: list[Seen] = []
    for seen in members:
        if seen.alive:
            processes.send(seen, signal.SIGKILL)
            left.append(seen)
        else:
            processes.reap(seen.pid)  # not ours yet: the sweep has it once its parent is gone
    return left


def _of(rest: _Rest, members: list[Seen]) -> list[Seen]:
    """The processes that belong to this rest."""
    place = rest.place
    if place is None:
        return [now for now in map(_same, rest.processes) if now is not None]
    found = [seen for seen in members if seen.session in rest.sessions]
    leader = next((seen for seen in found if seen.pid == place.session), None)
    if leader is not None and not place.is_leader(leader):
        return []  # the number was given anew: the session that we knew is over
    return [seen for seen in found if seen.started >= place.earliest]


def _same(known: Seen) -> Seen | None:
    now = processes.look(known.pid)
    return now if now is not None and now.started == known.started else None


def _has_null_stdin(seen: Seen) -> bool:
    try:
        return os.readlink(f"/proc/{seen.pid}/fd/0") == "/dev/null"  # noqa: PTH115 - a link to nowhere
    except OSError:  # over already, or another user's
        return False
