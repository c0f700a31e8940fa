"""Commands as cases.md has them: real processes, through a real pool."""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor.checkers.command.settings import CommandSettings
from supervisor.expect.spec import CommandExpect, Contains, Empty, Equals, TextRule
from supervisor.model import CheckFailure, CheckResult, ResolvedTarget, Secret
from supervisor.worker import run_check
from tests.make import make_target
from tests.pool.driver import Driver, driven
from tests.pool.registry import CHECKERS

HI = CommandExpect(stdout=(TextRule("contains", (Contains("hi"),)),))


@pytest.fixture(scope="module")
def pool() -> Iterator[Driver]:
    with driven(2) as driver:
        yield driver


def target(
    exec_: str, *args: str, expect: CommandExpect = HI, timeout_s: float = 3.0, **settings: Any
) -> ResolvedTarget:
    secrets = settings.pop("secrets", ())
    return make_target(
        id="c",
        type="command",
        timeout_s=timeout_s,
        expect=expect,
        settings=CommandSettings(exec=exec_, args=args, **settings),
        secrets=secrets,
    )


def sh(script: str, **fields: Any) -> ResolvedTarget:
    return target("sh", "-c", script, **fields)


def check(pool: Driver, wanted: ResolvedTarget) -> CheckResult:
    """The verdict of one run, as soon as it is there; the run ends in the background."""
    [id_] = pool.add(wanted)
    pool.turn_until(lambda: pool.has_result(id_), 12)
    return pool.result(id_)


def failed(result: CheckResult, kind: str, phase: str, path: str) -> str:
    """Assert the place of a failure; its message."""
    assert isinstance(result.failure, CheckFailure)
    assert (result.failure.kind, result.failure.phase, result.failure.path) == (kind, phase, path), result.failure
    return result.failure.message


def spawn_error(result: CheckResult, path: str = "command.exec") -> str:
    return failed(result, "error", "exec", path)


