"""Commands as cases.md has them: output, exit, and what they leave. Real processes, through a real pool."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import time
from pathlib import Path

import pytest

from supervisor.expect.spec import CommandExpect, Equals, TextRule
from supervisor.model import Secret
from tests.checkers.commands import (
    as_nobody,
    check,
    ended,
    failed,
    gone,
    make_pool,
    pids_with,
    sh,
    spawn_error,
    target,
)
from tests.pool.driver import Driver

__all__ = ["make_pool"]

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


@pytest.mark.parametrize("before", [0, 380, 390, 395, 400])
def test_c33_no_rest_of_a_secret_stays_where_the_output_is_cut(pool: Driver, before: int) -> None:
    """Secrets are masked before the end of the output is taken."""
    script = f"printf 'hunter22-hunter33%0{before}d' 7; sleep 60"
    wanted = sh(script, timeout_s=0.5, secrets=(Secret("PASS", "hunter22-hunter33"),))
    message = spawn_error(check(pool, wanted), "command.timeout")
    assert "7" in message
    assert "hunter" not in message
    assert "33" not in message


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
    if os.statvfs(tmp_path).f_flag & os.ST_NOSUID:
        pytest.skip(f"a setuid program has no rights in {tmp_path}: it is mounted nosuid")
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:3]:
        parent.chmod(parent.stat().st_mode | 0o055)
    other = tmp_path / "setpriv"
    shutil.copy("/usr/bin/setpriv", other)
    other.chmod(0o4755 | stat.S_IXOTH)
    told = as_nobody(lambda: ended(target(str(other), "--reuid=0", "sleep", "61.06", timeout_s=0.5)))
    for left in pids_with("61.06"):
        os.kill(left, signal.SIGKILL)
        os.waitpid(left, 0)  # this process is a subreaper too
    assert "could not be killed: it runs as another user" in told
    assert "stuck 1" in told
