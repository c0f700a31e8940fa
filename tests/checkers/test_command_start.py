"""Commands as cases.md has them: what can not be started, and what a command gets that is."""

from __future__ import annotations

import os
import re
import resource
import shutil
import threading
import time
from pathlib import Path

import pytest

from supervisor.expect.spec import CommandExpect, Empty, Equals, TextRule
from tests.checkers.commands import (
    as_nobody,
    check,
    ended,
    make_pool,
    says,
    script,
    sh,
    spawn_error,
    target,
)
from tests.pool.driver import Driver

__all__ = ["make_pool"]

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
        return ended(target("true"))

    assert words in as_nobody(limited)


# --- what the command gets --------------------------------------------------------------------------------------------


def test_c27_signals_are_as_a_program_expects_them(pool: Driver) -> None:
    """Nothing is blocked or ignored in the command, whatever the worker does with its own signals."""
    result = check(pool, target("sed", "-n", "s/^Sig\\(Blk\\|Ign\\)://p", "/proc/self/status", expect=says("nothing")))
    blocked, ignored = (int(word, 16) for word in re.findall(r"[0-9a-f]{16}", result.failure.message))  # type: ignore[union-attr]
    assert blocked == 0
    assert ignored & ~(0b11 << 31) == 0, "32 and 33 are the C library's own"
    begun = time.monotonic()
    [id_] = pool.add(target("sleep", "61.27", timeout_s=0.3))
    pool.wait_freed([id_])
    assert time.monotonic() - begun < 1.5, "sleep dies of TERM, without KILL"


def test_c29_the_locale_is_plain(pool: Driver) -> None:
    """LC_ALL is C.UTF-8 unless the target says otherwise."""
    assert check(pool, sh("echo hi $LC_ALL; printf '%.2f' 1.5", expect=says("hi C.UTF-8"))).matched
    assert check(pool, sh("echo hi $LC_ALL", env=(("LC_ALL", "de_DE.UTF-8"),), expect=says("hi de_DE.UTF-8"))).matched


def test_c34_no_shell_reads_the_arguments(pool: Driver) -> None:
    """Arguments arrive as they are written; a command line in `exec` gets a hint."""
    assert check(pool, target("echo", "$HOME", "*.log", "a|b", expect=says("$HOME *.log a|b"))).matched
    message = spawn_error(check(pool, target("echo hi")))
    assert "exec: echo and args: [hi]" in message


def test_c35_a_deleted_directory_of_the_supervisor_does_not_matter(pool: Driver) -> None:
    """Workers stand in /, and so do commands."""
    assert check(pool, target("pwd", expect=CommandExpect(stdout=(TextRule("equals", (Equals("/"),)),)))).matched


def test_variables_of_the_service_manager_and_dropped_ones_are_not_inherited(pool: Driver) -> None:
    """Commands must not talk to systemd in our name nor read our secrets; `env` overrides all."""
    result = check(pool, sh("env | grep -c ^HOME=; echo hi", drop_env=("HOME",), expect=says("0\nhi")))
    assert result.matched, result.failure
    assert check(pool, sh("echo hi $HOME", drop_env=("HOME",), env=(("HOME", "/x"),), expect=says("hi /x"))).matched
    none = CommandExpect(stdout=(TextRule("empty", (Empty(True),)),))
    result = check(pool, sh("env | grep -E '^(NOTIFY_SOCKET|WATCHDOG_|LISTEN_|CREDENTIALS_)' || true", expect=none))
    assert result.matched, result.failure


def test_each_command_has_its_own_session_and_only_three_descriptors(pool: Driver) -> None:
    """Nothing of the worker leaks into a command."""
    result = check(pool, sh("ls /proc/self/fd | wc -l; echo hi", expect=says("4\nhi")))  # ls opens one itself
    assert result.matched, result.failure
    assert check(pool, sh("ulimit -n; echo hi", expect=says("1024\nhi"))).matched
    assert check(pool, sh("test $(cut -d ' ' -f 6 /proc/$$/stat) = $$ && echo hi")).matched
