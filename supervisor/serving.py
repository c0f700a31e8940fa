"""The web process's settings, from arguments or CHECKVISOR_* variables. What the page shows stands in the database.

They stand here, and not in `webui`, so that `checkvisor up` looks at them before it starts anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from supervisor.errors import CheckvisorError

_BASE_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")
_HOST = re.compile(r"\.?[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*|\[[0-9A-Fa-f:.]+\]")
_ANCESTOR = re.compile(r"'self'|'none'|(https?://)?(\*\.)?[A-Za-z0-9.-]+(:[0-9]{1,5}|:\*)?|https?:")
WORKERS, THREADS = 2, 4
_MOST = 256


class SettingsError(CheckvisorError):
    """A setting of the web process can't be used."""

    exit_status = 2


@dataclass(frozen=True, slots=True)
class Settings:
    """`trusted_hosts` empty means: any Host header. `base_path` is "" or begins with "/" and has none at its end."""

    database: Path
    base_path: str = ""
    trusted_hosts: tuple[str, ...] = ()
    frame_ancestors: str = "'none'"


def from_environ(environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from CHECKVISOR_DATABASE, _BASE_PATH, _TRUSTED_HOSTS, _FRAME_ANCESTORS; raises SettingsError."""
    return make(
        database=environ.get("CHECKVISOR_DATABASE", ""),
        base_path=environ.get("CHECKVISOR_BASE_PATH", ""),
        trusted_hosts=environ.get("CHECKVISOR_TRUSTED_HOSTS", ""),
        frame_ancestors=environ.get("CHECKVISOR_FRAME_ANCESTORS", ""),
        state_directory=environ.get("STATE_DIRECTORY", ""),
    )


def make(
    *, database: str, base_path: str = "", trusted_hosts: str = "", frame_ancestors: str = "", state_directory: str = ""
) -> Settings:
    """Check and normalise; lists are separated by commas or blanks. Raises SettingsError."""
    path = Path(database) if database else Path(state_directory.split(":")[0] or "data") / "checkvisor.db"
    return Settings(path.absolute(), _base_path(base_path), _hosts(trusted_hosts), _ancestors(frame_ancestors))


def sizes(environ: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Worker processes and threads of each, from CHECKVISOR_WEB_WORKERS and _THREADS. Raises SettingsError."""
    return _size(environ, "CHECKVISOR_WEB_WORKERS", WORKERS), _size(environ, "CHECKVISOR_WEB_THREADS", THREADS)


def _size(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST):
        raise SettingsError(f"{name} is {text!r}: expected a number from 1 to {_MOST}")
    return int(text)


def _base_path(text: str) -> str:
    path = text.strip().rstrip("/")
    if not _BASE_PATH.fullmatch(path):
        raise SettingsError(
            f"base path {text!r}: expected one or more parts of letters, digits, '.', '_', '~' and '-', as in /status"
        )
    return path


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(re.split(r"[,\s]+", text.strip())) if text.strip() else ()
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise SettingsError(f"trusted host {host!r}: expected a host name without port, as in status.example.org")
    return hosts


def _ancestors(text: str) -> str:
    sources = re.split(r"[,\s]+", text.strip()) if text.strip() else ["'none'"]
    named = [f"'{source}'" if source in ("self", "none") else source for source in sources]
    for source in named:
        if not _ANCESTOR.fullmatch(source):
            raise SettingsError(
                f"frame ancestor {source!r}: expected self, none or an origin, as in https://example.org"
            )
    if "'none'" in named and len(named) > 1:
        raise SettingsError("frame ancestors: none can't stand beside another source")
    return " ".join(named)
