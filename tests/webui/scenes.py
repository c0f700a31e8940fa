"""Databases that look like real ones, for pictures and for walks through the whole page."""

from __future__ import annotations

import math
import random

from tests.webui.fill import DAY, ERROR, HOUR, MISMATCH, Fill, now

_GROUPS = ("Edge and CDN", "DNS", "Identity", "Backups", "Network gear")
_KINDS = ("gateway", "resolver", "login", "archive", "switch")
_PLACES = ("eu-west", "us-east", "ap-south", "lab")


def company(fill: Fill, each: int = 12) -> dict[str, int]:
    """Some sixty targets in five groups, with ninety days of history and one of everything that can be shown."""
    dice = random.Random(7)
    at = now()
    numbers: dict[str, int] = {}
    with fill.begin():
        fill.meta(page={
            "title": "Example Ltd", "links": [{"name": "Runbook", "url": "https://wiki.example.org/runbook"}],
        })  # fmt: skip
        for group, kind in zip(_GROUPS, _KINDS, strict=True):
            for index in range(1, each + 1):
                key = f"{kind}-{_PLACES[index % 4]}-{index:03d}"
                fields = _special(key, at)
                command = index % 5 == 0
                fields.setdefault("type", "command" if command else "http")
                if command:
                    fields.setdefault("target", "/usr/lib/nagios/plugins/check_disk -w 10% -c 5% -p /var")
                fields.setdefault("last_duration_ms", dice.uniform(20, 400))
                numbers[key] = fill.target(key, fields.pop("state", "up"), group=group, **fields)
                if numbers[key] and fields.get("history", True):
                    _history(fill, numbers[key], dice, at)
        one = numbers["gateway-us-east-001"]
        _results(fill, one, at)
        fill.incident(one, at - 23 * 60_000)
        fill.incident(one, at - 9 * DAY, at - 9 * DAY + 47 * 60_000, failures=47, failure=ERROR)
        fill.incident(numbers["login-lab-003"], at - 3 * DAY, at - 3 * DAY + HOUR, resolution="paused")
        fill.endpoint("ops")
        for seq in (1, 2, 3):
            fill.event("gateway-us-east-001", seq, "target.up" if seq == 2 else "target.down")
        fill.dead_letter("gateway-us-east-001", 1)
    return numbers


def _special(key: str, at: int) -> dict[str, object]:
    disk = dict(
        MISMATCH, phase="stdout", path="expect.stdout[0].regex", message="stdout does not match ^OK",
        expected="^OK", actual="CRITICAL - /var is 97% full (2.1 GB of 74 GB free), inodes 12% used",
    )  # fmt: skip
    return {
        "gateway-us-east-001": {
            "state": "down", "labels": {"team": "edge"}, "config": {"http": {"url": "https://gateway", "headers": {
                "Authorization": "${EDGE_TOKEN}"}}}, "expect": {"status": ["200"]},
            "timings": {"dns": 1.2, "connect": 11.4, "tls": 24.9, "firstByte": 61.0, "transfer": 8.8},
            "certificate": {"notBefore": at - 60 * DAY, "notAfter": at + 13 * DAY + HOUR,
                            "subject": "CN=gateway.example.net", "issuer": "CN=Example CA"},
        },
        "resolver-ap-south-002": {"state": "down", "last_failure": disk, "since": at - 57 * 60_000, "type": "command",
                                  "target": "/usr/lib/nagios/plugins/check_disk -p /var"},
        "archive-lab-003": {"state": "down", "last_failure": ERROR, "since": at - 65 * 60_000},
        "login-us-east-005": {"state": "failing", "since": at - 40_000, "consecutive": 1, "last_failure": dict(
            MISMATCH, phase="body", path="expect.body[1].json($.queue.depth)",
            message="$.queue.depth is 1842, expected at most 500", expected="lte 500", actual="1842")},
        "switch-ap-south-006": {"state": "recovering", "since": at - 30_000},
        "resolver-lab-003": {"at": at - 46 * 60_000},
        "login-ap-south-006": {"state": "degraded"},
        "archive-us-east-005": {"in_maintenance": True},
        "switch-lab-007": {"enabled": False},
        "switch-eu-west-008": {"state": "pending"},
    }.get(key, {})  # fmt: skip


def _history(fill: Fill, number: int, dice: random.Random, at: int) -> None:
    bad = {dice.randrange(90) for _ in range(dice.choice((0, 0, 0, 1, 2, 5)))}
    base = dice.uniform(30, 300)
    for back in range(90):
        failed = dice.choice((1, 3, 160)) if back in bad else 0
        fill.rollup(number, DAY, at - back * DAY, 1440 - failed, failed, ms=[base])
    for back in range(24):
        value = base * (1 + 0.4 * math.sin(back / 3)) * dice.uniform(0.9, 1.2)
        fill.rollup(number, HOUR, at - back * HOUR, 60, ms=[value])


def _results(fill: Fill, number: int, at: int) -> None:
    dice = random.Random(3)
    for back in range(1440, 0, -1):
        if 600 < back < 640:
            continue
        failed = back <= 23
        value = 38 + 8 * math.sin(back / 40) + dice.expovariate(1 / 12)
        fill.result(number, at - back * 60_000, not failed, duration_ms=value)
    for back in range(24 * 7, 24, -1):
        fill.rollup(number, HOUR, at - back * HOUR, 60, ms=[dice.uniform(30, 60) for _ in range(20)])
