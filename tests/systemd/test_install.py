"""install.sh over the life of an installation: upgrade, refusal, rollback, removal; proxy; container."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.systemd.conftest import install
from tests.systemd.machine import OFFLINE, PATH, Machine, base_root

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(900)]

DEPLOY = Path(__file__).parents[2] / "deploy"


@pytest.fixture
def newer(machine: Machine) -> str:
    """A source tree of a later version, as the machine sees it."""
    src = machine.root / "newer"
    if not src.exists():
        shutil.copytree(machine.root.parent / "source", src, ignore=shutil.ignore_patterns("dist", "tests"))
        init = src / "supervisor/__init__.py"
        init.write_text(re.sub(r'__version__ = ".*"', '__version__ = "99.0"', init.read_text()))
    return "/newer/deploy/install.sh"


def test_upgrade_and_rollback(service: Machine, newer: str) -> None:
    """A newer source becomes a release of its own and runs; --rollback goes back to the one before, data and all."""
    before = service.run("readlink", "/opt/checkvisor/current").strip()
    service.run("sh", newer, env=OFFLINE)
    assert "99.0" in service.run("checkvisor", "version")
    assert "/opt/checkvisor/releases/99.0-" in service.run("readlink", "/opt/checkvisor/current")
    service.wait(lambda: service.get("/readyz?strict=1")[0] == 200, 20, "the new release runs")
    service.run("sh", newer, "--rollback")
    assert service.run("readlink", "/opt/checkvisor/current").strip() == before
    assert service.run("readlink", "/opt/checkvisor/previous").startswith("/opt/checkvisor/releases/99.0-")
    service.wait(lambda: service.get("/readyz?strict=1")[0] == 200, 20, "the old release runs")


def test_a_release_that_refuses_the_configuration_is_not_switched_to(service: Machine, newer: str) -> None:
    """What does not validate is named, and the running services are left alone."""
    invocation = service.show("checkvisor", "InvocationID")
    service.write("/etc/checkvisor/config.yaml", "targets: [{nmae: x}]\n", group="checkvisor")
    said = service.run("sh", newer, env=OFFLINE, check=False)
    assert "/etc/checkvisor/config.yaml:1:" in said
    assert "nothing was changed" in said
    assert service.show("checkvisor", "InvocationID") == invocation
    assert "99.0" not in service.run("readlink", "/opt/checkvisor/current")


def test_uninstall_and_install_again(service: Machine) -> None:
    """--uninstall keeps configuration and database, --purge nothing; a new installation starts on the sample."""
    service.run("sh", "/src/deploy/install.sh", "--uninstall")
    for path in ("/opt/checkvisor", "/usr/local/bin/checkvisor", "/usr/local/lib/systemd/system/checkvisor.service"):
        assert not (service.root / path.lstrip("/")).is_symlink()
        assert not (service.root / path.lstrip("/")).exists()
    assert (service.root / "var/lib/checkvisor/checkvisor.db").exists()
    assert service.processes("checkvisor") == []
    service.run("sh", "/src/deploy/install.sh", "--uninstall", "--purge")
    assert not (service.root / "var/lib/checkvisor").exists()
    assert not (service.root / "etc/checkvisor").exists()
    assert "checkvisor" not in service.run("getent", "passwd") + service.run("getent", "group")
    assert service.run("systemctl", "--failed", "--no-legend") == ""

    install(service)
    service.wait(lambda: service.get("/readyz?strict=1")[0] == 200, 20, "a new installation")
    service.wait(
        lambda: {t["state"] for t in service.api("/targets")} <= {"up", "degraded"}, 60, "the sample's targets are up"
    )  # fmt: skip
    assert "disk" in {target["id"] for target in service.api("/targets")}


def test_the_command_sees_what_the_service_sees(service: Machine) -> None:
    """`checkvisor` as root has the service's secrets and database; a backup takes nothing away from the service."""
    service.write("/etc/checkvisor/checkvisor.env", "# a comment\nGREETING='hello there'\nOTHER=\"x\"\n", mode=0o600)
    service.write("/etc/checkvisor/config.yaml", (
        "targets:\n  - {id: env, name: E, type: command, command: {exec: echo, args: ['${GREETING}', '${OTHER}']},\n"
        "     expect: {stdout: [{contains: 'hello there x'}]}}\n"
    ), group="checkvisor")  # fmt: skip
    service.run("checkvisor", "validate")
    service.run("checkvisor", "check", "env")
    service.run("systemctl", "restart", "checkvisor")
    service.wait(lambda: [t["state"] for t in service.api("/targets")] == ["up"], 20, "the secret in the service")
    service.run("checkvisor", "backup", "/var/backup.db")
    owners = service.run("find", "/var/lib/checkvisor", "-not", "-user", "checkvisor")
    assert owners == ""
    service.run("systemctl", "stop", "checkvisor")
    service.run("checkvisor", "backup", "/var/backup-2.db")
    assert service.run("find", "/var/lib/checkvisor", "-not", "-user", "checkvisor") == ""

    # docs/operations.md: restore
    database = "/var/lib/checkvisor/checkvisor.db"
    service.run("mv", database, f"{database}.old")
    service.run("rm", "-f", f"{database}-wal", f"{database}-shm")
    service.run("install", "-o", "checkvisor", "-g", "checkvisor", "-m", "0640", "/var/backup.db", database)
    service.run("systemctl", "start", "checkvisor")
    service.wait(lambda: service.get("/readyz?strict=1")[0] == 200, 20, "the restored database")
    service.run("rm", "-f", "/etc/checkvisor/checkvisor.env", f"{database}.old")


