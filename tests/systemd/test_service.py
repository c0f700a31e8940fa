"""Checkvisor as two services under a real systemd: start, reload, every kind of end, and the page in every state."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cgroups import memory_group
from tests.e2e.product import parent
from tests.systemd.conftest import CONFIG, install
from tests.systemd.machine import Machine

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(900)]

BOTH = ("checkvisor", "checkvisor-web")


def states(machine: Machine) -> dict[str, str]:
    """id -> state of every target, as the page tells it."""
    return {target["id"]: target["state"] for target in machine.api("/targets")}


def newest(machine: Machine, target: str) -> dict[str, Any]:
    """The last result of a target."""
    return machine.api(f"/targets/{target}/results?limit=1")["items"][0]


def test_started(service: Machine) -> None:
    """After install.sh both services run, the checks are up, and every place belongs to whom it should."""
    for unit in BOTH:
        assert service.show(unit, "ActiveState") == "active"
        assert service.show(unit, "UnitFileState") == "enabled"
        assert service.show(unit, "User") == unit
    service.wait(lambda: states(service) == dict.fromkeys(("ping", "pgrep", "page"), "up"), 15, "everything up")
    modes = service.run(
        "stat", "-c", "%U:%G %a %n", "/etc/checkvisor", "/var/lib/checkvisor", "/var/lib/checkvisor/checkvisor.db",
        "/run/checkvisor", "/run/checkvisor/control.sock",
    )  # fmt: skip
    assert modes.splitlines() == [
        "root:checkvisor 750 /etc/checkvisor",
        "checkvisor:checkvisor 750 /var/lib/checkvisor",
        "checkvisor:checkvisor 640 /var/lib/checkvisor/checkvisor.db",
        "checkvisor:checkvisor 750 /run/checkvisor",
        "checkvisor:checkvisor 600 /run/checkvisor/control.sock",
    ]
    assert service.run("checkvisor", "version").startswith("checkvisor ")
    assert service.show("checkvisor", "StatusText") != ""


def test_units_verify_in_place(service: Machine) -> None:
    """systemd-analyze has nothing to say about the installed units, and rates them as promised."""
    for unit, limit in (("checkvisor.service", 3.0), ("checkvisor-web.service", 1.5)):
        assert service.run("systemd-analyze", "verify", "--man=no", f"/usr/local/lib/systemd/system/{unit}") == ""
        said = service.run("systemd-analyze", "security", "--no-pager", unit)
        level = re.search(r"exposure level for \S+: ([0-9.]+)", said)
        assert level is not None
        assert float(level[1]) <= limit


def test_installing_again_changes_nothing(service: Machine) -> None:
    """install.sh is idempotent: neither service is restarted, the configuration stays."""
    before = [service.show(unit, "InvocationID") for unit in BOTH]
    kept = service.run("cat", "/etc/checkvisor/config.yaml")
    install(service)
    assert [service.show(unit, "InvocationID") for unit in BOTH] == before
    assert service.run("cat", "/etc/checkvisor/config.yaml") == kept


def test_hardening_reaches_the_commands(service: Machine) -> None:
    """A command can't write the system, gain rights or see devices; it sees other processes and can ping (CONFIG)."""
    service.write("/etc/checkvisor/config.yaml", CONFIG + (
        "  - {id: writes, name: Writes, type: command, command: {exec: touch, args: [/etc/written]}}\n"
        "  - {id: sudo, name: Sudo, type: command, command: {exec: sudo, args: [-n, id, -u]}}\n"
        "  - {id: disks, name: Disks, type: command, command: {exec: sh, args: [-c, 'ls /dev/[svn]d*']}}\n"
        "  - {id: tmp, name: Tmp, type: command, command: {exec: sh, args: [-c, 'echo x > /tmp/x && cat /tmp/x']}}\n"
    ), group="checkvisor")  # fmt: skip
    service.run("systemctl", "reload", "checkvisor")
    wanted = {"ping": "up", "pgrep": "up", "page": "up", "writes": "down", "sudo": "down", "disks": "down", "tmp": "up"}
    service.wait(lambda: states(service) == wanted, 20, "states behind the hardening")
    assert "Read-only file system" in json.dumps(newest(service, "writes"))
    assert "to disable the flag" in json.dumps(newest(service, "sudo"))


