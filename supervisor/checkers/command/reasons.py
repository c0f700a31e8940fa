"""Why a command could not be started, in words: what was found, and what to do. Runs in the command's directory."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import BinaryIO

from supervisor.checkers.command.settings import CommandSettings

_LINE_BYTES = 256  # the kernel reads no more of a first line (binfmt_script)
_ELF = b"\x7fELF"

_LIMITS = {
    errno.EAGAIN: "no more processes can be started: a limit is reached (ulimit -u, TasksMax or pids.max)",
    errno.ENOMEM: "there is not enough memory to start a process",
    errno.EMFILE: "too many files are open in the worker (LimitNOFILE)",
    errno.ENFILE: "too many files are open on this machine (fs.file-max)",
    errno.E2BIG: "args and env together are longer than the system allows",
    errno.ENAMETOOLONG: "its path is longer than the system allows",
    errno.EIO: "reading it failed with an input/output error",
    errno.ESTALE: "it is on a network file system that has lost it (stale file handle)",
    errno.ETIMEDOUT: "it is on a network file system that does not answer",
}


def cwd_reason(error: OSError | ValueError, path: str) -> str:
    """Why a directory can't be entered."""
    code = error.errno if isinstance(error, OSError) else None
    reason = {
        errno.ENOENT: "does not exist",
        errno.ENOTDIR: "is not a directory",
        errno.EACCES: f"may not be entered by {_user()}",
        errno.ELOOP: "is a loop of symbolic links",
        errno.ENAMETOOLONG: "is a longer path than the system allows",
    }.get(code or 0, f"can't be entered: {_text(error)}")
    return f"the working directory {path} {reason}"


def missing_reason(name: str, path: str, settings: CommandSettings) -> str:
    """A name without a slash that is nowhere in PATH."""
    if not name:
        return "exec is empty: name the program to run"
    if " " in name.strip():
        return f"{_quoted(name)} was not found; {_split_hint(name)}"
    hint = f"; to run {name} from the working directory, write ./{name}" if os.path.lexists(name) else ""
    return f"{name} was not found in PATH ({path or 'empty'}){hint}"


def exec_reason(error: OSError, program: str, settings: CommandSettings) -> str:
    """Why the kernel would not run this file."""
    code = error.errno or 0
    if code in _LIMITS:
        return f"{program} can't be run: {_LIMITS[code]}"
    if code in (errno.ENOENT, errno.ENOTDIR):
        return _not_found(program, settings)
    if code in (errno.EACCES, errno.EPERM):
        return _not_allowed(program)
    if code == errno.ETXTBSY:
        return f"{program} is still being written by another process (text file busy)"
    if code == errno.ELOOP:
        return f"{program} can't be run: its symbolic links or #! lines go in a circle"
    if code in (errno.ENOEXEC, errno.ELIBBAD, errno.EINVAL):
        return _not_a_program(program)
    if code == errno.EISDIR:
        return f"{program} can't be run: its interpreter is a directory"
    return f"{program} can't be run: {_text(error)}"


def _not_found(program: str, settings: CommandSettings) -> str:
    if not os.path.lexists(program):
        place = "" if program.startswith("/") else f" in {settings.cwd}"
        hint = f"; {_split_hint(program)}" if " " in program.strip() else ""
        return f"{_quoted(program)} was not found{place}{hint}"
    if not os.path.exists(program):  # noqa: PTH110 - a path as the user wrote it
        return f"{program} is a symbolic link to {os.readlink(program)}, which does not exist"  # noqa: PTH115
    line = _first_line(program)
    if line.startswith(b"#!"):
        return f"{program} can't be run: {_interpreter_reason(line)}"
    if line.startswith(_ELF):
        return f"{program} can't be run: its dynamic loader is missing (built for another system or architecture?)"
    return f"{program} can't be run: its interpreter was not found"


def _interpreter_reason(line: bytes) -> str:
    words = line[2:].strip(b" \t").split(maxsplit=1) or [b""]
    name = words[0].decode("utf-8", "replace")
    if line.endswith(b"\r"):
        name = line[2:].strip().split(maxsplit=1)[0].decode("utf-8", "replace") if line[2:].strip() else ""
        return (
            f"its first line names the interpreter {name} and ends with a carriage return; "
            "convert the file from Windows to Unix line ends (dos2unix)"
        )
    return f"the interpreter {name} of its first line was not found"


def _not_allowed(program: str) -> str:
    try:
        status = os.stat(program)  # noqa: PTH116
    except OSError:
        return f"{program} may not be run by {_user()}: a directory on its path may not be searched"
    if stat.S_ISDIR(status.st_mode):
        return f"{program} is a directory, not a program"
    if not stat.S_ISREG(status.st_mode):
        return f"{program} is not a regular file, so it can't be run"
    mode = stat.S_IMODE(status.st_mode)
    if not mode & 0o111:
        return f"{program} is not executable (mode {mode:04o}): chmod +x"
    if not os.access(program, os.X_OK):
        return f"{program} may not be run by {_user()} (mode {mode:04o}, owner {status.st_uid}, or a noexec mount)"
    line = _first_line(program)
    if line.startswith(b"#!"):
        name = (line[2:].split(maxsplit=1) or [b""])[0].decode("utf-8", "replace")
        kind = "is a directory" if os.path.isdir(name) else f"may not be run by {_user()}"  # noqa: PTH112
        return f"{program} can't be run: the interpreter {name} of its first line {kind}"
    return f"{program} may not be run by {_user()}: permission denied by the system (noexec mount, AppArmor, SELinux?)"


def _not_a_program(program: str) -> str:
    with suppress(OSError):
        if os.stat(program).st_size == 0:  # noqa: PTH116
            return f"{program} is empty, so it can't be run"
    line = _first_line(program)
    if line.startswith(_ELF):
        return f"{program} is a binary for another machine or system"
    if line.startswith(b"\xef\xbb\xbf#!"):
        return f"{program} can't be run: a byte order mark stands before its #!; save it as UTF-8 without BOM"
    if line.startswith(b"#!"):
        return f"{program} can't be run: its first line names no interpreter"
    return f"{program} is neither a binary nor a script with a first line such as #!/bin/sh"


def _first_line(program: str) -> bytes:
    with suppress(OSError):
        file: BinaryIO
        with open(program, "rb") as file:
            return file.read(_LINE_BYTES).split(b"\n", 1)[0]
    return b""


def _split_hint(name: str) -> str:
    first, _, rest = name.strip().partition(" ")
    return f"no shell splits it: write exec: {first} and args: [{', '.join(rest.split())}]"


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name or not name else name


def _user() -> str:
    return f"user {os.geteuid()}"


def _text(error: OSError | ValueError) -> str:
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
