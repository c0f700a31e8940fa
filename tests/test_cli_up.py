"""`checkvisor up`, `web` and `run` as real processes: started, signalled, killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from tests.cli_support import alive, checkvisor, command_target, get, processes_of, running, until, write

QUIET = 'runtime: {metricsListen: "", maxConcurrentChecks: 2}\n'
FREE = "127.0.0.1:0"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a valid configuration."""
    write(tmp_path, QUIET + "targets:\n" + command_target("ok", "true", interval="30s"))
    return tmp_path


def test_up_serves_the_page_and_stops_cleanly(folder: Path) -> None:
    """Both processes run, each in its own session; the log says where the page is; Ctrl-C ends all with 0. The web app
    sees none of the variables that may hold secrets of the configuration."""
    with running("up", "--bind", FREE, "--base-path", "/status", cwd=folder, SHOP_TOKEN="canary-8d1f") as up:
        page = up.wait_for("up.ready")["page"]
        up.wait_for("supervisor.started")
        assert page.startswith("http://127.0.0.1:")
        assert page.endswith("/status/")
        assert get(page)[0] == 200
        until(lambda: b'"up"' in get(page + "api/v1/targets")[1], what="a result on the page")
        children = [up.child("supervisor"), up.child("webui")]
        assert [os.getsid(pid) for pid in children] == children
        assert b"canary-8d1f" in Path(f"/proc/{children[0]}/environ").read_bytes()
        assert b"canary-8d1f" not in Path(f"/proc/{children[1]}/environ").read_bytes()
        assert up.end(signal.SIGINT) == 0
    assert up.events("supervisor.stopped")


def test_up_restarts_a_dead_web_app_on_the_same_port(folder: Path) -> None:
    """A web app that dies is started again, and the log says so; the supervisor is not touched."""
    with running("up", "--bind", FREE, cwd=folder) as up:
        page = up.wait_for("up.ready")["page"]
        up.wait_for("supervisor.started")
        supervisor = up.child("supervisor")
        os.kill(up.child("webui"), signal.SIGKILL)
        assert up.wait_for("up.web_ended")["how"] == "killed by SIGKILL"
        assert up.wait_for("up.ready", count=2)["page"] == page
        assert get(page)[0] == 200
        assert up.child("supervisor") == supervisor
        assert up.end() == 0


def test_up_ends_with_its_supervisor(folder: Path) -> None:
    """When the supervisor dies, the web app is stopped and the status tells the signal."""
    with running("up", "--bind", FREE, cwd=folder) as up:
        up.wait_for("up.ready")
        up.wait_for("supervisor.started")
        up.said()
        os.kill(up.child("supervisor"), signal.SIGKILL)
        assert up.process.wait(20) == 128 + signal.SIGKILL
        assert up.events("up.supervisor_ended")[0]["how"] == "killed by SIGKILL"
        up.all_gone()


@pytest.mark.slow
def test_up_gives_the_status_of_a_supervisor_that_cannot_start(folder: Path) -> None:
    """A locked data directory is said by the supervisor, and `up` ends with 4 and without a web app."""
    with running("run", cwd=folder) as first:
        first.wait_for("supervisor.started")
        second = checkvisor("up", "--bind", FREE, cwd=folder)
        assert second.returncode == 4
        assert f"pid {first.process.pid}" in second.stderr
        assert first.end() == 0


def test_nothing_survives_a_killed_up(folder: Path) -> None:
    """The kernel tells both to stop, and they do."""
    with running("up", "--bind", FREE, cwd=folder) as up:
        up.wait_for("up.ready")
        up.wait_for("supervisor.started")
        up.said()
        up.process.kill()
        up.process.wait(10)
        up.all_gone()


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    """The first signal waits for running checks, the second does not."""
    write(tmp_path, QUIET + "targets:\n" + command_target("slow", "sleep 60", timeout="59s", interval="60s"))
    with running("up", "--bind", FREE, cwd=tmp_path) as up:
        up.wait_for("up.ready")
        up.wait_for("supervisor.started")
        until(lambda: any(b"sleep" in _cmdline(pid) for pid in processes_of(up.process.pid)), what="the slow check")
        up.said()
        up.process.send_signal(signal.SIGTERM)
        up.wait_for("up.stopping")
        up.process.send_signal(signal.SIGTERM)
        assert up.process.wait(4) == 0
        up.all_gone()


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_hangup_reloads(folder: Path) -> None:
    """SIGHUP goes to the supervisor, which loads the configuration anew; the web app stays as it is."""
    with running("up", "--bind", FREE, cwd=folder) as up:
        page = up.wait_for("up.ready")["page"]
        up.wait_for("supervisor.started")
        web = up.child("webui")
        write(folder, QUIET + "targets:\n" + command_target("ok", "true") + command_target("new", "true"))
        up.process.send_signal(signal.SIGHUP)
        assert up.wait_for("reload.done")["targets"] == 2
        until(lambda: b'"new"' in get(page + "api/v1/targets")[1], what="the new target")
        assert up.child("webui") == web
        assert up.end() == 0