def test_sudo_drop_in(service: Machine) -> None:
    """With the drop-in and a line in sudoers, a check runs a program as root."""
    service.write("/etc/sudoers.d/checkvisor", "checkvisor ALL=(root) NOPASSWD: /usr/bin/id -u\n", mode=0o440)
    service.write("/etc/checkvisor/config.yaml", CONFIG + (
        "  - id: sudo\n    name: Sudo\n    type: command\n    command: {exec: sudo, args: [-n, /usr/bin/id, -u]}\n"
        '    expect: {stdout: [{regex: "^0$"}]}\n'
    ), group="checkvisor")  # fmt: skip
    drop_in = "/etc/systemd/system/checkvisor.service.d/sudo.conf"
    service.run("install", "-D", "-m", "644", "/src/deploy/checkvisor-sudo.conf", drop_in)
    service.run("systemctl", "daemon-reload")
    service.run("systemctl", "restart", "checkvisor")
    service.wait(lambda: states(service).get("sudo") == "up", 20, "sudo works")


def test_reload(service: Machine) -> None:
    """A good file changes the running set, a bad one changes nothing and is shown; the process stays the same."""
    pid = service.show("checkvisor", "MainPID")
    service.write("/etc/checkvisor/config.yaml", CONFIG + (
        "  - {id: new, name: New, type: command, command: {exec: 'true'}}\n"
    ), group="checkvisor")  # fmt: skip
    service.run("systemctl", "reload", "checkvisor")
    service.wait(lambda: states(service).get("new") == "up", 15, "the new target")

    bad = CONFIG.replace("failureThreshold", "failuresThreshold")
    service.write("/etc/checkvisor/config.yaml", bad, group="checkvisor")
    service.run("systemctl", "reload", "checkvisor")
    service.wait(lambda: service.api("/summary")["supervisor"]["reloadError"], 15, "the error on the page")
    assert "failureThreshold" in json.dumps(service.api("/summary")["supervisor"]["reloadError"])
    before = newest(service, "new")["timestamp"]
    service.wait(lambda: newest(service, "new")["timestamp"] > before, 10, "checks go on")

    service.write("/etc/checkvisor/config.yaml", CONFIG, group="checkvisor")
    service.run("systemctl", "reload", "checkvisor")
    service.wait(lambda: not service.api("/summary")["supervisor"]["reloadError"], 15, "the error is gone")
    service.wait(lambda: "new" not in states(service), 10, "the target is gone")
    assert (service.show("checkvisor", "MainPID"), service.show("checkvisor", "NRestarts")) == (pid, "0")


def test_bad_configuration_at_start(service: Machine) -> None:
    """A configuration that does not load ends the start with 2 and its problems, and is not tried again."""
    service.write("/etc/checkvisor/config.yaml", "targets:\n  - {nmae: x}\n", group="checkvisor")
    service.run("systemctl", "restart", "checkvisor", check=False)
    service.wait(lambda: service.show("checkvisor", "ActiveState") == "failed", 15, "failed")
    assert service.show("checkvisor", "ExecMainStatus") == "2"
    status = service.run("systemctl", "status", "--no-pager", "-l", "checkvisor", check=False)
    assert "/etc/checkvisor/config.yaml:2:" in status
    assert service.get("/")[0] == 200


def test_watchdog(service: Machine) -> None:
    """A supervisor that hangs (here: stopped) is ended and started again within a minute; nothing of it is left."""
    pid = service.show("checkvisor", "MainPID")
    workers = {line.split()[0] for line in service.processes("checkvisor")}
    service.run("kill", "-STOP", pid)
    service.wait(
        lambda: service.show("checkvisor", "MainPID") not in (pid, "0")
        and service.show("checkvisor", "ActiveState") == "active", 70, "a new supervisor",
    )  # fmt: skip
    assert service.show("checkvisor", "NRestarts") == "1"
    assert not workers & {line.split()[0] for line in service.processes("checkvisor")}
    service.wait(lambda: states(service) == dict.fromkeys(("ping", "pgrep", "page"), "up"), 20, "everything up again")


