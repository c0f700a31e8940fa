"""The types of targets, listed by hand: what users may write of each, a module a type."""

from __future__ import annotations

from supervisor.config.target_type import TargetType
from supervisor.config.types.command import COMMAND
from supervisor.config.types.http import HTTP

TARGET_TYPES: dict[str, TargetType] = {
    "http": HTTP,
    "command": COMMAND,
}
