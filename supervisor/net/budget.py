"""What is left for one blocking call."""

from __future__ import annotations

from supervisor.deadline import Deadline

# In a worker SIGALRM strikes at the deadline and the call's own timeout is the net behind it. Were both due at the same
# moment, the signal would often strike while the timeout is being handled, and a connection would stay open.
BEHIND_ALARM_S = 0.02


def left_s(deadline: Deadline) -> float:
    """Seconds for a timeout. Raises DeadlineExpired when the deadline has passed."""
    return deadline.remaining_s() + BEHIND_ALARM_S
