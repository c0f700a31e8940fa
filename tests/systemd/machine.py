"""A Debian root made by debootstrap and booted by systemd-nspawn, for the tests of this directory.

Roots and wheels are kept outside the checkout (CHECKVISOR_TEST_CACHE, default /var/cache/checkvisor-tests), so that
only the first run pays for them. The mirror is the one that this machine's own apt uses. A booted machine has loopback
alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.e2e.product import command_line

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("CHECKVISOR_TEST_CACHE", "/var/cache/checkvisor-tests"))
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "python3", "python3-venv", "ca-certificates", "iputils-ping", "procps", "sudo",
    "nginx-light", "make", "tini", "tzdata",
)  # fmt: skip
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
LOCKS = ("deploy/requirements.txt", "deploy/requirements-build.txt")
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/wheels"}


def missing() -> str:
    """Why these tests can't run here; empty if they can."""
    if os.geteuid() != 0:
        return "boots a Debian root, which needs root"
    tools = {"systemd-nspawn": "systemd-container", "debootstrap": "debootstrap", "nsenter": "util-linux"}
    for tool, package in tools.items():
        if shutil.which(tool) is None:
            return f"needs {tool} (Debian package {package})"
    if not mirror():
        return "apt has no Debian mirror configured"
    return ""


def mirror() -> tuple[str, str] | None:
    """(suite, address) of the first Debian release that this machine's apt is configured with."""
    if shutil.which("apt-get") is None:
        return None
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in done.stdout.splitlines():
        suite, component, address = line.split(" ", 2)
        if component == "main" and Path("/usr/share/debootstrap/scripts", suite).exists():
            return suite, address
    return None