def test_usage(machine: Machine) -> None:
    """A wrong option is a usage error; an ordinary user is told what is missing."""
    assert "--rollback" in machine.run("sh", "/src/deploy/install.sh", "--nonsense", check=False)
    said = machine.run("runuser", "-u", "nobody", "--", "sh", "/src/deploy/install.sh", check=False)
    assert "needs root" in said


def test_nginx_with_sub_path_and_login(service: Machine) -> None:
    """The example works as it stands: without a login 401, with it the page and its files below the sub-path."""
    service.run("cp", "/src/deploy/nginx.conf", "/etc/nginx/snippets/checkvisor.conf")
    service.write("/etc/nginx/checkvisor.htpasswd", "ops:{PLAIN}secret\n", mode=0o644)
    service.write(
        "/etc/nginx/sites-enabled/default",
        "server { listen 127.0.0.1:8081; include /etc/nginx/snippets/checkvisor.conf; }\n", mode=0o644,
    )  # fmt: skip
    service.write(
        "/etc/systemd/system/checkvisor-web.service.d/path.conf",
        "[Service]\nEnvironment=CHECKVISOR_BASE_PATH=/status\n", mode=0o644,
    )  # fmt: skip
    service.run("systemctl", "daemon-reload")
    service.run("systemctl", "restart", "checkvisor-web")
    service.run("nginx", "-t")
    service.run("systemctl", "restart", "nginx")
    assert service.get("/status/", port=8081)[0] == 401
    status, body = service.get("/status/", port=8081, user="ops:secret")
    assert status == 200
    for link in set(re.findall(r'(?:href|src)="(/[^"]+\.(?:css|js|svg)[^"]*)"', body)):
        assert link.startswith("/status/")
        assert service.get(link, port=8081, user="ops:secret")[0] == 200
    assert service.get("/status", port=8081, user="ops:secret")[0] == 200  # over the redirect
    assert service.get("/status/api/v1/summary", port=8081, user="ops:secret")[0] == 200
    assert service.get("/status/readyz", port=8081)[0] == 200
    assert service.get("/status/api/v1/summary", port=8081)[0] == 401


def containerfile() -> tuple[dict[str, str], list[str]]:
    """What the Containerfile says: ENV, and the lines of its instructions."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Containerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line]
    environment = next(line for line in lines if line.startswith("ENV "))
    return dict(pair.split("=", 1) for pair in environment.split()[1:]), lines


def test_container_steps(built: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """The Containerfile's own steps, in a plain Debian root: both processes run under tini and are healthy."""
    _, src, wheels = built
    image = tmp_path / "image"
    subprocess.run(["cp", "-a", "--reflink=auto", str(base_root()), str(image)], check=True)
    environment, lines = containerfile()
    packages = next(line for line in lines if line.startswith("RUN apt-get")).partition("--no-install-recommends")[2]
    for package in packages.partition("&&")[0].split():
        assert (image / f"var/lib/dpkg/info/{package}.list").exists() or (
            list((image / "var/lib/dpkg/info").glob(f"{package}:*.list"))
        ), package
    assert "COPY . /src" in lines
    assert "RUN sh /src/deploy/container.sh" in lines
    shutil.copytree(src, image / "src", ignore=shutil.ignore_patterns("tests", "dist"))
    _nspawn(image, wheels, "sh", "/src/deploy/container.sh", env=OFFLINE)
    assert not (image / "src").exists()

    health = re.search(r'CMD \["python", "-c", "(.*)"\]', (DEPLOY / "Containerfile").read_text())
    assert health is not None
    script = (
        "tini -g -- checkvisor up & up=$!\n"
        f'for i in $(seq 150); do python -c "{health[1]}" 2>/dev/null && break; sleep 0.2; done\n'
        f'python -c "{health[1]}"; healthy=$?\n'
        "ps -o comm= -u checkvisor | sort -u; kill -TERM $up; wait $up; echo healthy=$healthy ended=$?; ls /data\n"
    )
    said = _nspawn(image, wheels, "runuser", "-u", "checkvisor", "--", "sh", "-c", script, env=environment)
    assert "healthy=0 ended=0" in said, said
    assert "checkvisor.db" in said
    shutil.rmtree(image)


def _nspawn(root: Path, wheels: Path, *command: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        [
            "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--as-pid2", "--private-network",
            "--console=pipe", "--resolv-conf=off", "--timezone=off",
            f"--directory={root}", f"--bind-ro={wheels}:/wheels",
            *(f"--setenv={name}={value}" for name, value in {"PATH": PATH, **env}.items()), *command,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True, errors="replace",
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout
