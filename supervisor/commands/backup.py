"""`checkvisor backup FILE`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from supervisor.commands import options, output


@click.command(
    short_help="Copy the database, also while it is in use.",
    epilog="Example: checkvisor backup /var/backups/checkvisor.db",
)
@click.argument("file", type=options.FILE)
@options.config
@options.as_json
def backup(file: Path, path: Path | None, as_json: bool) -> None:
    """Copy the database to FILE, also while the supervisor runs.

    The copy is checked, and appears under its name only when it is whole. To restore it: stop the supervisor, put the
    copy in the place of checkvisor.db, remove checkvisor.db-wal and checkvisor.db-shm, start the supervisor.
    """
    from supervisor.commands import places
    from supervisor.store.backup import backup as copy

    database = places.database(options.config_path(path), os.environ)
    copy(database, file)
    size = file.stat().st_size
    if as_json:
        output.document({"database": str(database), "file": str(file), "bytes": size})
    else:
        output.line(output.shown(f"{database} copied to {file}, {size:,} bytes"))