@contextmanager
def _made_once(target: Path) -> Iterator[Path | None]:
    """Give a temporary name to fill, which becomes `target` at the end; None if it is there. One process at a time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.with_name(target.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.exists():
            yield None
            return
        part = target.with_name(target.name + ".part")
        shutil.rmtree(part, ignore_errors=True)
        yield part
        part.rename(target)


def base_root() -> Path:
    """A Debian root with PACKAGES, which nobody changes."""
    found = mirror()
    assert found is not None
    suite, address = found
    digest = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    target = CACHE / f"root-{suite}-{digest}"
    with _made_once(target) as part:
        if part is not None:
            subprocess.run(
                ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", suite, str(part), address],
                check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=600,
            )  # fmt: skip
            shutil.rmtree(part / "var/cache/apt/archives", ignore_errors=True)
    return target


def wheels(root: Path) -> Path:
    """A directory with the locked wheels for the Python of `root`: a booted machine has no network."""
    version = (root / "usr/bin/python3").readlink().name.removeprefix("python")
    digest = hashlib.sha256(b"".join((ROOT / lock).read_bytes() for lock in LOCKS)).hexdigest()[:12]
    target = CACHE / f"wheels-{version}-{digest}"
    with _made_once(target) as part:
        if part is not None:
            command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", "-q", "--no-deps"]
            command += ["--require-hashes", "--only-binary=:all:", "--python-version", version, "--dest", str(part)]
            for lock in LOCKS:
                command += ["-r", str(ROOT / lock)]
            subprocess.run(command, check=True, timeout=600, stdin=subprocess.DEVNULL)
    return target


def source(target: Path) -> Path:
    """A copy of the checkout without what git ignores, as an unpacked sdist would be; with the wheel in dist/."""
    shutil.copytree(
        ROOT, target, symlinks=True,
        ignore=shutil.ignore_patterns(
            ".git", ".venv", ".ci", "data", "build", "dist", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis"
        ),
    )  # fmt: skip
    subprocess.run(["sh", "deploy/build.sh", sys.executable, "dist"], cwd=target, check=True, timeout=120)
    return target


class Machine:
    """One booted root. `run` runs a command in it, as root."""

    def __init__(self, root: Path, *, binds: dict[Path, str], log: Path) -> None:
        self.root = root
        self._command = [
            "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--console=pipe",
            "--private-network", "--link-journal=no", "--resolv-conf=off", "--timezone=off",
            f"--directory={root}", f"--machine=cv{os.getpid()}",
            *(f"--bind-ro={path}:{at}" for path, at in binds.items()),
        ]  # fmt: skip
        self._log = log
        self._nspawn: subprocess.Popen[bytes] | None = None

    def boot(self) -> None:
        """Boot, and wait until everything is started."""
        with self._log.open("ab") as log:
            self._nspawn = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.booted()

    def booted(self) -> None:
        """Wait until everything is started."""
        self.wait(self.leader, 30, "a PID 1")
        said = self.wait(self._settled, 60, "the end of the boot")
        assert said == "running", self.run("systemctl", "--failed", "--no-legend")

    def _settled(self) -> str:
        said = self.run("systemctl", "is-system-running", check=False).strip()
        return said if said in ("running", "degraded") else ""

    def reboot(self) -> None:
        """Reboot from inside. With --keep-unit, systemd-nspawn ends with 133: start me again."""
        assert self._nspawn is not None
        self.run("systemctl", "reboot", check=False)
        assert self._nspawn.wait(60) == 133
        self.boot()

    def leader(self) -> int:
        """PID 1 of the machine, as the host sees it; 0 if there is none at the moment."""
        assert self._nspawn is not None
        assert self._nspawn.poll() is None, self._log.read_text(errors="replace")[-3000:]
        children = Path(f"/proc/{self._nspawn.pid}/task/{self._nspawn.pid}/children").read_text().split()
        for child in children:
            try:
                if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                    return int(child)
            except FileNotFoundError:
                continue
        return 0

    def run(
        self, *command: str, check: bool = True, timeout: float = 120, env: dict[str, str] | None = None, said: str = ""
    ) -> str:
        """Run a command in the machine, with `said` on stdin; returns stdout and stderr, and fails with them."""
        done = subprocess.run(
            ["nsenter", "--target", str(self.leader()), "--all", "--wd", *command],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, input=said, text=True, errors="replace",
            timeout=timeout, check=False,
            env={"PATH": PATH, "LANG": "C.UTF-8", "HOME": "/root", **(env or {})},
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{command} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).strip()

    def get(self, path: str, *, port: int = 8080, user: str = "") -> tuple[int, str]:
        """GET from the page: (status, body); status 0 if nothing answers."""
        said = self.run("python3", "-c", _GET, f"http://127.0.0.1:{port}{path}", user, check=False, timeout=30)
        status, _, body = said.partition("\n")
        return int(status), body

    def api(self, path: str) -> Any:
        """The JSON of an endpoint that must answer 200."""
        status, body = self.get(f"/api/v1{path}")
        assert status == 200, body
        return json.loads(body)

    def wait(self, condition: Any, seconds: float, what: str = "the condition") -> Any:
        """Poll until the condition is true and return its value, or fail."""
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < deadline, f"{what} did not come true within {seconds} s"
            time.sleep(0.2)  # the poll of a condition with a deadline

    def processes(self, user: str) -> list[str]:
        """Command lines of all living processes of a user."""
        said = self.run("ps", "--no-headers", "-o", "pid,stat,args", "-u", user, check=False)
        return [line.strip() for line in said.splitlines() if line.split()[1:2] and not line.split()[1].startswith("Z")]

    def from_outside(self, text: str) -> set[int]:
        """Processes of the machine with this in their command line, by the pids that the host knows them under."""
        inside = os.readlink(f"/proc/{self.leader()}/ns/pid")
        found = set()
        for name in os.listdir("/proc"):
            with suppress(FileNotFoundError, ProcessLookupError):
                if name.isdigit() and text in command_line(int(name)) and os.readlink(f"/proc/{name}/ns/pid") == inside:
                    found.add(int(name))
        return found

    def write(self, path: str, text: str, *, mode: int = 0o640, group: str = "root") -> None:
        """Write a file of root's, from inside: seen from outside, an absolute symlink leads to a file of the host."""
        script = 'mkdir -p "$(dirname "$1")" && rm -f "$1" && cat > "$1" && chown "root:$2" "$1" && chmod "$3" "$1"'
        self.run("sh", "-c", script, "sh", path, group, f"{mode:o}", said=text)

    def power_off(self) -> None:
        """Halt the machine; it is killed if that takes too long."""
        if self._nspawn is None:
            return
        if self._nspawn.poll() is None:
            self._nspawn.send_signal(signal.SIGTERM)
            try:
                self._nspawn.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(self._nspawn.pid, signal.SIGKILL)
                self._nspawn.wait(30)
        self._nspawn = None


_GET = """
import base64, sys, urllib.error, urllib.request
request = urllib.request.Request(sys.argv[1])
if sys.argv[2]:
    request.add_header("Authorization", "Basic " + base64.b64encode(sys.argv[2].encode()).decode())
try:
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=20)
except urllib.error.HTTPError as error:
    answer = error
except OSError as error:
    print(0)
    print(error)
    sys.exit()
print(answer.status)
print(answer.read().decode())
"""
