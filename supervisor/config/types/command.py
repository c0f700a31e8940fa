"""The type `command` as users write it: its settings, its expectations, what is doubtful about them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from marshmallow import ValidationError, post_load

from supervisor.checkers.command.settings import CommandSettings, NagiosSettings
from supervisor.config import masking, nodes
from supervisor.config.fields import LONGEST_CHECK_MS, Choice, Int, ListOf, MapOf, Size, Str, found
from supervisor.config.problems import AtKey
from supervisor.config.resolve import absolute
from supervisor.config.rules import Rules
from supervisor.config.strict import Section, Strict
from supervisor.config.target_type import Doubt, TargetType, Unbuilt
from supervisor.expect.spec import CommandExpect
from supervisor.model import ResolvedTarget

_ENV_NAME = r"[^=\x00]+"
_SHELL = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})

# --- settings --------------------------------------------------------------------------------------------------------


class NagiosSchema(Strict):
    warning = Choice("degraded", "mismatch", load_default="degraded", doc="What exit code 1 means.", example="mismatch")
    unknown = Choice(  # type: ignore[assignment] # fields leave the class when the schema is made
        "error", "mismatch", load_default="error", doc="What exit code 3, above, or a signal means.", example="mismatch"
    )

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> NagiosSettings:
        return NagiosSettings(**data)


class Nagios(Section):
    """`true`, `false` or a mapping."""

    def read(self, value: Any) -> NagiosSettings | None:
        if isinstance(value, bool):
            return NagiosSettings() if value else None
        if not isinstance(value, dict):
            raise ValidationError(f"expected {self.expected}, found {found(value)}")
        settings: NagiosSettings = self.inner.load(value)
        return settings

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, super().json_schema()]}


class CommandDefaultsSchema(Strict):
    """What `defaults.command` may hold; a target's `command:` adds what is its own."""

    doc = "Settings of command checks."
    elsewhere: ClassVar = {
        "exec": "each target has its own: write it under command: of the target",
        "args": "each target has its own: write it under command: of the target",
        "timeout": "it stands beside command:, not under it",
        "interval": "it stands beside command:, not under it",
        "shell": "there is no shell: write exec: sh and args: [-c, '...']",
        "command": "write exec: with the program and args: with its arguments",
    }
    cwd = Str(
        load_default=".",
        doc="Working directory, relative to the file it stands in.",
        example="/var/lib/probe",
        longest=4096,
    )
    env = MapOf(
        secret=True,
        value=Str(empty=True, lines=True, longest=100_000, secret=True),
        name=_ENV_NAME,
        name_is="the name of a variable",
        load_default=dict,
        doc="Variables to set, over those of the supervisor and `LC_ALL=C.UTF-8`.",
        example={"PGPASSWORD": "${DB_PASSWORD}"},
        shows_default="{}",
    )
    max_output_bytes = Size(
        load_default=104857600,
        doc="Most bytes of stdout and stderr together; more is an error.",
        example="1MB",
        shows_default="100MB",
    )
    nagios = Nagios(
        NagiosSchema,
        expected="true, false or a mapping",
        doc="Judge exit codes as the Monitoring Plugins guidelines say, and read performance data.",
        example=True,
        shows_default="false",
    )


class CommandSchema(CommandDefaultsSchema):
    first = ("exec", "args")
    elsewhere: ClassVar = {
        **{key: place for key, place in CommandDefaultsSchema.elsewhere.items() if "each target" not in place},
        "expect": "it stands beside command:, not under it",
        "exitCode": "write it under expect: of the target",
    }
    exec = Str(
        required=True,
        longest=4096,
        expected="a program such as pgrep or /usr/lib/nagios/plugins/check_disk",
        doc="Program to run: a path, or a name that is looked up in PATH. There is no shell.",
        example="pgrep",
    )
    args = ListOf(
        Str(empty=True, lines=True, longest=100_000),
        secret=True,
        hint="write each argument as an item, as in [-c, ls]",
        load_default=(),
        doc="Its arguments, each an item of the list; they reach the program as they stand.",
        example=["-x", "nginx"],
        shows_default="[]",
    )


# --- expectations ----------------------------------------------------------------------------------------------------


class ExitCode(Int):
    """A whole number; the hint turns the name of a signal into one."""

    def __init__(self) -> None:
        super().__init__(-64, 255)

    def _hint(self, value: Any) -> str:
        if isinstance(value, str):
            name = value.upper() if value.upper().startswith("SIG") else f"SIG{value.upper()}"
            if name in signal.Signals.__members__:
                return f"write {-signal.Signals[name]}"
            if re.fullmatch(r"-[0-9]{1,2}", value):
                return f"write {value}"
        return super()._hint(value)


class CommandExpectSchema(Strict):
    elsewhere: ClassVar = {
        "status": "it is for type http; a command has an exitCode",
        "body": "it is for type http; a command has stdout and stderr",
        "headers": "it is for type http; a command has stdout and stderr",
        "certificate": "it is for type http",
        **dict.fromkeys(
            ("contains", "regex"), "it is a rule of stdout or stderr: write stdout: and an item that begins with `- `"
        ),
    }
    exit_code = ListOf(
        ExitCode(),
        least=1,
        single=True,
        doc="Accepted exit codes; -9 is an end by signal 9.",
        example=[0, 1],
        shows_default="[0] under expect, nothing under warn",
    )
    max_duration_ms = Int(1, LONGEST_CHECK_MS, unit="milliseconds", doc="Longest duration, in ms.", example=2000)
    stdout = Rules(documents=False, doc="Rules on the standard output, in order.", example=[{"regex": "^ok"}])
    stderr = Rules(documents=False, doc="Rules on the standard error output, in order.", example=[{"empty": True}])

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> CommandExpect:
        return CommandExpect(**data)


