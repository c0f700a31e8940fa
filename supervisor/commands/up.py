"""`checkvisor up`: the supervisor and the web app under one command."""

from __future__ import annotations

import os
from pathlib import Path

import click

from supervisor.commands import options
from supervisor.commands.processes import environment_for_web, python, watch, web_options, web_settings


@click.command(epilog="Example: checkvisor up -c config.yaml --bind 127.0.0.1:8080")
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
    from supervisor import config, listening, logs
    from supervisor.commands.family import Family
    from supervisor.commands.page import Page

    configuration = options.config_path(path)
    address = listening.parse(bind)
    loaded = config.load(configuration, insecure=insecure)  # nothing is started for one that is wrong
    database = Path(loaded.runtime.data_dir) / "checkvisor.db"
    del loaded
    listener = None if address.path else listening.listen(address)
    if listener is not None:
        address, bind = listening.bound(listener), f"fd://{listener.fileno()}"
    flags = (*(("--insecure-config",) if insecure else ()), *(("--watch",) if watch else ()))
    settings = web_settings(bind, base_path, trusted_hosts, frame_ancestors, str(database))
    logs.setup()
    family = Family(
        supervisor=python("supervisor", "run", "-c", str(configuration), *flags),
        supervisor_environ=dict(os.environ),
        web=python("webui"),
        web_environ=environment_for_web(os.environ) | settings,
        listener=listener,
        page=Page(address, base_path),
    )
    return family.run()
