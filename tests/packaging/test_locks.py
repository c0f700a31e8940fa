"""The locks: whole, hashed, free of places, and the same versions for users and tests."""

from __future__ import annotations

import configparser
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.txt", "requirements-build.txt", "requirements-dev.txt")


def entries(name: str) -> list[str]:
    """The entries of a lock, each with its hashes on one line."""
    return (ROOT / "deploy" / name).read_text().replace("\\\n", " ").strip().splitlines()


def pins(name: str) -> dict[str, set[str]]:
    """name -> the pins, with their markers (a universal lock may have several for one name)."""
    found: dict[str, set[str]] = {}
    for entry in entries(name):
        spec = entry.partition("--hash")[0].strip()
        found.setdefault(normal(re.split(r"[=\[ ;]", spec)[0]), set()).add(re.sub(r"\s+", "", spec))
    return found


def normal(name: str) -> str:
    """The name of a distribution as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("lock", LOCKS)
def test_every_entry_is_pinned_and_hashed(lock: str) -> None:
    """`pip install --require-hashes` takes each entry, and no entry names a place."""
    assert entries(lock)
    for entry in entries(lock):
        assert re.match(r"[A-Za-z0-9._-]+(\[[^]]+\])?==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry
        assert "://" not in entry
        assert " @ " not in entry


def test_runtime_lock_has_what_setup_cfg_asks_for() -> None:
    """Nobody forgot `make lock` after a change of install_requires."""
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    asked = re.findall(r"^([A-Za-z0-9._-]+)", config["options"]["install_requires"].strip(), flags=re.MULTILINE)
    assert {normal(name) for name in asked} <= set(pins("requirements.txt"))


def test_development_lock_has_its_group_and_the_very_same_runtime() -> None:
    """What is tested is what is installed."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    developed, run = pins("requirements-dev.txt"), pins("requirements.txt")
    asked = {normal(re.split(r"[ =<>~]", item)[0]) for item in groups["dev"]}
    assert asked <= set(developed)
    assert {name: run[name] for name in run if versions(run[name]) - versions(developed[name])} == {}


def versions(specs: set[str]) -> set[str]:
    """The versions alone: markers differ, because the development lock covers more."""
    return {re.split(r"[=;]+", spec)[1] for spec in specs}


def test_build_requirement_is_locked() -> None:
    """What [build-system] asks for is in the build lock, so that an editable install fetches nothing unhashed."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert {normal(item.split()[0]) for item in required} == set(pins("requirements-build.txt"))
