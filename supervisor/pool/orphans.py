"""What dead workers leave: commands without anybody who waits for them. The supervisor is their parent then."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

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
    """What is left of one run: a session to end, and processes known to be stuck."""

    run: Run
    since: float
    place: Place | None = None
    processes: tuple[Seen, ...] = ()
    look_at: float = field(default=0.0)


class Orphans:
    """Ends and reaps the rests of runs; tells when nothing is left."""

    def __init__(self) -> None:
        self._rests: list[_Rest] = []
        self._sweep_at = 0.0
        self._ended: set[Seen] = set()  # zombies of the last sweep
        self._own_session = os.getsid(0)

    def add_session(self, run: Run, place: Place, now: float) -> None:
        """The worker of this run is dead; end the session of its command."""
        self._rests.append(_Rest(run, now, place=place, look_at=now))

    def add_stuck(self, run: Run, left: tuple[Seen, ...], now: float) -> None:
        """A worker could not end these."""
        self._rests.append(_Rest(run, now - _STUCK_AFTER_S, processes=left, look_at=now))

    def turn(self, now: float) -> list[Run]:
        """Kill, reap and look again where it is time to; the runs of which nothing is left any more."""
        due = [rest for rest in self._rests if rest.look_at <= now]
        gone: list[Run] = []
        for rest in due:
            if rest.place is not None and rest.place.session == -1:
                rest.place = _identified(rest.place)
        if due:
            sessions = {rest.place.session for rest in due if rest.place is not None and rest.place.session > 0}
            members = processes.in_sessions(sessions)
            for rest in due:
                rest.processes = tuple(self._end(_of(rest, members)))
                if not rest.processes and now - rest.since >= _seconds_to_appear(rest):
                    gone.append(rest.run)
                    self._rests.remove(rest)
                else:
                    stuck = now - rest.since >= _STUCK_AFTER_S
                    rest.look_at = now + (_LOOK_AT_STUCK_S if stuck else _LOOK_AGAIN_S)
        if now >= self._sweep_at:
            self._sweep_at = now + _SWEEP_S
            self._reap_adopted()
        return gone

    def next_wake(self) -> float:
        """Monotonic time of the next look."""
        return min([self._sweep_at, *(rest.look_at for rest in self._rests)])

    def stuck(self, now: float) -> tuple[Stuck, ...]:
        return tuple(
            Stuck(rest.run.target.id, rest.processes)
            for rest in self._rests
            if rest.processes and now - rest.since >= _STUCK_AFTER_S
        )

    def any_left(self, now: float) -> bool:
        """Whether something is still being ended; what is stuck is given up."""
        return any(now - rest.since < _STUCK_AFTER_S for rest in self._rests)

    def _end(self, members: Iterable[Seen]) -> list[Seen]:
        left: list[Seen] = []
        for seen in members:
            if seen.alive:
                processes.send(seen, signal.SIGKILL)
                left.append(seen)
            else:
                processes.reap(seen.pid)  # not ours yet: the sweep has it once its parent is gone
        return left

    def _reap_adopted(self) -> None:
        """Reap what commands left behind in sessions of their own, and what those left. Children of other parts of this
        process are in our session, or are waited for by those who started them: they get one sweep's time to do it."""
        ended = {
            seen
            for seen in map(processes.look, processes.children())
            if seen is not None and not seen.alive and seen.session != self._own_session
        }
        for seen in ended & self._ended:
            processes.reap(seen.pid)
        self._ended = ended


def _seconds_to_appear(rest: _Rest) -> float:
    """A command that was just being started may take a moment until it has its own session."""
    return _APPEARS_S if rest.place is not None and rest.place.session == -1 else 0.0


def _of(rest: _Rest, members: list[Seen]) -> list[Seen]:
    """The processes that belong to this rest."""
    if rest.place is None:
        return [now for now in map(_same, rest.processes) if now is not None]
    found = [seen for seen in members if seen.session == rest.place.session]
    leader = next((seen for seen in found if seen.pid == rest.place.session), None)
    if leader is not None and not rest.place.is_leader(leader):
        return []  # the number was given anew: the session that we knew is over
    return [seen for seen in found if seen.started >= rest.place.earliest]


def _same(known: Seen) -> Seen | None:
    now = processes.look(known.pid)
    return now if now is not None and now.started == known.started else None


def _has_null_stdin(seen: Seen) -> bool:
    """As commands have it, and helpers of this process (which talk to it) do not."""
    try:
        return os.readlink(f"/proc/{seen.pid}/fd/0") == "/dev/null"  # noqa: PTH115 - a link to nowhere
    except OSError:  # over already, or another user's
        return False


def _identified(place: Place) -> Place:
    """The worker died while it started a command, so its number is not known: it is an adopted session leader of that
    time."""
    for seen in map(processes.look, processes.children()):
        if seen is not None and seen.pid == seen.session and seen.started >= place.earliest and _has_null_stdin(seen):
            return replace(place, session=seen.pid, latest=seen.started)
    return place
