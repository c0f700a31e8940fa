"""What the configuration must know of one type of target. `types/` has a module for each, and lists them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor.config import nodes
from supervisor.config.strict import Strict
from supervisor.model import ResolvedTarget

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """A target before its settings are built: `values` by attribute name, the tree they were read from, and the
    variables that only webhooks refer to, which nothing of a target may inherit."""

    values: dict[str, Any]
    tree: nodes.Mapping
    webhook_only: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Doubt:
    """A warning about the value at `steps`, below the target."""

    steps: Steps
    message: str


def no_doubts(_target: ResolvedTarget, _tree: nodes.Mapping) -> Iterable[Doubt]:
    """Nothing to warn of."""
    return ()


@dataclass(frozen=True, slots=True, eq=False)
class TargetType:
    """One type. Its settings stand in a target under a key with the name of the type, and so in `defaults`.

    `settings`      the keys of that section
    `defaults`      those of them that `defaults` may hold
    `expect`        the keys of `expect` and `warn`; what it loads is `ResolvedTarget.expect`
    `nothing_asked` what `expect` loads from an empty mapping
    `build`         the settings as the checker takes them; raises ValidationError with paths below the target
    `summary`       one line that people search for, without secrets
    `example`       what the documentation shows under `defaults`
    `lints`         warnings about a target that loads
    `unwritten`     what is judged when nothing is said, as path below the target and value, or None; by settings
    `path_keys`     settings that are paths: they become absolute, seen from the file they stand in
    `merged_keys`   settings whose mappings merge with those of `defaults`, each with the folding of its keys
    `misplaced`     where keys belong that users write beside the section; needed only for keys that could mean two
                    things, the others are known from the schemas
    `runs_programs` whether who may write the configuration may run programs
    """

    name: str
    settings: type[Strict]
    defaults: type[Strict]
    expect: type[Strict]
    nothing_asked: Any
    build: Callable[[Unbuilt], Any]
    summary: Callable[[nodes.Mapping], str]
    example: Any = None
    lints: Callable[[ResolvedTarget, nodes.Mapping], Iterable[Doubt]] = no_doubts
    unwritten: Callable[[Any], tuple[str, Any] | None] = lambda _settings: None
    path_keys: tuple[tuple[str, ...], ...] = ()
    merged_keys: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    misplaced: Mapping[str, str] = field(default_factory=dict)
    runs_programs: bool = False