def test_kill_9(service: Machine) -> None:
    """Killed at once: the page goes on reading, what was committed is kept, the next one starts and cleans up."""
    service.wait(lambda: states(service).get("ping") == "up", 15)
    results = newest(service, "ping")
    pid = service.show("checkvisor", "MainPID")
    old = {line.split()[0] for line in service.processes("checkvisor")}
    service.run("kill", "-KILL", pid)
    assert service.get("/")[0] == 200
    kept = service.api(f"/targets/ping/results?limit=1&to={results['timestamp'].replace('Z', '')[:-1]}9Z")
    assert kept["items"]
    service.wait(
        lambda: service.show("checkvisor", "MainPID") not in (pid, "0")
        and service.show("checkvisor", "ActiveState") == "active", 20, "a new supervisor",
    )  # fmt: skip
    assert not old & {line.split()[0] for line in service.processes("checkvisor")}
    service.wait(lambda: newest(service, "ping")["timestamp"] > results["timestamp"], 15, "new results")


def test_oom_kill_of_one_worker(service: Machine) -> None:
    """The kernel kills one worker for its memory: that check alone is an error which says so, the worker is replaced,
    every other target goes on, and for systemd nothing has happened."""
    others = ("ping", "pgrep", "page")
    service.write("/etc/checkvisor/config.yaml", CONFIG + (
        "  - id: greedy\n    name: Greedy\n    type: command\n    timeout: 100s\n"
        "    interval: 1h\n    retryInterval: 1h\n"
        "    command: {exec: sh, args: [-c, 'until test -e /etc/checkvisor/go; do sleep 0.1; done;"
        " head -c 90000000 /dev/zero']}\n"
    ), group="checkvisor")  # fmt: skip
    service.run("systemctl", "restart", "checkvisor")
    pid = service.show("checkvisor", "MainPID")
    assert service.show("checkvisor", "OOMPolicy") == "continue"
    service.wait(lambda: all(states(service).get(name) == "up" for name in others), 20, "the others up")
    with memory_group(60 << 20) as group:
        (command,) = service.wait(lambda: service.from_outside("head -c 90000000"), 15, "the greedy command")
        worker = parent(command)
        crew = service.from_outside("multiprocessing.forkserver")  # three workers, and the process that forks them
        assert worker in crew
        assert len(crew) == 4
        group.take(worker)
        assert group.pids() == [worker]
        began = newest(service, "ping")["timestamp"]
        service.write("/etc/checkvisor/go", "", group="checkvisor")
        (result,) = service.wait(lambda: service.api("/targets/greedy/results")["items"], 60, "the verdict")
        assert group.killed() == 1
    service.run("rm", "/etc/checkvisor/go")
    assert (result["success"], result["matched"], result["failure"]["kind"]) == (False, False, "error")
    assert "SIGKILL (out of memory?)" in result["failure"]["message"]

    service.wait(lambda: len(service.from_outside("multiprocessing.forkserver")) == 4, 15, "a worker in its place")
    assert crew - service.from_outside("multiprocessing.forkserver") == {worker}
    assert "checkvisor_pool_restarts_total 1.0" in service.get("/metrics", port=9464)[1].splitlines()
    for name in others:
        after = f"/targets/{name}/results?from={result['timestamp']}"
        service.wait(lambda: len(service.api(after)["items"]) >= 3, 20, f"results of {name}")  # noqa: B023 - called at once
        assert service.api(f"/targets/{name}/results?from={began}&outcome=failed")["items"] == []
    assert states(service) == {**dict.fromkeys(others, "up"), "greedy": "down"}
    assert [service.show("checkvisor", name) for name in ("ActiveState", "MainPID", "NRestarts", "Result")] == [
        "active", pid, "0", "success",
    ]  # fmt: skip


def test_stop_with_running_checks(service: Machine) -> None:
    """A stop ends the commands under way within 10 s, without a verdict for them, and leaves no process."""
    service.write("/etc/checkvisor/config.yaml", CONFIG + (
        "  - id: slow\n    name: Slow\n    type: command\n    timeout: 100s\n"
        "    command: {exec: sh, args: [-c, 'sleep 90; echo never']}\n"
        "  - id: deaf\n    name: Deaf\n    type: command\n    timeout: 100s\n"
        "    command: {exec: sh, args: [-c, 'trap : TERM; while :; do sleep 90; done']}\n"
    ), group="checkvisor")  # fmt: skip
    service.run("systemctl", "restart", "checkvisor")
    service.wait(lambda: sum("sleep 90" in line for line in service.processes("checkvisor")) >= 4, 15, "both commands")
    service.run("systemctl", "stop", "checkvisor", timeout=12)
    assert service.show("checkvisor", "Result") == "success"
    assert service.show("checkvisor", "ExecMainStatus") == "0"
    assert service.processes("checkvisor") == []
    assert service.api("/targets/slow/results")["items"] == []
    sides = [f"/var/lib/checkvisor/checkvisor.db-{name}" for name in ("wal", "shm")]
    said = service.run("stat", "-c", "%U %a %n", *sides)
    assert said.splitlines() == [f"checkvisor 640 {side}" for side in sides]


