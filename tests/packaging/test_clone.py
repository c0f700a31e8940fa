"""The README's `make run` in a fresh copy, and the wheel in an empty environment, with the packages of the lock."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tests.net.ports import free_port

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NOT_IN_A_CLONE = shutil.ignore_patterns(
    ".git", ".venv", ".ci", "data", "build", "dist", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis"
)


def open_to_the_group(directory: Path) -> None:
    """What `git clone` makes with umask 002."""
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode | (path.stat().st_mode & 0o700) >> 3)


def get(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            body: bytes = answer.read()
            return body
    except OSError:
        return None


def descendants(root: Path) -> list[str]:
    """Command lines of living processes that run from below a directory."""
    found = []
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            line = (directory / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(root) in line or str(root) in os.readlink(directory / "cwd"):
                found.append(line)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_make_run_in_a_fresh_clone(tmp_path: Path, tool: str) -> None:
    """`make run` in a clone with umask 002 makes the environment, shows real results, and Ctrl-C leaves no process."""
    if tool == "uv" and shutil.which("uv") is None:
        pytest.skip("uv is not here")
    clone = tmp_path / "clone"
    shutil.copytree(ROOT, clone, symlinks=True, ignore=NOT_IN_A_CLONE)
    port = free_port()
    config = clone / "config.yaml"
    config.write_text(config.read_text().replace("127.0.0.1:8080", f"127.0.0.1:{port}"))
    open_to_the_group(clone)
    environment = dict(os.environ, CHECKVISOR_BIND=f"127.0.0.1:{port}", PYTHON=sys._base_executable)  # type: ignore[attr-defined]
    environment.pop("VIRTUAL_ENV", None)
    if tool == "pip":  # hide uv: a PATH of the system's programs alone
        environment["PATH"] = "/usr/bin:/bin"
    log = tmp_path / "log"
    with log.open("wb") as output:
        make = subprocess.Popen(
            ["make", "run"], cwd=clone, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            start_new_session=True,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 300
        targets: list[dict[str, object]] = []
        while not targets or {target["state"] for target in targets} - {"up", "degraded"}:
            assert make.poll() is None, log.read_text()
            assert time.monotonic() < deadline, (targets, log.read_text()[-5000:])
            time.sleep(0.2)  # the poll of a condition with a deadline
            targets = json.loads(get(f"http://127.0.0.1:{port}/api/v1/targets") or b"[]")
        assert len(targets) == 5
    finally:
        if make.poll() is None:
            os.killpg(make.pid, signal.SIGINT)  # what a terminal does at Ctrl-C
        make.wait(30)
    assert descendants(clone) == []
    said = log.read_text()
    assert ("and uv" in said) == (tool == "uv")
    assert f"127.0.0.1:{port}" in said
    assert "Traceback" not in said
    if os.geteuid() == 0:
        assert "others could write config.yaml" in said

    again = subprocess.run(
        ["sh", "deploy/mkvenv.sh", "runtime"], cwd=clone, env=environment, capture_output=True, text=True, check=True
    )
    assert again.stderr == ""


def test_wheel_in_an_empty_environment(tmp_path: Path) -> None:
    """The wheel has all it needs: installed with the locked packages, outside any checkout, its three ends work."""
    subprocess.run(["sh", str(ROOT / "deploy/build.sh"), sys.executable, str(tmp_path / "dist")], check=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (sdist,) = (tmp_path / "dist").glob("*.tar.gz")
    listed = subprocess.run(["tar", "-tzf", str(sdist)], capture_output=True, text=True, check=True).stdout
    for name in (
        "deploy/install.sh",
        "deploy/checkvisor.service",
        "config.yaml",
        "Makefile",
        "LICENSE",
        "docs/config.md",
    ):
        assert f"{sdist.name.removesuffix('.tar.gz')}/{name}\n" in listed, name

    checkout = tmp_path / "elsewhere"
    checkout.mkdir()
    for name in ("deploy", "setup.cfg", "pyproject.toml"):
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, checkout / name)
    environment = dict(os.environ, WHEEL=str(wheel), VENV=str(tmp_path / "venv"), PYTHON=sys._base_executable)  # type: ignore[attr-defined]
    subprocess.run(["sh", str(checkout / "deploy/mkvenv.sh"), "service"], env=environment, check=True)
    shutil.rmtree(checkout)

    bare = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    config = tmp_path / "config.yaml"
    shutil.copy(ROOT / "config.yaml", config)
    config.chmod(0o644)

    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "checkvisor" in run("venv/bin/checkvisor", "--version")
    run("venv/bin/checkvisor", "validate", "config.yaml")
    run("venv/bin/python", "-W", "error", "-c", "import webui; webui.create_app()")
    installed = run("venv/bin/python", "-c", "import supervisor, webui; print(supervisor.__file__, webui.__file__)")
    assert installed.count(str(tmp_path / "venv")) == 2
