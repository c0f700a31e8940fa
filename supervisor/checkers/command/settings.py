"""What a user can say of a command check (design section 4.2), as the worker gets it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class NagiosSettings:
    """How the exit codes of the Monitoring Plugins guidelines are judged."""

    warning: Literal["degraded", "mismatch"] = "degraded"
    unknown: Literal["error", "mismatch"] = "error"


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """`cwd` is absolute. `env` overrides; `drop_env` names variables that are never inherited (webhook secrets)."""

    exec: str
    args: tuple[str, ...] = field(default=(), repr=False)
    cwd: str = "/"
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    drop_env: tuple[str, ...] = ()
    max_output_bytes: int = 104857600
    nagios: NagiosSettings | None = None
