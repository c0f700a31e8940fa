"""Which targets are in maintenance now. Cron times by cronsim: it is right about the hours a clock change drops."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from cronsim import CronSim

from supervisor.model import MaintenanceWindow, ResolvedTarget


def next_change(window: MaintenanceWindow, now_ms: int) -> tuple[bool, int | None]:
    """Whether the window is open at `now_ms`, and when that changes next (None: never again). UTC milliseconds."""
    if window.cron is None:
        start, end = window.start_ms or 0, window.end_ms or 0
        if now_ms < start:
            return False, start
        return (True, end) if now_ms < end else (False, None)
    assert window.duration_s is not None
    length = timedelta(seconds=window.duration_s)
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    zone = ZoneInfo(window.timezone)
    # the first start after (now - length): the window is open if that is not in the future. A second earlier, because
    # cronsim gives times strictly after the one it begins with.
    begin = now - length - timedelta(seconds=1)
    for start_at in CronSim(window.cron, begin.astimezone(zone)):
        opened = start_at.astimezone(UTC)
        if opened + length <= now:
            continue
        if opened > now:
            return False, round(opened.timestamp() * 1000)
        return True, round((opened + length).timestamp() * 1000)
    return False, None


class Maintenance:
    """The windows of one configuration; each is computed again only when it changes."""

    def __init__(self, windows: Iterable[MaintenanceWindow]) -> None:
        self._windows = tuple(windows)
        self._open = [False] * len(self._windows)
        self._until: list[int | None] = [0] * len(self._windows)
        self._seen_ms = 0

    def applies(self, target: ResolvedTarget, now_ms: int) -> bool:
        """Whether the target is in maintenance."""
        if not self._windows:
            return False
        if now_ms < self._seen_ms:  # the wall clock was set back: what was computed may be wrong
            self._until = [0] * len(self._windows)
        self._seen_ms = now_ms
        for index, window in enumerate(self._windows):
            until = self._until[index]
            if until is not None and now_ms >= until:
                self._open[index], self._until[index] = next_change(window, now_ms)
            if self._open[index] and covers(window, target):
                return True
        return False


def covers(window: MaintenanceWindow, target: ResolvedTarget) -> bool:
    """Whether the window names the target or its group; a window that names neither covers all."""
    if not window.targets and not window.groups:
        return True
    return target.id in window.targets or (bool(target.group) and target.group in window.groups)
