"""`checkvisor up`: the supervisor and the web app under one command."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import click

from supervisor import processes
from supervisor.commands import options
from supervisor.commands.processes import environment_for_web, python, watch, web_options, web_settings


@click.command(
    short_help="Run the supervisor and the web app together.",
    epilog="Example: checkvisor up -c config.yaml --bind 127.0.0.1:8080",
)
@options.config
@options.insecure
@watch
@web_options
def up(
    path: Path | None,
    insecure: bool,
    watch: bool,
    bind: str,
    base_path: str,
    trusted_hosts: str,
    frame_ancestors: str,
) -> int:
    """Run the supervisor and the web app together: for a first look and for small installations.

    Ctrl-C or SIGTERM stops both, a second one at once; SIGHUP reloads the configuration.
    """
    from supervisor import listening, logs, serving
    from supervisor.commands.family import Family
    from supervisor.commands.page import Page

    # nothing is started for an option or a configuration that is wrong
    address = listening.parse(bind)
    serving.make(database="", base_path=base_path, trusted_hosts=trusted_hosts, frame_ancestors=frame_ancestors)
    serving.sizes(os.environ)
    configuration, database = _look_apart(path, insecure=insecure)
    listener = None
    if address.path:
        listening.check(address)
    else:
        listener = listening.listen(address)
        address, bind = listening.bound(listener), f"fd://{listener.fileno()}"
    flags = (*(("--insecure-config",) if insecure else ()), *(("--watch",) if watch else ()))
    settings = web_settings(bind, base_path, trusted_hosts, frame_ancestors, database)
    logs.setup()
    family = Family(
        supervisor=python("supervisor", "run", "-c", configuration, *flags),
        supervisor_environ=dict(os.environ),
        web=python("webui"),
        web_environ=environment_for_web(os.environ) | settings,
        listener=listener,
        page=Page(address, base_path),
    )
    return family.run()


def _look_apart(path: Path | None, *, insecure: bool) -> tuple[str, str]:
    """The paths of the valid configuration and of its database. A child looks, and says what is wrong: what it takes to
    load a configuration is three times the memory that this process needs for the rest of its life."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        processes.signal_when_parent_dies(signal.SIGKILL)
        from supervisor import config

        configuration = options.config_path(path)
        data_dir = config.load(configuration, insecure=insecure).runtime.data_dir
        os.write(writing, json.dumps([str(configuration), str(Path(data_dir) / "checkvisor.db")]).encode())
        raise click.exceptions.Exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status != 0:
        raise click.exceptions.Exit(status if status > 0 else 128 - status)
    configuration, database = json.loads(told)
    return configuration, database