def pids_with(marker: str) -> list[int]:
    """Living processes with this text in their command line."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line:
                found.append(int(name))
    return found


def gone(pool: Driver, marker: str, seconds: float = 6.0) -> None:
    pool.turn_until(lambda: not pids_with(marker), seconds, f"the end of all processes with {marker}")


def script(directory: Path, name: str, content: str | bytes, mode: int = 0o755) -> Path:
    path = directory / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    path.chmod(mode)
    return path


# --- output and exit --------------------------------------------------------------------------------------------------


def test_c01_a_grandchild_that_keeps_the_pipe_does_not_hold_the_check(pool: Driver) -> None:
    """The exit code decides though a grandchild holds the pipe; the grandchild is ended with its session."""
    begun = time.monotonic()
    result = check(pool, sh("sleep 61.01 & echo hi"))
    assert result.matched
    assert time.monotonic() - begun < 2
    gone(pool, "61.01")


def test_c02_a_timeout_ends_the_whole_group(pool: Driver) -> None:
    """At the deadline the verdict is there, and no descendant outlives it."""
    begun = time.monotonic()
    message = spawn_error(check(pool, sh("sleep 61.02; echo hi", timeout_s=1)), "command.timeout")
    assert time.monotonic() - begun < 2
    assert "within 1 s" in message
    gone(pool, "61.02")


def test_c03_a_child_that_escapes_does_not_hold_the_verdict(pool: Driver) -> None:
    """What has left the session on purpose is left alone; the verdict is there in time."""
    begun = time.monotonic()
    spawn_error(check(pool, sh("setsid sleep 61.03 & sleep 61.031", timeout_s=1)), "command.timeout")
    assert time.monotonic() - begun < 2
    gone(pool, "61.031")
    [escaped] = [pid for pid in pids_with("61.03") if b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    os.kill(escaped, signal.SIGKILL)


def test_c05_a_command_that_ignores_term_is_killed_after_its_verdict(pool: Driver) -> None:
    """The verdict leaves at the deadline, the end of the group goes on after it: TERM, 2 s, KILL."""
    begun = time.monotonic()
    [id_] = pool.add(sh("trap '' TERM; while :; do sleep 61.05; done", timeout_s=1))
    pool.turn_until(lambda: pool.has_result(id_))
    assert time.monotonic() - begun < 2
    assert id_ not in {freed for _, freed in pool.freed}
    pool.wait_freed([id_])
    assert 2.5 < time.monotonic() - begun < 6
    assert not pids_with("61.05")


def test_c07_prompts_fail_fast(pool: Driver) -> None:
    """There is no terminal to ask at: no controlling one, and a null stdin."""
    result = check(pool, sh("exec 3</dev/tty || exit 9; read answer <&3"))
    failed(result, "mismatch", "exitCode", "expect.exitCode")
    assert check(pool, sh('read answer; echo "hi<$answer>"')).matched


def test_c09_a_flood_of_output_ends_at_the_cap(pool: Driver) -> None:
    """Over the cap is an error, quickly, and the command is ended."""
    begun = time.monotonic()
    result = check(pool, target("yes", "61.09", max_output_bytes=1_000_000))
    message = failed(result, "error", "stdout", "command.maxOutputBytes")
    assert "1,000,000 bytes" in message
    assert time.monotonic() - begun < 3
    gone(pool, "61.09")


def test_c10_the_cap_is_never_misread_as_an_exit(pool: Driver) -> None:
    """A child that dies of SIGPIPE after the cap is still over the cap; both streams count together."""
    failed(check(pool, sh("yes >&2", max_output_bytes=100_000)), "error", "stderr", "command.maxOutputBytes")
    both = "head -c 600 /dev/zero; head -c 600 /dev/zero >&2"
    assert check(pool, sh(both, max_output_bytes=1000)).failure.path == "command.maxOutputBytes"  # type: ignore[union-attr]
    assert check(pool, sh(both, max_output_bytes=1200, expect=CommandExpect())).matched


def test_c11_a_flood_on_stderr_does_not_block_stdout(pool: Driver) -> None:
    """Both pipes are read while waiting."""
    assert check(pool, sh("head -c 2000000 /dev/zero >&2; echo hi")).matched


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("a\\0hi", "hi"), ("\\033[31mhi\\033[0m", "hi"), ("\\377\\376hi", "hi"), ("\\355\\240\\200hi", "hi")],
    ids=["nul", "ansi", "not utf-8", "surrogate"],
)
def test_c13_any_bytes_are_judged_and_shown_safely(pool: Driver, text: str, wanted: str) -> None:
    """Output is bytes: it is judged with replacement and never shown raw."""
    assert check(pool, sh(f"printf '{text}'")).matched
    result = check(pool, sh(f"printf '{text}'", expect=CommandExpect(stdout=(TextRule("equals", (Equals("x"),)),))))
    shown = (result.failure.actual or "") + result.failure.message  # type: ignore[union-attr]
    assert shown.isprintable()
    shown.encode()


@pytest.mark.parametrize("text", ["hi", "hi\\n", "hi\\r\\n"])
def test_c14_trailing_line_ends_do_not_count(pool: Driver, text: str) -> None:
    """`equals` ignores trailing line ends."""
    assert check(
        pool, sh(f"printf '{text}'", expect=CommandExpect(stdout=(TextRule("equals", (Equals("hi"),)),)))
    ).matched


def test_c15_death_by_signal_is_a_mismatch(pool: Driver) -> None:
    """Killed by signal 9 is exit code -9, a mismatch; through a shell it is 137."""
    result = check(pool, sh("kill -9 $$"))
    assert "SIGKILL" in failed(result, "mismatch", "exitCode", "expect.exitCode")
    assert result.status_detail == "signal=SIGKILL"
    assert check(pool, sh("kill -9 $$", expect=CommandExpect(exit_code=(-9,)))).matched
    assert check(pool, sh("kill -40 $$")).status_detail == "signal=40"
    assert check(pool, sh("sh -c 'kill -9 $$'; exit $?")).status_detail == "exitCode=137"


def test_c17_a_plugin_without_nagios_is_judged_by_its_code(pool: Driver) -> None:
    """Exit code 1 is a mismatch unless it is listed."""
    failed(check(pool, sh("echo hi; exit 1")), "mismatch", "exitCode", "expect.exitCode")
    assert check(pool, sh("exit 1", expect=CommandExpect(exit_code=(0, 1)))).matched


def test_c31_a_command_that_closes_its_streams_and_goes_on(pool: Driver) -> None:
    """The end of the streams is not the end of the command."""
    result = check(pool, sh("exec >&- 2>&-; sleep 0.5; exit 3"))
    assert result.status_detail == "exitCode=3"
    assert result.duration_ms > 400


def test_c33_the_output_so_far_is_in_the_message_of_a_timeout(pool: Driver) -> None:
    """Where it hangs is what one wants to know."""
    script = "echo step1; echo 'password is hunter22' >&2; sleep 60"
    wanted = sh(script, timeout_s=0.5, secrets=(Secret("PASS", "hunter22"),))
    message = spawn_error(check(pool, wanted), "command.timeout")
    assert "step1" in message
    assert "${PASS}" in message
    assert "hunter22" not in message


# --- what cannot be started -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["/no/such", "/etc/passwd/x", "nosuchcmd", "./nosuch"])
def test_c18_a_missing_program_is_not_found(pool: Driver, name: str) -> None:
    """Not found, by name."""
    message = spawn_error(check(pool, target(name)))
    assert "was not found" in message
    assert name in message


def test_c19_not_executable_directory_and_empty(pool: Driver, tmp_path: Path) -> None:
    """Each way of not being a program has its sentence."""
    plain = script(tmp_path, "plain", "#!/bin/sh\n", 0o644)
    assert "is not executable (mode 0644)" in spawn_error(check(pool, target(str(plain))))
    assert "is a directory" in spawn_error(check(pool, target(str(tmp_path))))
    assert "exec is empty" in spawn_error(check(pool, target("")))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo, 0o755)
    assert "not a regular file" in spawn_error(check(pool, target(str(fifo))))
    assert "not executable" in spawn_error(check(pool, target("plain", env=(("PATH", str(tmp_path)),))))


def test_c21_a_missing_directory_is_told_from_a_missing_program(pool: Driver, tmp_path: Path) -> None:
    """The working directory has its own place."""
    assert "/no/such/dir does not exist" in spawn_error(check(pool, target("true", cwd="/no/such/dir")), "command.cwd")
    message = spawn_error(check(pool, target("true", cwd="/etc/passwd")), "command.cwd")
    assert "is not a directory" in message
    assert check(pool, sh("pwd | grep -qx / && echo hi", cwd="/")).matched
    assert check(pool, sh(f"pwd | grep -qx {tmp_path} && echo hi", cwd=str(tmp_path))).matched


def test_c22_a_relative_program_is_relative_to_the_directory(pool: Driver, tmp_path: Path) -> None:
    """`./ok` runs from cwd; a bare name there is not searched, and the message says what to write."""
    script(tmp_path, "ok", "#!/bin/sh\necho hi\n")
    assert check(pool, target("./ok", cwd=str(tmp_path))).matched
    assert "was not found in /" in spawn_error(check(pool, target("./ok", cwd="/")))
    assert "write ./ok" in spawn_error(check(pool, target("ok", cwd=str(tmp_path))))


def test_c23_the_message_names_the_path_that_was_searched(pool: Driver) -> None:
    """It is the command's own PATH, not ours."""
    message = spawn_error(check(pool, target("nosuchcmd", env=(("PATH", "/a/b:/c/d"),))))
    assert "(/a/b:/c/d)" in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"#!/no/such/python\n", "interpreter /no/such/python"),
        (b"#!/bin/sh\r\necho hi\r\n", "carriage return"),
        (b"#!/usr/bin/env sh -x\r\n", "carriage return"),
        (b"\xef\xbb\xbf#!/bin/sh\necho hi\n", "byte order mark"),
        (b"echo hi\n", "neither a binary nor a script"),
        (b"", "is empty"),
        (b"#!\n", "names no interpreter"),
        (b"#!/etc\n", "/etc of its first line is a directory"),
        (b"#!/etc/passwd\n", "/etc/passwd of its first line"),
        (b"\x7fELF\x02\x01\x01" + bytes(57), "another machine"),
    ],
    ids=["missing", "crlf", "crlf with argument", "bom", "none", "empty", "bare", "directory", "plain file", "elf"],
)
def test_a_bad_interpreter_is_named(pool: Driver, tmp_path: Path, content: bytes, words: str) -> None:
    """The kernel says only "no such file": we look at the first line."""
    result = check(pool, target(str(script(tmp_path, "s", content))))
    if words == "carriage return" and b"env" in content:  # env starts, and says it itself
        assert result.failure is not None
        return
    assert words in spawn_error(result)


