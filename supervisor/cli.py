"""The command line: what every command has in common. What a command does stands in `commands/`, a file a group.

Nothing here or at the top of `commands/*.py` imports more than click: `checkvisor version` must not wait for the rest.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress

import click
from click.exceptions import NoArgsIsHelpError

from supervisor.clash import clash
from supervisor.commands import backup, check, configuration, events, output, processes, up, version
from supervisor.errors import CheckvisorError, ConfigError

CANNOT = 4
INTERRUPTED = 128 + 2
BROKEN_PIPE = 128 + 13


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Example: checkvisor up -c config.yaml",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=version.show,
    help="Show the version and exit.",
)
def checkvisor() -> None:
    """Checkvisor checks HTTP endpoints and local commands, and tells what changed.

    \b
    Exit status: 0 done, or the check matched; 1 the check did not match; 2 wrong usage or configuration;
    3 the check gave an error; 4 something could not be started or reached.
    """


for _command in (
    up.up, processes.run, processes.web, configuration.validate, check.check, configuration.list_targets,
    configuration.explain, configuration.schema, events.events, backup.backup, version.version,
):  # fmt: skip
    checkvisor.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status. Whatever goes wrong is a sentence on stderr, never a traceback."""
    _never_fail_to_print()
    mixed = clash()
    if mixed is not None:
        _tell(mixed)
        return CANNOT
    try:
        status = _command_status(list(sys.argv[1:] if arguments is None else arguments))
        if sys.stdout is not None:
            sys.stdout.flush()
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except click.UsageError as error:
        return _wrong_usage(error)
    except click.ClickException as error:
        _tell(error.format_message())
        return error.exit_code
    except ConfigError as error:
        output.problems(str(error))
        return error.exit_status
    except CheckvisorError as error:
        _tell(str(error))
        return error.exit_status
    except OSError as error:
        return _failed_call(error)
    except Exception as error:  # noqa: BLE001 - the last sentence before the end of the program
        return _defect(error)
    return status


def _command_status(arguments: list[str]) -> int:
    """Not through click's own `main`, which ends with 1 for a broken pipe: 1 is the answer of a check."""
    if "_CHECKVISOR_COMPLETE" in os.environ:
        checkvisor.main(arguments, prog_name="checkvisor")
    try:
        with checkvisor.make_context("checkvisor", arguments) as context:
            status = checkvisor.invoke(context)
    except click.exceptions.Exit as done:
        return done.exit_code
    return status if isinstance(status, int) else 0


def _wrong_usage(error: click.UsageError) -> int:
    if isinstance(error, NoArgsIsHelpError):
        error.show()
        return error.exit_code
    path = error.ctx.command_path if error.ctx is not None else "checkvisor"
    _tell(f"{error.format_message().rstrip('.')}. See: {path} --help", path)
    return error.exit_code


def _failed_call(error: OSError) -> int:
    if error.errno == errno.EPIPE:
        with suppress(OSError, AttributeError):  # nobody reads us; the interpreter must not fail at its last flush
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    reason = error.strerror or str(error) or type(error).__name__
    _tell(f"{os.fsdecode(error.filename)}: {reason}" if error.filename else reason)
    if error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):  # perhaps stdout itself
        with suppress(OSError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return CANNOT


def _defect(error: Exception) -> int:
    if os.environ.get("CHECKVISOR_DEBUG"):
        raise error
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{os.path.basename(last.filename)}:{last.lineno}"  # noqa: PTH119 - may be no path at all
    _tell(
        f"stopped by a defect of Checkvisor at {place} ({type(error).__name__}: {error}); "
        "with CHECKVISOR_DEBUG=1 it shows where it was, which is worth a report"
    )
    return CANNOT


def _tell(sentence: str, who: str = "checkvisor") -> None:
    output.sentence(f"{who}: {sentence}")


def _never_fail_to_print() -> None:
    """File names need not be UTF-8, and terminals need not know every character."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
