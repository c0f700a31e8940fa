"""Options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from supervisor.errors import CheckvisorError


class WrongUsage(CheckvisorError):  # noqa: N818 - it reads as what is the case
    """An argument names nothing that is there; the configuration itself may be right."""

    exit_status = 2


class FilePath(click.ParamType[Path]):
    """A path, which may hold any bytes but is not empty."""

    name = "path"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if isinstance(value, str) and not value.strip():
            self.fail("expected a path, found nothing", param, ctx)
        return Path(value)


class Id(click.ParamType[str]):
    """An id. No id holds bytes that are not UTF-8, and neither the database nor the control socket takes them."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text):
            self.fail(f"{text!r} is not UTF-8", param, ctx)
        return text


FILE = FilePath()
ID = Id()

config = click.option(
    "-c", "--config", "path", type=FILE, metavar="FILE_OR_DIR",
    help="The configuration.  [default: $CHECKVISOR_CONFIG, ./config.yaml, /etc/checkvisor/config.yaml]",
)  # fmt: skip
insecure = click.option(
    "--insecure-config", "insecure", is_flag=True,
    help="Accept command targets in files that others may change.",
)  # fmt: skip
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def config_path(path: Path | None) -> Path:
    """The configuration that was named, or the default one."""
    if path is not None:
        return path
    from supervisor.config import NoConfiguration, default_path

    found = default_path(os.environ)
    if not found.exists() and not os.environ.get("CHECKVISOR_CONFIG"):
        raise NoConfiguration(f"there is no configuration: neither ./config.yaml nor {found} exists; name one with -c")
    return found
