"""`checkvisor run` and `checkvisor web`, and how either is started as a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from supervisor.commands import options
from supervisor.errors import StartError

BIND = "CHECKVISOR_BIND"
_WEB = (
    click.option(
        "--bind", envvar=BIND, metavar="ADDRESS", default="127.0.0.1:8080", show_default=True,
        help="HOST:PORT, or unix:/path/to.sock.",
    ),
    click.option(
        "--base-path", envvar="CHECKVISOR_BASE_PATH", metavar="PATH", default="",
        help="Serve under this path, as in /status.",
    ),
    click.option(
        "--trusted-hosts", envvar="CHECKVISOR_TRUSTED_HOSTS", metavar="HOSTS", default="",
        help="Answer only for these Host headers, separated by commas.  [default: any]",
    ),
    click.option(
        "--frame-ancestors", envvar="CHECKVISOR_FRAME_ANCESTORS", metavar="SOURCES", default="",
        help="Who may show the page in a frame: self, none, origins.  [default: none]",
    ),
)  # fmt: skip
watch = click.option("--watch", is_flag=True, help="Reload when the configuration's files change.")

_Decorated = Callable[..., Any]


def web_options(command: _Decorated) -> _Decorated:
    """The options of the web app but for the database."""
    for option in reversed(_WEB):
        command = option(command)
    return command


@click.command(short_help="Run the supervisor.", epilog="Example: checkvisor run -c /etc/checkvisor/config.yaml")
@options.config
@options.insecure
@watch
def run(path: Path | None, insecure: bool, watch: bool) -> int:
    """Run the supervisor: check the targets, store the results, tell the webhooks.

    SIGHUP reloads the configuration, SIGTERM or Ctrl-C stops within 10 seconds, a second one at once.
    """
    from supervisor.run import run as supervise

    return supervise(options.config_path(path), insecure=insecure, watch=watch, environ=os.environ)


@click.command(
    short_help="Serve the status page, the JSON API and the metrics.",
    epilog="Example: checkvisor web --bind 127.0.0.1:8080 --database data/checkvisor.db",
)
@web_options
@click.option(
    "--database", envvar="CHECKVISOR_DATABASE", metavar="FILE", default="",
    help="The supervisor's database.  [default: $STATE_DIRECTORY/checkvisor.db, else data/checkvisor.db]",
)  # fmt: skip
def web(bind: str, base_path: str, trusted_hosts: str, frame_ancestors: str, database: str) -> None:
    """Serve the status page, the JSON API and the metrics. It reads the database, nothing else.

    Each option has a variable: CHECKVISOR_BIND, CHECKVISOR_DATABASE, CHECKVISOR_BASE_PATH, CHECKVISOR_TRUSTED_HOSTS,
    CHECKVISOR_FRAME_ANCESTORS. CHECKVISOR_WEB_WORKERS (2) and CHECKVISOR_WEB_THREADS (4) size it.
    """
    settings = web_settings(bind, base_path, trusted_hosts, frame_ancestors, database)
    command = python("webui")
    os.execve(command[0], command, dict(os.environ) | settings)  # noqa: S606 - the same interpreter, the same process


def web_settings(bind: str, base_path: str, trusted_hosts: str, frame_ancestors: str, database: str) -> dict[str, str]:
    """The settings of the web app as it takes them: variables of the environment."""
    return {
        BIND: bind,
        "CHECKVISOR_BASE_PATH": base_path,
        "CHECKVISOR_TRUSTED_HOSTS": trusted_hosts,
        "CHECKVISOR_FRAME_ANCESTORS": frame_ancestors,
        "CHECKVISOR_DATABASE": database,
    }


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module of ours. `-P` keeps the present directory out of the import path, unless that is
    where we are imported from ourselves."""
    spec = find_spec(module)
    if spec is None or spec.origin is None or not sys.executable:
        raise StartError(f"the package {module} is not installed beside this one: install Checkvisor anew")
    at_home = Path(spec.origin).resolve().parent.parent == Path.cwd()
    return [sys.executable, *(() if at_home else ("-P",)), "-m", module, *arguments]


_FOR_WEB = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ", "TMPDIR", "LANG", "LANGUAGE", "NO_COLOR",
     "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CHECKVISOR_WEB_WORKERS", "CHECKVISOR_WEB_THREADS"}
)  # fmt: skip


def environment_for_web(environ: Mapping[str, str]) -> dict[str, str]:
    """What the web app gets of an environment that may hold the secrets of the configuration."""
    return {name: value for name, value in environ.items() if name in _FOR_WEB or name.startswith(("LC_", "PYTHON"))}