def test_a_dangling_link_and_a_circle_are_named(pool: Driver, tmp_path: Path) -> None:
    """Symbolic links that lead nowhere."""
    (tmp_path / "dangling").symlink_to("/no/such/there")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    assert "link to /no/such/there" in spawn_error(check(pool, target(str(tmp_path / "dangling"))))
    assert "circle" in spawn_error(check(pool, target(str(tmp_path / "circle"))))


def test_c25_a_busy_text_file_is_tried_again(pool: Driver, tmp_path: Path) -> None:
    """A program that is being written right now gets three more tries, then a sentence."""
    path = tmp_path / "busy"
    shutil.copy("/bin/true", path)
    writing = os.open(path, os.O_WRONLY)
    assert "still being written" in spawn_error(check(pool, target(str(path))))
    closer = threading.Timer(0.08, os.close, (writing,))
    closer.start()
    result = check(pool, target(str(path), expect=CommandExpect()))
    closer.join()
    assert result.matched


def test_c26_arguments_that_are_too_long(pool: Driver) -> None:
    """More than the system can pass on is an error of the spawn, and the worker lives."""
    assert "longer than the system allows" in spawn_error(check(pool, target("true", "x" * 200_000)))
    assert check(pool, sh("echo hi")).matched


@pytest.mark.parametrize("argument", ["a\0b", "\ud800"], ids=["nul", "surrogate"])
def test_arguments_that_no_system_takes_are_an_error(pool: Driver, argument: str) -> None:
    """NUL and characters without an encoding can't be passed on."""
    assert "can't be passed on" in spawn_error(check(pool, target("echo", argument)))


