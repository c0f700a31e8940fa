"""The breaker of one endpoint: stops sending to a receiver that is down, and finds out when it is back. Pure.

closed    everything is sent
open      nothing is sent but one probe an interval, which spends no attempt
disabled  the receiver answered 410 Gone: nothing is sent until the endpoint's settings change

Times are monotonic seconds, handed in.
"""

from __future__ import annotations

from typing import Literal

from supervisor.webhook.retries import Answer, spread

_OPEN_AFTER = 5
_FIRST_INTERVAL_S = 5.0
_LONGEST_INTERVAL_S = 300.0
Permission = Literal["send", "probe", "wait"]


class Breaker:
    """Mutable, guarded by the dispatcher's lock."""

    __slots__ = ("failures", "interval_s", "last_success_ms", "open_until", "probing", "reason", "state")

    def __init__(self) -> None:
        self.state: Literal["closed", "open", "disabled"] = "closed"
        self.reason: str | None = None
        self.failures = 0
        self.open_until = 0.0
        self.interval_s = _FIRST_INTERVAL_S
        self.probing = False
        self.last_success_ms: int | None = None

    def permission(self, now: float) -> Permission:
        """What may go out now. Whoever gets "probe" sets `probing`."""
        if self.state == "closed":
            return "send"
        if self.state == "open" and not self.probing and now >= self.open_until:
            return "probe"
        return "wait"

    def restore(self, now: float, open_until: float, failures: int, reason: str | None) -> None:
        """Open as it was before a restart."""
        self.state, self.reason, self.failures, self.open_until = "open", reason, failures, max(open_until, now)

    def told(self, answer: Answer, now: float, now_ms: int, chance: float) -> bool:
        """Take in an answer; True when its attempt counts against the event's budget."""
        if answer.kind == "gone":
            self.state, self.reason = "disabled", answer.message
            return True
        if answer.kind == "blocked":  # nothing was sent
            return True
        if answer.kind == "delivered" or not answer.counts:
            if answer.kind == "delivered":
                self.failures = 0
                self.last_success_ms = now_ms
            if self.state == "open":  # whatever it said, it answered: it is no longer down
                self._close()
            return True
        self.failures += 1
        spent = self.state == "closed"
        asked = answer.retry_after_s if answer.status in (429, 503) else None
        if self.state == "open":
            self._stay_open(answer, asked, now, chance)
        elif asked is not None or self.failures >= _OPEN_AFTER:
            self.state, self.reason, self.interval_s = "open", answer.message, _FIRST_INTERVAL_S
            self.open_until = now + (self._interval(chance) if asked is None else spread(asked, chance))
        return spent

    def _stay_open(self, answer: Answer, asked: float | None, now: float, chance: float) -> None:
        self.reason = answer.message
        if self.probing:
            self.interval_s = min(self.interval_s * 2, _LONGEST_INTERVAL_S)
            self.open_until = now + self._interval(chance)
        if asked is not None:
            self.open_until = max(self.open_until, now + spread(asked, chance))

    def _interval(self, chance: float) -> float:
        return self.interval_s * (0.9 + 0.2 * chance)

    def _close(self) -> None:
        self.state, self.reason, self.failures, self.interval_s = "closed", None, 0, _FIRST_INTERVAL_S

    def enable(self) -> None:
        """The endpoint's settings changed: start afresh."""
        self._close()
