"""The systemd units without a running systemd: valid, hardened enough, with every directive that was promised."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
UNITS = ("checkvisor.service", "checkvisor-web.service")
EXPOSURE = {"checkvisor.service": 3.0, "checkvisor-web.service": 1.5}

needs_analyze = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="needs systemd-analyze (Debian package systemd)"
)


def directives(name: str) -> dict[str, list[str]]:
    """Every assignment of a unit, in order."""
    found: dict[str, list[str]] = {}
    for line in (DEPLOY / name).read_text().splitlines():
        if line and not line.startswith(("#", "[")):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


@needs_analyze
@pytest.mark.parametrize("name", UNITS)
def test_verify(tmp_path: Path, name: str) -> None:
    """systemd finds nothing to say about a unit, once the program it starts is there."""
    for unit in UNITS:
        text = (DEPLOY / unit).read_text()
        (tmp_path / unit).write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True, check=False
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if "checkvisor" in line]
    assert (done.returncode, said) == (0, [])


@needs_analyze
@pytest.mark.parametrize("name", UNITS)
def test_exposure(name: str) -> None:
    """The hardening is worth what the documentation says: 3.0 or better, 1.5 or better for the page."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", str(DEPLOY / name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", done.stdout)
    assert level is not None
    assert float(level[1]) <= EXPOSURE[name]


def test_directives_of_the_supervisor() -> None:
    """What makes the supervisor run for years stands in its unit."""
    unit = directives("checkvisor.service")
    wanted = {
        "Type": "notify", "WatchdogSec": "30", "ExecReload": "kill -HUP $MAINPID", "Restart": "always",
        "RestartSec": "5", "StartLimitIntervalSec": "0", "RestartPreventExitStatus": "2", "OOMPolicy": "continue",
        "TimeoutStartSec": "infinity", "TimeoutStopSec": "30", "KillMode": "mixed", "LimitNOFILE": "65536",
        "StateDirectory": "checkvisor", "StateDirectoryMode": "0750", "RuntimeDirectory": "checkvisor",
        "RuntimeDirectoryPreserve": "yes", "UMask": "0027", "AmbientCapabilities": "CAP_NET_RAW",
        "ProtectProc": "default",
    }  # fmt: skip
    assert {key: unit[key][-1] for key in wanted} == wanted
    assert "touch checkvisor.db-wal checkvisor.db-shm" in unit["ExecStopPost"][0]


def test_directives_of_the_page() -> None:
    """The page has a user of its own, reads the database by its group, and outlives the supervisor."""
    unit = directives("checkvisor-web.service")
    assert unit["User"] != directives("checkvisor.service")["User"]
    assert unit["SupplementaryGroups"] == directives("checkvisor.service")["Group"]
    assert "/var/lib/checkvisor" in unit["ReadOnlyPaths"][0]
    assert "checkvisor.service" in unit["After"][0]
    assert not {"Requires", "BindsTo", "PartOf", "Requisite"} & set(unit)


def test_every_hardening_line_says_what_it_costs() -> None:
    """In the supervisor's unit, a comment stands above each line of the hardening part, or above its neighbour."""
    text = (DEPLOY / "checkvisor.service").read_text().partition("# --- hardening")[2].partition("[Install]")[0]
    blocks = re.findall(r"((?:^#.*\n)+)((?:^[A-Z].*\n)+)", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if line and not line.startswith(("#", " "))]
    lines = [line for line in lines if "=" in line]
    assert sum(len(settings.splitlines()) for _, settings in blocks) == len(lines)


def test_the_sudo_drop_in_lifts_what_implies_no_new_privileges() -> None:
    """Each option of the unit that would imply NoNewPrivileges (systemd.exec(5)) is lifted, or sudo still fails."""
    implying = {
        "PrivateDevices", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs", "ProtectClock",
        "ProtectHostname", "RestrictAddressFamilies", "RestrictNamespaces", "RestrictRealtime", "RestrictSUIDSGID",
        "LockPersonality", "SystemCallArchitectures", "SystemCallFilter", "MemoryDenyWriteExecute", "SystemCallLog",
    }  # fmt: skip
    unit, lifted = directives("checkvisor.service"), directives("checkvisor-sudo.conf")
    for key in implying & set(unit):
        assert lifted[key] in (["no"], [""]), key
    assert lifted["NoNewPrivileges"] == ["no"]


def test_users_and_groups_fit_together() -> None:
    """The users of the units are the ones that sysusers.d makes, and tmpfiles.d gives them what is theirs."""
    users = re.findall(r"^u\s+(\S+)", (DEPLOY / "checkvisor.sysusers.conf").read_text(), flags=re.MULTILINE)
    assert users == [directives(unit)["User"][0] for unit in UNITS]
    places = re.findall(
        r"^d\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)", (DEPLOY / "checkvisor.tmpfiles.conf").read_text(), flags=re.MULTILINE
    )
    assert places == [
        ("/etc/checkvisor", "0750", "root", "checkvisor"),
        ("/var/lib/checkvisor", "0750", "checkvisor", "checkvisor"),
    ]
