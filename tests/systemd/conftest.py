"""One machine for all tests of this directory, with Checkvisor installed from its wheel by deploy/install.sh."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.systemd.machine import OFFLINE, Machine, base_root, missing, source, wheels

CONFIG = """\
runtime: {maxConcurrentChecks: 3}
defaults: {interval: 1s, timeout: 5s, retryInterval: 1s, failureThreshold: 1, successThreshold: 1}
targets:
  - {id: ping, name: Ping, type: command, command: {exec: ping, args: [-c, "1", -W, "2", 127.0.0.1]}}
  - {id: pgrep, name: Other processes, type: command, command: {exec: pgrep, args: [-u, root, journal]}}
  - {id: page, name: Page, type: http, http: {url: "http://127.0.0.1:8080/healthz"}}
"""


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Instead of the one for all tests: the machine lives as long as the session, and a reboot makes it anew."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path, Path]]:
    """(a fresh root to change, the source with its wheel, the wheels of the lock)."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    base = base_root()
    directory = tmp_path_factory.mktemp("machine")
    root = directory / "root"
    subprocess.run(["cp", "-a", "--reflink=auto", str(base), str(root)], check=True)
    yield root, source(directory / "source"), wheels(base)
    shutil.rmtree(root)  # a third of a gigabyte, which pytest would keep for three runs


@pytest.fixture(scope="session")
def machine(built: tuple[Path, Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The booted machine, with Checkvisor installed and running on CONFIG."""
    root, src, wheelhouse = built
    booted = Machine(root, binds={src: "/src", wheelhouse: "/wheels"}, log=tmp_path_factory.mktemp("log") / "console")
    try:
        booted.boot()
        install(booted)
        restore(booted)
        yield booted
    finally:
        booted.power_off()


def install(machine: Machine, *arguments: str) -> str:
    """Run install.sh in the machine; with no arguments, from the wheel."""
    wheel = next((machine.root.parent / "source/dist").glob("*.whl")).name
    return machine.run("sh", "/src/deploy/install.sh", *(arguments or ("--wheel", f"/src/dist/{wheel}")), env=OFFLINE)


def restore(machine: Machine, config: str = CONFIG) -> None:
    """Whatever a test did: this configuration, no drop-ins, both services freshly started."""
    machine.run("rm", "-rf", "/etc/systemd/system/checkvisor.service.d", "/etc/systemd/system/checkvisor-web.service.d")
    machine.write("/etc/checkvisor/config.yaml", config, group="checkvisor")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "restart", "checkvisor", "checkvisor-web")


@pytest.fixture
def service(machine: Machine) -> Iterator[Machine]:
    """The machine with both services running on CONFIG, put in order again afterwards."""
    yield machine
    restore(machine)