# --- settings as the checker takes them ------------------------------------------------------------------------------


def _build(target: Unbuilt) -> CommandSettings:
    written = dict(target.values["command"])
    written["cwd"] = absolute(written["cwd"], target.tree)
    written["env"] = tuple(written["env"].items())
    if written.get("nagios") is not None:
        message = AtKey("nagios judges the exit code itself: remove exitCode, or nagios")
        errors = {
            part: {"exitCode": [message]}
            for part in ("expect", "warn")
            if part in target.values and target.values[part].exit_code is not None
        }
        if errors:
            raise ValidationError(errors)
    return CommandSettings(**written, drop_env=target.webhook_only)


# --- what is shown and what is doubted -------------------------------------------------------------------------------


def _summary(tree: nodes.Mapping) -> str:
    program, arguments = nodes.find(tree, "command", "exec"), nodes.find(tree, "command", "args")
    words = [masking.masked(program, "exec")] if isinstance(program, nodes.Scalar) else []
    words += masking.masked(arguments, "args") if isinstance(arguments, nodes.Sequence) else []
    return masking.one_line(" ".join(_quoted(str(word)) for word in words))


def _quoted(word: str) -> str:
    return word if word and not re.search(r"[\s'\"]", word) else "'" + word.replace("'", "'\\''") + "'"


def _lints(target: ResolvedTarget, _tree: nodes.Mapping) -> Iterator[Doubt]:
    settings: CommandSettings = target.settings
    program = settings.exec
    if program != program.strip():
        yield Doubt(("command", "exec"), f'write it without blanks at its ends: "{program.strip()}"')
    elif " " in program and not _is_file(settings):
        first, _, rest = program.partition(" ")
        message = "this looks like a whole command line, and it is taken as the name of one program: write "
        yield Doubt(("command", "exec"), f"{message}exec: {first} and args: [{', '.join(rest.split())}]")
        return
    doubt = _doubt_about(program, settings)
    if doubt is not None:
        yield Doubt(("command", "exec"), doubt)
    # os.path answers no where pathlib raises: a directory that may not be searched, a name that is too long
    if not os.path.isdir(settings.cwd):  # noqa: PTH112
        there = os.path.exists(settings.cwd)  # noqa: PTH110
        absent = f"{settings.cwd} is not a directory" if there else f"the directory {settings.cwd} does not exist now"
        unexpanded = next(filter(None, map(_not_expanded, Path(settings.cwd).parts)), "")
        yield Doubt(("command", "cwd"), unexpanded or absent)
    if os.path.basename(program) not in _SHELLS:  # noqa: PTH119
        yield from _doubts_about_arguments(settings)


def _doubt_about(program: str, settings: CommandSettings) -> str | None:
    unexpanded = _not_expanded(program)
    if unexpanded:
        return unexpanded
    if "/" not in program:
        return None if _in_path(program, settings) else f"no program {program} is found in PATH now"
    file = Path(settings.cwd, program)
    try:
        mode = file.stat().st_mode
    except OSError:
        return f"there is no program {file} now"
    if stat.S_ISDIR(mode):
        return f"{file} is a directory, not a program"
    if mode & stat.S_IWOTH:
        return f"every user may change {file}: chmod o-w {file}"
    if not os.access(file, os.X_OK) or not stat.S_ISREG(mode):
        return f"{file} is not an executable file: chmod +x {file}"
    return None


def _not_expanded(path: str) -> str:
    """What a shell would have made of the beginning of a path, or of one of its parts."""
    if path.startswith("~"):
        return "~ is not expanded, there is no shell: write the whole path"
    name = re.match(r"\$([A-Za-z_][A-Za-z0-9_]*)", path)
    return f"${name[1]} is not expanded, there is no shell: write ${{{name[1]}}}" if name is not None else ""


def _doubts_about_arguments(settings: CommandSettings) -> Iterator[Doubt]:
    for index, argument in enumerate(settings.args):
        steps = ("command", "args", index)
        if argument in _SHELL:
            message = "reaches the program as it is, there is no shell: write exec: sh, args: [-c, '...']"
            yield Doubt(steps, f"{argument} {message}")
        elif re.match(r"-{1,2}[\w-]+ \S", argument):
            yield Doubt(steps, "an option and its value in one argument: make two items of them")


def _is_file(settings: CommandSettings) -> bool:
    """Whether `exec` as a whole is a file, seen from the working directory."""
    return "/" in settings.exec and os.path.exists(Path(settings.cwd, settings.exec))  # noqa: PTH110


def _in_path(program: str, settings: CommandSettings) -> bool:
    search = dict(settings.env).get("PATH", os.environ.get("PATH", os.defpath))
    return shutil.which(program, path=search) is not None


def _unwritten(settings: CommandSettings) -> tuple[str, Any] | None:
    return None if settings.nagios is not None else ("expect.exitCode", [0])


COMMAND = TargetType(
    name="command",
    settings=CommandSchema,
    defaults=CommandDefaultsSchema,
    expect=CommandExpectSchema,
    nothing_asked=CommandExpect(),
    build=_build,
    summary=_summary,
    example={"maxOutputBytes": "1MB"},
    lints=_lints,
    unwritten=_unwritten,
    path_keys=(("cwd",),),
    merged_keys={"env": str},
    runs_programs=True,
)