def readable(machine: Machine) -> tuple[int, int, int]:
    """What the page answers: itself, ready, ready and fresh."""
    return machine.get("/")[0], machine.get("/readyz")[0], machine.get("/readyz?strict=1")[0]


def test_the_page_reads_in_every_state(service: Machine) -> None:
    """As its own user: beside a running supervisor, after a clean stop, after kill -9, without a file."""
    service.wait(lambda: readable(service) == (200, 200, 200), 15, "running")

    service.run("systemctl", "stop", "checkvisor")
    service.run("systemctl", "restart", "checkvisor-web")  # no connection of before helps
    assert readable(service)[:2] == (200, 200)
    assert len(service.api("/targets")) == 3

    service.run("rm", "-f", "/var/lib/checkvisor/checkvisor.db-wal", "/var/lib/checkvisor/checkvisor.db-shm")
    assert readable(service)[:2] == (200, 200)
    assert service.run("ls", "/var/lib/checkvisor").count("checkvisor.db-") == 0, "the page wrote where it must not"

    service.run("systemctl", "start", "checkvisor")
    service.wait(lambda: readable(service) == (200, 200, 200), 15, "running again")
    service.run("systemctl", "stop", "--no-block", "checkvisor")
    service.run("systemctl", "kill", "--signal=KILL", "checkvisor", check=False)
    service.wait(lambda: service.show("checkvisor", "ActiveState") in ("inactive", "failed"), 20, "dead")
    service.run("systemctl", "restart", "checkvisor-web")
    assert readable(service)[:2] == (200, 200)

    service.run("systemctl", "stop", "checkvisor", "checkvisor-web")
    service.run("sh", "-c", "mkdir -p /var/aside && mv /var/lib/checkvisor/* /var/aside/")
    service.run("systemctl", "start", "checkvisor-web")
    service.wait(lambda: service.get("/healthz")[0] == 200, 15, "the page without a database")
    status, body = service.get("/")
    assert status in (200, 503)
    assert "<html" in body
    assert service.get("/readyz")[0] == 503
    service.run("systemctl", "start", "checkvisor")
    service.wait(lambda: readable(service) == (200, 200, 200), 20, "a new database appears by itself")
    service.run("systemctl", "stop", "checkvisor", "checkvisor-web")
    service.run("sh", "-c", "rm -rf /var/lib/checkvisor/* && mv /var/aside/* /var/lib/checkvisor/")


def test_the_page_sees_no_configuration(service: Machine) -> None:
    """The page's user and its sandbox reach neither the configuration nor the secrets, and can't write the database."""
    service.write("/etc/checkvisor/checkvisor.env", "TOKEN=secret-of-the-test\n", mode=0o600)
    pid = service.show("checkvisor-web", "MainPID")
    inside = f"nsenter -t {pid} -m runuser -u checkvisor-web -g checkvisor-web -G checkvisor --".split()
    attempts = "ls /etc/checkvisor; cd /var/lib/checkvisor && echo x >> checkvisor.db; touch /var/lib/checkvisor/x"
    said = service.run(*inside, "sh", "-c", attempts, check=False)
    assert "config.yaml" not in said
    assert said.count("Permission denied") + said.count("Read-only file system") == 3
    outside = service.run("runuser", "-u", "checkvisor-web", "--", "cat", "/etc/checkvisor/config.yaml", check=False)
    assert "Permission denied" in outside


def test_reboot(service: Machine) -> None:
    """After a reboot both services are there again, with the history of before."""
    service.wait(lambda: states(service).get("ping") == "up", 15)
    first = service.api("/targets/ping/results?limit=1")["items"][0]["timestamp"]
    service.reboot()
    service.wait(lambda: service.get("/readyz?strict=1")[0] == 200, 30, "fresh results")
    items = service.api("/targets/ping/results?limit=200")["items"]
    assert first in {item["timestamp"] for item in items}
    assert items[0]["timestamp"] > first