# --- what the command gets --------------------------------------------------------------------------------------------


def test_c27_signals_are_as_a_program_expects_them(pool: Driver) -> None:
    """Nothing is blocked or ignored in the command, whatever the worker does with its own signals."""
    result = check(pool, target("sed", "-n", "s/^Sig\\(Blk\\|Ign\\)://p", "/proc/self/status", expect=_says("nothing")))
    blocked, ignored = (int(word, 16) for word in re.findall(r"[0-9a-f]{16}", result.failure.message))  # type: ignore[union-attr]
    assert blocked == 0
    assert ignored & ~(0b11 << 31) == 0, "32 and 33 are the C library's own"
    begun = time.monotonic()
    [id_] = pool.add(target("sleep", "61.27", timeout_s=0.3))
    pool.wait_freed([id_])
    assert time.monotonic() - begun < 1.5, "sleep dies of TERM, without KILL"


def test_c29_the_locale_is_plain(pool: Driver) -> None:
    """LC_ALL is C.UTF-8 unless the target says otherwise."""
    assert check(pool, sh("echo hi $LC_ALL; printf '%.2f' 1.5", expect=_says("hi C.UTF-8"))).matched
    assert check(pool, sh("echo hi $LC_ALL", env=(("LC_ALL", "de_DE.UTF-8"),), expect=_says("hi de_DE.UTF-8"))).matched


def _says(text: str) -> CommandExpect:
    return CommandExpect(stdout=(TextRule("contains", (Contains(text),)),))


def test_c34_no_shell_reads_the_arguments(pool: Driver) -> None:
    """Arguments arrive as they are written; a command line in `exec` gets a hint."""
    assert check(pool, target("echo", "$HOME", "*.log", "a|b", expect=_says("$HOME *.log a|b"))).matched
    message = spawn_error(check(pool, target("echo hi")))
    assert "exec: echo and args: [hi]" in message


