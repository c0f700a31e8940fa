"""What an answer means and when to try again. Pure: `now` and the random number are arguments."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Literal

from supervisor.model import WebhookEndpoint

AnswerKind = Literal["delivered", "retryable", "permanent", "blocked", "gone"]
_JITTER = 0.2
LONGEST_RETRY_AFTER_S = 3600.0
_RETRYABLE_STATUS = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Answer:
    """What one attempt brought. `message` is a sentence without URL paths or secrets; `retry_after_s` is what the
    receiver asked for, clamped; `counts` says whether the failure counts towards the breaker."""

    kind: AnswerKind
    message: str
    status: int | None = None
    retry_after_s: float | None = None
    counts: bool = True
    duration_s: float = 0.0


def kind_of_status(status: int) -> tuple[AnswerKind, bool]:
    """The kind of an HTTP status, and whether it counts towards the breaker."""
    if 200 <= status <= 299:
        return "delivered", False
    if status == 410:
        return "gone", False
    if status in _RETRYABLE_STATUS or status >= 500:
        return "retryable", True
    return "permanent", False


def retry_after_s(value: str | None, now_s: float) -> float | None:
    """The seconds of a Retry-After header (RFC 9110, 10.2.3), at most one hour; None for nonsense and for the past."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        seconds = float(int(value[:12]))
    else:
        try:
            moment = parsedate_to_datetime(value)
            # HTTP dates are UTC: one without a zone (the form of asctime) must not be read in the zone of this machine.
            moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            seconds = moment.timestamp() - now_s
        except (ValueError, OverflowError, TypeError):
            return None
    return min(seconds, LONGEST_RETRY_AFTER_S) if seconds > 0 else None


def next_delay_s(endpoint: WebhookEndpoint, attempts: int, answer: Answer, chance: float) -> float | None:
    """Seconds until the next attempt after `attempts` of them, None when they are used up. `chance` is in [0, 1)."""
    if answer.kind == "retryable":
        steps = endpoint.retries_s
    elif answer.kind == "permanent":
        steps = endpoint.permanent_retries_s
    else:
        return None
    if attempts >= len(steps):
        return None
    delay = steps[attempts] * (1 - _JITTER + 2 * _JITTER * chance)
    if answer.retry_after_s is None:
        return delay
    return max(delay, spread(answer.retry_after_s, chance))


def spread(asked_s: float, chance: float) -> float:
    """Never before the time that was asked for, and not all at once after it."""
    return max(min(asked_s * (1 + _JITTER * chance), LONGEST_RETRY_AFTER_S), asked_s)
