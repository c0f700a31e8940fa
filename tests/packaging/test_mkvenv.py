"""deploy/mkvenv.sh where something is missing: it names it and leaves nothing half-made. The rest: test_clone.py."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ("sh", "cat", "cksum", "cut", "rm", "dirname", "env")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that mkvenv.sh looks at."""
    checkout = tmp_path / "checkout"
    shutil.copytree(ROOT / "deploy", checkout / "deploy")
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, checkout)
    return checkout


@pytest.fixture
def bin_directory(tmp_path: Path) -> Path:
    """A PATH with the tools of mkvenv.sh alone: no Python, no uv."""
    directory = tmp_path / "bin"
    directory.mkdir()
    for tool in TOOLS:
        (directory / tool).symlink_to(shutil.which(tool) or "")
    return directory


def script(path: Path, text: str) -> None:
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def mkvenv(checkout: Path, path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(checkout / "deploy/mkvenv.sh"), *(arguments or ("runtime",))],
        env={"PATH": str(path)}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def test_no_python(checkout: Path, bin_directory: Path) -> None:
    """Without a Python it says which is needed and how to get it."""
    done = mkvenv(checkout, bin_directory)
    assert done.returncode == 1
    assert done.stderr == (
        "mkvenv: no Python 3.11 or newer found. On Debian and Ubuntu: sudo apt install python3-venv\n"
    )


def test_old_and_broken_pythons_are_passed_over(checkout: Path, bin_directory: Path) -> None:
    """An interpreter that is too old, or a shim for one that is not installed, does not count."""
    script(bin_directory / "python3.13", "echo 'pyenv: python3.13: command not found' >&2; exit 127\n")
    script(bin_directory / "python3", "exit 1\n")  # what `sys.exit(sys.version_info < (3, 11))` gives
    done = mkvenv(checkout, bin_directory)
    assert done.returncode == 1
    assert "no Python 3.11 or newer found" in done.stderr
    assert "pyenv" not in done.stderr


def test_no_ensurepip(checkout: Path, bin_directory: Path) -> None:
    """A fresh Debian without python3-venv: the package is named, and no half-made environment is there."""
    script(
        bin_directory / "python3.11",
        f'case "$*" in *ensurepip*) exit 1;; esac\nexec {sys.executable} "$@"\n',
    )
    done = mkvenv(checkout, bin_directory)
    assert done.returncode == 1
    assert "its module ensurepip is missing" in done.stderr
    assert f"sudo apt install python{sys.version_info[0]}.{sys.version_info[1]}-venv" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_failed_installation_leaves_nothing(checkout: Path, bin_directory: Path) -> None:
    """When the packages can't be fetched, the environment that was begun is removed again, and that is said."""
    script(
        bin_directory / "uv",
        'case "$1" in --version) exit 0;;\n'
        f'venv) for last; do :; done; {shutil.which("mkdir")} -p "$last/bin"; : > "$last/bin/python";;\n'
        "*) echo 'no network' >&2; exit 2;; esac\n",
    )
    script(bin_directory / "python3.12", f'exec {sys.executable} "$@"\n')
    done = mkvenv(checkout, bin_directory)
    assert done.returncode == 2
    assert "no network" in done.stderr
    assert "failed: .venv is removed again" in done.stderr
    assert not (checkout / ".venv").exists()


def test_nothing_to_do(checkout: Path, bin_directory: Path) -> None:
    """With an environment of the same locks it does nothing; a development one serves to run; a new lock counts."""
    calls = checkout / "calls"
    script(bin_directory / "python3.11", f'exec {sys.executable} "$@"\n')
    script(
        bin_directory / "uv",
        f'echo "$@" >> {calls}\n'
        'case "$1" in venv) for last; do :; done\n'
        f'{shutil.which("mkdir")} -p "$last/bin"; {shutil.which("ln")} -s {sys.executable} "$last/bin/python";; esac\n',
    )
    (bin_directory / "mv").symlink_to(shutil.which("mv") or "")

    def used(kind: str) -> int:
        calls.write_text("")
        done = mkvenv(checkout, bin_directory, kind)
        assert done.returncode == 0, done.stderr
        return len([line for line in calls.read_text().splitlines() if line.startswith(("venv", "pip"))])

    assert used("runtime") == 3  # the environment, the lock, this checkout
    assert used("runtime") == 0
    assert used("dev") == 2
    assert used("runtime") == 0
    with (checkout / "deploy/requirements-dev.txt").open("a") as lock:
        lock.write("# newer\n")
    assert used("runtime") == 2
    assert used("dev") == 0
    moved = checkout.rename(checkout.with_name("moved"))
    assert "bringing .venv up to date" in mkvenv(moved, bin_directory, "dev").stderr  # its scripts hold the old path


def test_usage(checkout: Path, bin_directory: Path) -> None:
    """An unknown kind is a usage error."""
    done = mkvenv(checkout, bin_directory, "nonsense")
    assert (done.returncode, done.stderr) == (2, "usage: deploy/mkvenv.sh runtime|dev|service\n")
