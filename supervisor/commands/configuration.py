"""Commands about the configuration: `validate`, `list`, `explain`, `schema`. None of them opens the database."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.commands import options, output
from supervisor.errors import ConfigError, Problem

if TYPE_CHECKING:
    from supervisor.config import Loaded
    from supervisor.model import ResolvedTarget


def load(path: Path | None, *, insecure: bool) -> Loaded:
    """The configuration that was named or the default one, with the trees it was made of."""
    from supervisor import config

    return config.load_all(options.config_path(path), insecure=insecure)


def find(loaded: Loaded, target_id: str) -> ResolvedTarget:
    """The target with this id, or wrong usage that names the nearest one."""
    known = {target.id: target for target in loaded.config.targets}
    if target_id in known:
        return known[target_id]
    by_name = {target.name: target.id for target in known.values()}
    near = get_close_matches(target_id, [*known, *by_name], 1)
    hint = f"did you mean {by_name.get(near[0], near[0])}?" if near else "see: checkvisor list"
    raise options.WrongUsage(f"there is no target with the id {target_id!r}; {hint}")


# --- validate --------------------------------------------------------------------------------------------------------


@click.command(
    short_help="Check configurations, report every problem.", epilog="Example: checkvisor validate config.yaml conf.d/"
)
@click.argument("paths", type=options.FILE, nargs=-1, metavar="[PATH]...")
@options.config
@options.insecure
@options.as_json
def validate(paths: tuple[Path, ...], path: Path | None, insecure: bool, as_json: bool) -> int:
    """Check configurations and report every problem with its place.

    Each PATH (a file or a directory) is a configuration of its own. Problems and warnings go to stderr.
    """
    wanted = [*([path] if path is not None else []), *paths] or [options.config_path(None)]
    found = [_validated(one, insecure=insecure) for one in wanted]
    valid = all(one["valid"] for one in found)
    if as_json:
        output.document({"valid": valid, "configurations": found})
    else:
        for one in found:
            _print_validated(one)
    return 0 if valid else ConfigError.exit_status


def _validated(path: Path, *, insecure: bool) -> dict[str, Any]:
    from supervisor import config

    try:
        loaded = config.load(path, insecure=insecure)
    except ConfigError as error:
        return {"path": str(path), "valid": False, "problems": [_as_data(problem) for problem in error.problems]}
    return {
        "path": str(path),
        "valid": True,
        "files": list(loaded.files),
        "targets": len(loaded.targets),
        "webhooks": len(loaded.webhooks),
        "warnings": list(loaded.warnings),
        "problems": [],
    }


def _as_data(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.file,
        "line": problem.line,
        "column": problem.column,
        "path": problem.path,
        "message": problem.message,
    }


def _print_validated(one: dict[str, Any]) -> None:
    for problem in one["problems"]:
        output.problems(str(Problem(**problem)))
    for warning in one.get("warnings", ()):
        output.problems(f"warning: {warning}")
    if one["valid"]:
        counts = f"{_count(one['targets'], 'target')}, {_count(one['webhooks'], 'webhook')}"
        warned = f", {_count(len(one['warnings']), 'warning')}" if one["warnings"] else ""
        output.line(f"{output.shown(one['path'])}: valid, {counts}{warned}")
    else:
        output.sentence(f"{one['path']}: {_count(len(one['problems']), 'problem')}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


# --- list ------------------------------------------------------------------------------------------------------------


@click.command("list", epilog="Example: checkvisor list --json")
@options.config
@options.insecure
@options.as_json
def list_targets(path: Path | None, insecure: bool, as_json: bool) -> None:
    """List the configured targets, in file order."""
    targets = load(path, insecure=insecure).config.targets
    if as_json:
        output.document([target_data(target) for target in targets])
        return
    rows = [
        (
            target.id,
            target.name,
            target.group,
            target.type,
            output.duration(target.interval_s) if target.enabled else "paused",
            target.summary,
        )
        for target in targets
    ]
    output.table(("ID", "NAME", "GROUP", "TYPE", "INTERVAL", "TARGET"), rows)


def target_data(target: ResolvedTarget) -> dict[str, Any]:
    """What is shown of a target as JSON; secrets are masked."""
    return {
        "id": target.id,
        "name": target.name,
        "group": target.group,
        "type": target.type,
        "target": target.summary,
        "enabled": target.enabled,
        "intervalMs": round(target.interval_s * 1000),
        "timeoutMs": round(target.timeout_s * 1000),
        "labels": dict(target.labels),
        "notify": list(target.notify),
        "dependsOn": list(target.depends_on),
    }


# --- explain, schema -------------------------------------------------------------------------------------------------


@click.command(epilog="Example: checkvisor explain shop-api")
@click.argument("target_id", metavar="ID")
@options.config
@options.insecure
@click.option("--yaml", "as_yaml", is_flag=True, help="Print a configuration of this target alone, defaults applied.")
@options.as_json
def explain(target_id: str, path: Path | None, insecure: bool, as_yaml: bool, as_json: bool) -> None:
    """Show every value of a target and where it comes from."""
    from supervisor import config

    if as_yaml and as_json:
        raise click.UsageError("--yaml and --json can't stand together")
    loaded = load(path, insecure=insecure)
    find(loaded, target_id)
    if as_yaml:
        output.line(config.explain_yaml(loaded, [target_id]).rstrip("\n"))
        return
    values = config.explain(loaded, target_id)
    if as_json:
        listed = [{"path": one.path, "value": one.value, "origin": one.origin} for one in values]
        output.document({"id": target_id, "values": listed})
        return
    rows = [(one.path, json.dumps(one.value, ensure_ascii=False, default=str), one.origin) for one in values]
    output.table(("PATH", "VALUE", "ORIGIN"), rows)


@click.command(
    short_help="Print the JSON Schema of the configuration.",
    epilog="Example: checkvisor schema > checkvisor.schema.json",
)
def schema() -> None:
    """Print the JSON Schema of a configuration file, for editors."""
    from supervisor import config

    output.document(config.jsonschema())
