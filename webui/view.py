"""What the pages and the API show, made of what the database holds. Pure: rows and a clock in, values out.

The rule behind all of it: nothing is shown as good that is not known to be good *now*. A silent supervisor makes every
target "unknown", a late result makes its target "late", whatever the stored state says.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from supervisor.store.read import TargetRow

STALE_AFTER_MS = 30_000
UNTOLD = "yes"  # that something is wrong, without what
NOT_UP = ("failing", "down", "recovering")
_PLAIN_DETAIL = re.compile(r"HTTP [0-9]{3}|exitCode=-?[0-9]+|signal=[A-Z0-9+-]+")
Status = Literal[
    "unknown", "down", "recovering", "failing", "late", "degraded", "maintenance", "pending", "paused", "up"
]  # fmt: skip
Overlay = Literal["paused", "maintenance", "late"]
Overall = Literal["unknown", "down", "late", "failing", "degraded", "up", "pending", "paused", "maintenance", "empty"]

# in the order in which they are told; "down" includes targets on their way up
WORDS: Mapping[str, str] = {
    "unknown": "State unknown",
    "down": "Down",
    "recovering": "Recovering",
    "failing": "Failing",
    "late": "Late",
    "degraded": "Degraded",
    "maintenance": "Maintenance",
    "pending": "Not checked yet",
    "paused": "Paused",
    "up": "Up",
}


# --- the supervisor and the page's settings --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Show:
    """How much of a target the page and the API tell: `page.show`."""

    target: str = "full"  # full | host | none
    failure: str = "full"  # full | message | none


@dataclass(frozen=True, slots=True)
class Page:
    """The section `page:` of the configuration."""

    title: str = "Checkvisor"
    links: tuple[tuple[str, str], ...] = ()
    show: Show = Show()
    groups: Mapping[str, Show] = field(default_factory=dict)

    def show_for(self, group: str) -> Show:
        """The group's own setting, else the page's."""
        return self.groups.get(group, self.show)


@dataclass(frozen=True, slots=True)
class Supervisor:
    """What is known of the process that checks."""

    heartbeat_ms: int | None
    stale: bool
    started_ms: int | None = None
    version: str = ""
    source: str = ""
    reload_error: str = ""
    degraded: str = ""
    page: Page = Page()


def supervisor(meta: Mapping[str, str], now_ms: int, *, unattended: bool = False) -> Supervisor:
    """Read `meta`. `unattended` says that no process has the database open, so that the heartbeat is void."""
    beat = _integer(meta.get("heartbeat_at"))
    stopped = _integer(meta.get("stopped_at"))
    silent = beat is None or abs(now_ms - beat) > STALE_AFTER_MS
    stale = unattended or silent or stopped is not None
    facts = parse(meta.get("supervisor"), {})
    facts = facts if isinstance(facts, dict) else {}
    page = _page(parse(meta.get("page"), {}))
    full = page.show.failure == "full"
    reload_error, degraded = _sentence(meta.get("reload_error")), _sentence(facts.get("degraded"))
    return Supervisor(
        heartbeat_ms=beat,
        stale=stale,
        started_ms=_integer(meta.get("started_at")),
        version=str(facts.get("version") or ""),
        source=meta.get("source", ""),
        reload_error=reload_error if full or not reload_error else UNTOLD,
        degraded=degraded if full or not degraded else UNTOLD,
        page=page,
    )


def parse(text: str | None, default: Any) -> Any:
    """A JSON column; `default` for NULL and for what is no JSON (a row that can't be read must not cost the page)."""
    if not text:
        return default
    try:
        return json.loads(text)
    except ValueError:
        return default


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else None


def _sentence(value: Any) -> str:
    """Text of a fact that may be a text, a flag or an object with the text under a telling key."""
    if isinstance(value, str) and value.startswith("{"):
        value = parse(value, value)
    if isinstance(value, Mapping):
        value = value.get("error") or value.get("reason") or value.get("message") or bool(value)
    if value in (None, False, "", "null"):
        return ""
    return UNTOLD if value is True else str(value)


def _page(value: Any) -> Page:
    if not isinstance(value, Mapping):
        return Page()
    show = _show(value.get("show"), Show())
    groups = value.get("groups")
    own = groups.items() if isinstance(groups, Mapping) else ()
    links = tuple(
        (str(link.get("name", "")), url)
        for link in value.get("links") or ()
        if isinstance(link, Mapping) and (url := web_address(str(link.get("url", "")))) is not None
    )
    return Page(str(value.get("title") or "Checkvisor"), links, show, {str(name): _show(s, show) for name, s in own})


def _show(value: Any, default: Show) -> Show:
    if isinstance(value, Mapping) and isinstance(value.get("show"), Mapping):
        value = value["show"]
    if not isinstance(value, Mapping):
        return default
    target, failure = value.get("target", default.target), value.get("failure", default.failure)
    # what is not understood hides: a setting that was written to hide something must never show it
    return Show(target if target in ("full", "host") else "none", failure if failure in ("full", "message") else "none")


def web_address(text: str) -> str | None:
    """The text if it is a link that may be followed: http or https with a host, else None."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    plain = text.isprintable() and " " not in text
    return text if plain and parts.scheme in ("http", "https") and parts.hostname else None


# --- one target ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Failure:
    """A CheckFailure as `page.show` lets it be seen."""

    kind: str
    phase: str
    path: str
    message: str
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """One target as everything that shows it sees it. `status` is the one word for it now."""

    row: TargetRow
    show: Show
    status: Status
    overlay: Overlay | None
    late: bool
    stale: bool
    address: str
    failure: Failure | None
    warning: Failure | None

    @property
    def state(self) -> str:
        """The state machine's state, whatever lies over it."""
        return self.row.state or "pending"

    @property
    def healthy(self) -> bool:
        """What `/health` answers 200 to: a fresh result that leaves it up, degraded or not yet down."""
        fresh = not self.late and not self.stale and self.row.enabled
        return fresh and self.state in ("up", "degraded", "failing") and self.row.last_timestamp is not None


def target(row: TargetRow, known: Supervisor, now_ms: int) -> Target:
    """Derive what the stored state means now."""
    show = known.page.show_for(row.group)
    late = is_late(row, now_ms)
    overlay: Overlay | None = None
    if not row.enabled:
        overlay = "paused"
    elif row.in_maintenance:
        overlay = "maintenance"
    elif late:
        overlay = "late"
    return Target(
        row=row,
        show=show,
        status=_status(row, overlay, late, known.stale),
        overlay=overlay,
        late=late,
        stale=known.stale,
        address=shown_address(row.target, row.type, show),
        failure=failure(row.last_failure, show),
        warning=failure(row.last_warning, show),
    )


def is_late(row: TargetRow, now_ms: int) -> bool:
    """The last result is older than 2 intervals + timeout, or lies as far in the future (the clock was set back)."""
    if not row.enabled or row.last_timestamp is None or row.state in (None, "pending"):
        return False
    return abs(now_ms - row.last_timestamp) > 2 * row.interval_ms + row.timeout_ms


def _status(row: TargetRow, overlay: Overlay | None, late: bool, stale: bool) -> Status:
    if overlay == "paused":
        return "paused"
    if stale:
        return "unknown"
    if overlay == "maintenance" and not late:
        return "maintenance"
    if late:
        return "late"
    state = row.state
    if state in ("up", "degraded"):
        # the stored latest result has the last word: a state that contradicts it is not shown as good
        if row.last_timestamp is None or not row.last_matched:
            return "unknown"
        return "degraded" if state == "degraded" else "up"
    if state in ("down", "recovering", "failing"):
        return "down" if state == "down" else "recovering" if state == "recovering" else "failing"
    return "pending" if state in (None, "pending") else "unknown"


def failure(text: str | None, show: Show) -> Failure | None:
    """The stored failure, less what `show` hides; kind and phase always stay."""
    if text is None:
        return None
    value = parse(text, None)
    if not isinstance(value, dict):
        value = {"kind": "error", "phase": "internal", "message": "the stored failure can't be read"}
    kind, phase = str(value.get("kind", "error")), str(value.get("phase", "internal"))
    if show.failure == "none":
        return Failure(kind, phase, "", f"{kind} in phase {phase}")
    expected, actual = value.get("expected"), value.get("actual")
    full = show.failure == "full"
    return Failure(
        kind,
        phase,
        str(value.get("path", "")) if full else "",
        str(value.get("message", "")),
        None if expected is None or not full else str(expected),
        None if actual is None or not full else str(actual),
    )


def shown_address(text: str, kind: str, show: Show) -> str:
    """The URL or command line as `show.target` lets it be seen: whole, its host (or program), or nothing."""
    if show.target == "full":
        return text
    if show.target == "none":
        return ""
    if kind != "http":
        words = text.split()
        return words[0].rsplit("/", 1)[-1] if words else ""
    try:
        return urlsplit(text).hostname or ""
    except ValueError:
        return ""


def status_detail(row: TargetRow, show: Show) -> str:
    """The status detail of the last result."""
    return shown_detail(row.last_status_detail or "", show)


def shown_detail(text: str, show: Show) -> str:
    """`HTTP 200`, `exitCode=1`; a Nagios line is the target's own text, so it is hidden with its failures."""
    return text if show.failure == "full" or _PLAIN_DETAIL.fullmatch(text) else ""


def labels(row: TargetRow) -> dict[str, str]:
    """The target's labels."""
    if row.labels == "{}":
        return {}
    value = parse(row.labels, {})
    return {str(name): str(text) for name, text in value.items()} if isinstance(value, dict) else {}


# --- all targets -----------------------------------------------------------------------------------------------------


def count(targets: Iterable[Target]) -> dict[str, int]:
    """How many targets have each status, in the order of WORDS."""
    found = Counter(one.status for one in targets)
    return {status: found.get(status, 0) for status in WORDS}  # type: ignore[call-overload]


def overall(counts: Mapping[str, int], *, stale: bool) -> Overall:
    """One word for everything: the worst thing that is known, "unknown" as soon as nothing is known."""
    if stale or counts["unknown"]:
        return "unknown"
    if counts["down"] or counts["recovering"]:
        return "down"
    for status in ("late", "failing", "degraded"):
        if counts[status]:
            return status
    for status in ("up", "maintenance", "pending", "paused"):
        if counts[status]:
            return status  # type: ignore[return-value]
    return "empty"


def headline(counts: Mapping[str, int], *, stale: bool) -> str:
    """The first line of the page."""
    total = sum(counts.values())
    of_all = f"of {total} {'target' if total == 1 else 'targets'}"
    match overall(counts, stale=stale):
        case "unknown" if stale or counts["unknown"] == total:
            return "State unknown"
        case "unknown":
            return f"{counts['unknown']} {of_all} in unknown state"
        case "down":
            return f"{counts['down'] + counts['recovering']} {of_all} down"
        case "late":
            return f"{counts['late']} {of_all} late"
        case "failing":
            return f"{counts['failing']} {of_all} failing"
        case "degraded":
            return f"{counts['degraded']} {of_all} degraded"
        case "up":
            up = counts["up"]
            if up < total:
                return f"{up} {of_all} up"
            return "The one target is up" if total == 1 else f"All {total} targets up"
        case "maintenance":
            return "In maintenance"
        case "pending":
            return "No result yet"
        case "paused":
            return "All targets are paused"
        case _:
            return "No targets yet"


_TOLD = (
    ("down", "down"),
    ("recovering", "recovering"),
    ("failing", "failing, not down yet"),
    ("late", "late"),
    ("degraded", "degraded"),
    ("up", "up"),
    ("maintenance", "in maintenance"),
    ("paused", "paused"),
    ("pending", "not checked yet"),
    ("unknown", "unknown"),
)


def summary_line(counts: Mapping[str, int]) -> str:
    """The second line: how many of each."""
    return " · ".join(f"{counts[status]} {words}" for status, words in _TOLD if counts[status])


def count_last_known(targets: Iterable[Target]) -> dict[str, int]:
    """Counts by the stored state, for the line under "State unknown"."""
    found = Counter("paused" if not one.row.enabled else one.state for one in targets)
    return {status: found.get(status, 0) for status in WORDS}