@pytest.mark.slow
def test_up_on_a_unix_socket(folder: Path) -> None:
    """The page may be on a Unix socket; the log names it once it answers."""
    with running("up", "--bind", f"unix:{folder}/web.sock", cwd=folder) as up:
        assert up.wait_for("up.ready")["page"] == f"unix:{folder}/web.sock"
        assert up.end() == 0


@pytest.mark.parametrize("command", ["up", "web"])
def test_a_busy_port_is_a_sentence(folder: Path, command: str) -> None:
    """A busy port ends the command with 4 before anything is started."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        done = checkvisor(command, "--bind", address, cwd=folder)
    assert done.returncode == 4
    assert done.stderr.strip().endswith(
        f"can't listen on {address}: the port is busy; stop what uses it, or choose another with --bind"
    )
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "data").exists()


@pytest.mark.parametrize(
    ("command", "option", "value", "said"),
    [
        ("up", "--bind", "8080", "expected HOST:PORT"),
        ("web", "--bind", "localhost:99999", "expected HOST:PORT"),
        ("web", "--bind", "unix:web.sock", "expected an absolute path"),
        ("up", "--base-path", "/a b", "base path '/a b'"),
        ("up", "--trusted-hosts", "x:1", "trusted host 'x:1'"),
        ("up", "--frame-ancestors", "none,self", "none can't stand beside another source"),
        ("web", "--trusted-hosts", "x:1", "trusted host 'x:1'"),
    ],
)
def test_wrong_web_settings_are_wrong_usage(folder: Path, command: str, option: str, value: str, said: str) -> None:
    """What the web app can't use ends either command with 2 and one sentence, before anything is started."""
    bind = () if option == "--bind" else ("--bind", FREE)
    _refused(checkvisor(command, option, value, *bind, cwd=folder), 2, said, folder)


@pytest.mark.parametrize("command", ["up", "web"])
def test_wrong_sizes_are_wrong_usage(folder: Path, command: str) -> None:
    """A number of workers or threads that is none is said before anything is started."""
    for name, value in (("CHECKVISOR_WEB_WORKERS", "many"), ("CHECKVISOR_WEB_THREADS", "0")):
        done = checkvisor(command, "--bind", FREE, cwd=folder, **{name: value})
        _refused(done, 2, f"{name} is '{value}': expected a number from 1 to 256", folder)


@pytest.mark.parametrize("command", ["up", "web"])
@pytest.mark.parametrize(("name", "said"), [("no/web.sock", "there is no directory"), ("config.yaml", "is no socket")])
def test_a_socket_that_cannot_be_made_is_a_sentence(folder: Path, command: str, name: str, said: str) -> None:
    """The place of a Unix socket is looked at before anything is started; status 4, as for a busy port."""
    _refused(checkvisor(command, "--bind", f"unix:{folder}/{name}", cwd=folder), 4, said, folder)


def _refused(done: subprocess.CompletedProcess[str], status: int, said: str, folder: Path) -> None:
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (folder / "data").exists()


def test_up_starts_nothing_for_a_wrong_configuration(tmp_path: Path) -> None:
    """Every problem is listed, exit status 2, and no log line of a process that was started."""
    write(tmp_path, "targets:\n  - {name: a, type: http}\n  - {name: b, type: http}\n")
    done = checkvisor("up", "--bind", FREE, cwd=tmp_path)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == done.stderr.count("config.yaml:") == 2
    assert not (tmp_path / "data").exists()


def test_web_serves_without_a_supervisor(tmp_path: Path) -> None:
    """`web` needs no configuration: it answers, says that there is no database yet, and ends with 0 on SIGTERM."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with running("web", cwd=tmp_path, CHECKVISOR_BIND=f"127.0.0.1:{port}", CHECKVISOR_BASE_PATH="/s") as web:
        until(lambda: "Booting worker" in web.said(), what="the web app")
        assert get(f"http://127.0.0.1:{port}/s/healthz")[0] == 200
        assert web.end() == 0


def test_run_ends_cleanly_and_leaves_nothing(folder: Path) -> None:
    """SIGTERM ends the supervisor with 0."""
    with running("run", "-c", folder / "config.yaml", cwd=folder) as run:
        run.wait_for("supervisor.started")
        workers = processes_of(run.process.pid) - {run.process.pid}
        assert workers
        assert run.end() == 0
        assert not any(map(alive, workers))
