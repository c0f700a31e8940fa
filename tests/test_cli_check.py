"""`checkvisor check`: the verdict, the trace, the exit status; also of checks that hang or kill their worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from tests.cli_support import COMMAND, alive, checkvisor, command_target, environment, until, write
from tests.servers import OK, length, script_server


def test_a_match_shows_each_step(tmp_path: Path) -> None:
    """Each step with its time, what was seen and what was expected; status 0; nothing is stored."""
    with script_server([OK, length(b'{"status": "ok"}')]) as server:
        write(
            tmp_path,
            f"targets:\n  - {{id: api, name: API, type: http, http: {{url: '{server.url}'}},\n"
            "     expect: {body: [{json: {path: $.status, equals: ok}}]}}\n",
        )
        done = checkvisor("check", "api", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"api  http  {server.url}"
    steps = [line for line in lines if " ms  " in line]
    assert len(steps) >= 4
    assert any("expect.status" in line and "200" in line for line in steps)
    assert any("expect.body[0].json($.status)" in line and '(expected "ok")' in line for line in steps)
    assert lines[-1].startswith("matched in ")
    assert lines[-1].endswith(": HTTP 200")
    assert os.listdir(tmp_path) == ["config.yaml"]


def test_a_mismatch_is_one_json_object(tmp_path: Path) -> None:
    """`--json` prints exactly target, result and trace; status 1; the secret is masked in all of them."""
    write(
        tmp_path,
        "targets:\n" + command_target("c", "echo got $PASS; exit 3", labels={"team": "ops"})
        + '    expect: {exitCode: [3], stdout: [{contains: "x ${PASS}"}]}\n',
    )  # fmt: skip
    done = checkvisor("check", "c", "--json", cwd=tmp_path, PASS="canary-77e0")
    assert (done.returncode, done.stderr) == (1, "")
    assert "canary" not in done.stdout
    found = json.loads(done.stdout)
    assert list(found) == ["target", "result", "trace"]
    assert found["target"]["id"] == "c"
    assert found["target"]["labels"] == {"team": "ops"}
    result = found["result"]
    assert {"targetId": "c", "success": True, "matched": False, "statusDetail": "exitCode=3"}.items() <= result.items()
    assert result["failure"]["path"] == "expect.stdout[0].contains"
    assert result["failure"]["actual"] == "got ${PASS}\\n"
    last = found["trace"][-1]
    assert last["outcome"] == "failed"
    assert set(last) == {"atMs", "step", "seen", "outcome", "expected"}


def test_an_error_has_its_own_status(tmp_path: Path) -> None:
    """A command that is not there is an error, not a mismatch: status 3."""
    write(tmp_path, "targets:\n  - {id: c, name: c, type: command, command: {exec: /nowhere/plugin}}\n")
    done = checkvisor("check", "c", cwd=tmp_path)
    assert done.returncode == 3
    assert "command.exec: " in done.stdout
    assert "error after" in done.stdout


def test_a_warning_is_a_match(tmp_path: Path) -> None:
    """Degraded is said, with its reason; the status is 0."""
    write(tmp_path, "targets:\n" + command_target("c", "echo 5") + "    warn: {stdout: [{lt: 3}]}\n")
    done = checkvisor("check", "c", cwd=tmp_path)
    assert done.returncode == 0
    assert "degraded in" in done.stdout
    assert "warn.stdout[0].lt: " in done.stdout


def test_a_worker_that_is_killed_leaves_its_trace(tmp_path: Path) -> None:
    """The death of the worker is the error; the steps before it are shown."""
    write(tmp_path, "targets:\n" + command_target("c", "sleep 0.5; kill -9 $PPID; sleep 30"))
    done = checkvisor("check", "c", "--json", cwd=tmp_path)
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert "SIGKILL" in found["result"]["failure"]["message"]
    assert [step["step"] for step in found["trace"]] == ["start", "failed"]


def test_the_deadline_holds(tmp_path: Path) -> None:
    """A command that ignores SIGTERM is an error at its timeout, and is gone when the command ends."""
    mark = f"60.{os.getpid()}"
    write(tmp_path, "targets:\n" + command_target("c", f"trap '' TERM; sleep {mark} & wait; wait", timeout="1s"))
    started = time.monotonic()
    done = checkvisor("check", "c", cwd=tmp_path)
    assert done.returncode == 3
    assert "command.timeout: " in done.stdout
    assert time.monotonic() - started < 12
    assert not _running(mark)


def test_commands_do_not_see_the_trace(tmp_path: Path) -> None:
    """The variable by which the worker knows where to write its trace is not inherited."""
    write(tmp_path, "targets:\n" + command_target("c", "env") + "    expect: {stdout: [{not: {contains: _TRACE}}]}\n")
    assert checkvisor("check", "c", cwd=tmp_path).returncode == 0


def test_an_interrupt_ends_the_check(tmp_path: Path) -> None:
    """Ctrl-C ends the command, its worker and what that runs; status 130."""
    mark = f"61.{os.getpid()}"
    write(tmp_path, "targets:\n" + command_target("c", f"sleep {mark}", timeout="50s", interval="60s"))
    process = subprocess.Popen(
        [*COMMAND, "check", "c"], cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
    )
    pids = until(lambda: _running(mark), what="the command")
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=15)[1] == ""
    assert process.returncode == 130
    until(lambda: not any(map(alive, pids)), what="the end of the command")


def _running(mark: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if line == f"sleep\0{mark}\0".encode():
                found.append(int(name))
    return found