def test_c35_a_deleted_directory_of_the_supervisor_does_not_matter(pool: Driver) -> None:
    """Workers stand in /, and so do commands."""
    assert check(pool, target("pwd", expect=CommandExpect(stdout=(TextRule("equals", (Equals("/"),)),)))).matched


def test_variables_of_the_service_manager_and_dropped_ones_are_not_inherited(pool: Driver) -> None:
    """Commands must not talk to systemd in our name nor read our secrets; `env` overrides all."""
    result = check(pool, sh("env | grep -c ^HOME=; echo hi", drop_env=("HOME",), expect=_says("0\nhi")))
    assert result.matched, result.failure
    assert check(pool, sh("echo hi $HOME", drop_env=("HOME",), env=(("HOME", "/x"),), expect=_says("hi /x"))).matched
    none = CommandExpect(stdout=(TextRule("empty", (Empty(True),)),))
    result = check(pool, sh("env | grep -E '^(NOTIFY_SOCKET|WATCHDOG_|LISTEN_|CREDENTIALS_)' || true", expect=none))
    assert result.matched, result.failure


def test_each_command_has_its_own_session_and_only_three_descriptors(pool: Driver) -> None:
    """Nothing of the worker leaks into a command."""
    result = check(pool, sh("ls /proc/self/fd | wc -l; echo hi", expect=_says("4\nhi")))  # ls opens one itself
    assert result.matched, result.failure
    assert check(pool, sh("ulimit -n; echo hi", expect=_says("1024\nhi"))).matched
    assert check(pool, sh("test $(ps -o sid= -p $$) = $$ && echo hi")).matched


# --- what it leaves ---------------------------------------------------------------------------------------------------


def test_nothing_of_a_session_outlives_its_check(pool: Driver) -> None:
    """Job control makes further groups in one session: they are found too."""
    [id_] = pool.add(sh("set -m; sleep 61.41 & (trap '' TERM; exec sleep 61.42) >/dev/null 2>&1 & echo hi"))
    pool.wait_freed([id_])
    assert pool.result(id_).matched
    assert not pids_with("61.4")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a setuid program")
def test_c06_a_process_of_another_user_does_not_hold_the_worker(tmp_path: Path) -> None:
    """What may not be killed is told, its target waits for it, and the slot is free."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    other = tmp_path / "setpriv"
    shutil.copy("/usr/bin/setpriv", other)
    other.chmod(0o4755 | stat.S_IXOTH)
    told = as_nobody(lambda: _ended(target(str(other), "--reuid=0", "sleep", "61.06", timeout_s=0.5)))
    for left in pids_with("61.06"):
        os.kill(left, signal.SIGKILL)
        os.waitpid(left, 0)  # this process is a subreaper too
    assert "could not be killed: it runs as another user" in told
    assert "stuck 1" in told


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize(
    ("limit", "words"),
    [(resource.RLIMIT_NPROC, "no more processes"), (resource.RLIMIT_NOFILE, "too many files are open")],
    ids=["processes", "files"],
)
def test_c26_limits_are_errors_of_the_spawn(limit: int, words: str) -> None:
    """No process or descriptor left: a sentence, and no exception."""

    def limited() -> str:
        now = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(limit, (1, 1) if limit == resource.RLIMIT_NPROC else (now, now))
        return _ended(target("true"))

    assert words in as_nobody(limited)


def as_nobody(work: Callable[[], str]) -> str:
    """What this gives in a forked process of user nobody."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork beside threads; this one only works and ends
        pid = os.fork()
    if pid == 0:
        try:
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, work().encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        told = file.read()
    os.waitpid(pid, 0)
    return told


def _ended(wanted: ResolvedTarget) -> str:
    endings: list[Any] = []
    result, _ = run_check(wanted, endings=endings, checkers=CHECKERS)
    stuck = [seen for ending in endings for seen in ending.finish()]
    return f"{result.failure} stuck {len(stuck)}"
