"""Numbers and times as people read them. Pure."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from supervisor.text import show

_EPOCH = datetime(1970, 1, 1)  # UTC without a zone: `isoformat` is then three times as fast
_FIRST, _LAST = -62_135_596_800_000, 253_402_300_799_999
_NOTHING_BEHIND_POINT = re.compile(r"(?<=\d)\.0+(?![\d.])")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def percent(ratio: float | None) -> str:
    """A ratio as per cent, rounded down so that only a full one is "100 %" (W13); "–" for None.

    More digits the nearer it is to 100: 95.3 %, 99.85 %, 99.995 %.
    """
    if ratio is None:
        return "–"
    ratio = min(1.0, max(0.0, ratio))
    if ratio == 1.0:
        return "100 %"
    digits = 1 if ratio < 0.98 else 2 if ratio < 0.999 else 3
    scale = 10**digits
    lowered = min(math.floor(round(ratio * 100 * scale, 6)), 100 * scale - 1)  # 0.99999 * 100 may be 99.99899999...
    return f"{lowered / scale:.{digits}f} %"


def duration(ms: float | None) -> str:
    """The duration of a check: 7 ms, 1.42 s, 12 s, 1 min 5 s."""
    if ms is None:
        return "–"
    if ms < 1:
        return f"{ms:.2f} ms"
    if ms < 9.95:
        return f"{ms:.1f} ms"
    if ms < 999.5:
        return f"{round(ms)} ms"
    if ms < 9995:
        return f"{ms / 1000:.2f} s"
    return span(ms)


def span(ms: float | None) -> str:
    """A length of time: 8 s, 23 min, 1 h 5 min, 3 d 4 h."""
    if ms is None:
        return "–"
    seconds = max(0, int(ms // 1000))
    if seconds < 60:
        return f"{seconds} s"
    minutes, seconds = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes} min {seconds} s" if minutes < 3 and seconds else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours and days < 14 else f"{days} d"


def interval(ms: int) -> str:
    """An interval as written: 30 s, 60 s, 5 min, 1 h."""
    seconds = ms / 1000
    if seconds < 120 or seconds % 60:
        return f"{seconds:g} s"
    return f"{seconds / 60:g} min" if seconds < 7200 else f"{seconds / 3600:g} h"


def rfc3339(ms: float | None) -> str | None:
    """UTC with milliseconds: 2026-11-30T20:31:12.345Z. Times outside the years 1 to 9999 are cut to them."""
    if ms is None:
        return None
    seconds, ms = divmod(int(min(max(ms, _FIRST), _LAST)), 1000)
    return f"{_second(seconds)}.{ms:03d}Z"


@lru_cache(maxsize=1024)
def _second(seconds: int) -> str:
    """Remembered, as a thousand targets were checked within the same half minute: a third of the time."""
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()


def when(ms: int | None) -> str:
    """A moment in UTC for people: 30 Nov 2026, 20:31:12 UTC."""
    if ms is None:
        return "–"
    moment = datetime.fromtimestamp(min(max(ms // 1000, 0), 253_402_300_799), UTC)
    return f"{moment.day} {_MONTHS[moment.month - 1]} {moment.year}, {moment:%H:%M:%S} UTC"


def time_of_day(ms: int) -> str:
    """The time of a moment in UTC: 20:31:12."""
    seconds = ms // 1000 % 86_400
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"


def day(ms: int) -> str:
    """The day of a moment in UTC: 30 Nov."""
    moment = datetime.fromtimestamp(min(max(ms // 1000, 0), 253_402_300_799), UTC)
    return f"{moment.day} {_MONTHS[moment.month - 1]}"


def clock(ms: int) -> str:
    """The time of day in UTC: 20:31."""
    return f"{datetime.fromtimestamp(min(max(ms // 1000, 0), 253_402_300_799), UTC):%H:%M}"


def number(value: float | None, missing: str = "") -> str:
    """A number of the performance data: 2, not 2.0; 0.25."""
    return missing if value is None else show(value)


def threshold(text: str | None) -> str:
    """A range as a plugin wrote it, with its numbers as `number` shows them: 1.0:2.50 is 1:2.50."""
    return _NOTHING_BEHIND_POINT.sub("", text or "")


def plural(count: int, one: str, many: str | None = None) -> str:
    """ "1 target", "2 targets"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}".replace(",", " ")
