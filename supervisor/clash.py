"""The start-up guard: PyPI's `supervisor` (supervisord) has our import name, and in one venv the files merge silently.

It runs before anything else is imported: what it looks for may have replaced our own `supervisor/__init__.py`.
"""

from __future__ import annotations

import sys
from importlib import metadata
from pathlib import Path

_HOME = Path(__file__).resolve().parent
_THEIRS = ("supervisord.py", "supervisorctl.py")


def clash(home: Path = _HOME) -> str | None:
    """One sentence if another package named `supervisor` is mixed with this one, else None."""
    place = next((str(home / name) for name in _THEIRS if (home / name).exists()), None) or _distribution(home)
    if place is None:
        return None
    return (
        f"PyPI's package 'supervisor' (supervisord) is installed in the same environment ({place}), and its files mix"
        " with Checkvisor's: give each its own venv"
    )


def _distribution(home: Path) -> str | None:
    """Where the other distribution lies, unless it is harmless: outside our environment and behind us on the path."""
    try:
        found = metadata.distribution("supervisor")
    except metadata.PackageNotFoundError:
        return None
    folder = Path(str(found.locate_file(""))).resolve()
    behind_us = _position(folder) > _position(home.parent)
    if behind_us and not folder.is_relative_to(Path(sys.prefix).resolve()):
        return None
    return str(folder)


def _position(folder: Path) -> int:
    places = [Path(entry or ".").resolve() for entry in sys.path]
    return places.index(folder) if folder in places else len(places)  # by an import hook (an editable install): last
