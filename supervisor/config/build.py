"""Resolved trees -> model.ResolvedTarget: typed values, and what can only be judged once everything is in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marshmallow import ValidationError
from slugify import slugify

from supervisor.config import masking, nodes
from supervisor.config.fields import found
from supervisor.config.nodes import Mapping, Scalar, find
from supervisor.config.problems import Problems
from supervisor.config.resolve import (
    Resolved,
    duration_text,
    made,
    resolve,
    with_absolute_paths,
    with_built_ins,
)
from supervisor.config.schema import target_schema
from supervisor.config.target_type import TargetType, Unbuilt
from supervisor.config.types import TARGET_TYPES
from supervisor.config.words import did_you_mean
from supervisor.model import ResolvedTarget, Secret

_RETRY_S = 30.0


def slug(name: str) -> str:
    """The id made from a name."""
    return str(slugify(name, max_length=64)).strip("-")


@dataclass(frozen=True, slots=True)
class Inheritance:
    """What commands inherit: variables that are taken out of it, and the secrets that stay in it."""

    dropped: tuple[str, ...]
    secrets: tuple[Secret, ...]


class TargetBuilder:
    """Builds the targets of one configuration. `default_webhooks` is what a target without `notify` tells."""

    def __init__(
        self, defaults: Mapping | None, default_webhooks: tuple[str, ...], inheritance: Inheritance, problems: Problems
    ) -> None:
        self._defaults, self._webhooks, self._problems = defaults, default_webhooks, problems
        self._inheritance = inheritance
        self.built: list[tuple[ResolvedTarget, Resolved]] = []

    def add(self, node: Mapping, path: str, position: int) -> None:
        """Build one target, or note what is wrong with it."""
        kind = self._kind(node, path)
        tree = with_absolute_paths(resolve(node, self._defaults, kind), kind)
        schema = target_schema(kind)
        try:
            values = schema.load(nodes.data(tree))
        except ValidationError as exc:
            messages = exc.messages
            if isinstance(messages, dict):
                messages.pop("type", None)
            self._problems.tree(messages, tree, path)
            return
        tree = self._identity(tree, values, path)
        if "id" not in values:
            return
        if "retry_interval" not in values:
            values["retry_interval"] = min(values["interval"], _RETRY_S)
            tree = _with(tree, "retryInterval", duration_text(values["retry_interval"]))
        if "notify" not in values:
            values["notify"] = self._webhooks
            tree = _with(tree, "notify", list(self._webhooks))
        resolved = Resolved(with_absolute_paths(with_built_ins(tree, schema), kind), kind, path)
        try:
            settings = kind.build(Unbuilt(values, tree, self._inheritance.dropped))
        except ValidationError as exc:
            self._problems.tree(exc.messages, tree, path)
            return
        inherited = self._inheritance.secrets if kind.runs_programs else ()
        self.built.append((_target(values, settings, resolved, position, inherited), resolved))

    def _kind(self, node: Mapping, path: str) -> TargetType:
        """The type of a target. A missing or wrong one is noted, and guessed for the sake of its other problems."""
        written = find(node, "type")
        value = written.value if isinstance(written, Scalar) else None
        if isinstance(value, str) and value in TARGET_TYPES:
            return TARGET_TYPES[value]
        names = ", ".join(TARGET_TYPES)
        if "type" not in node.entries:
            self._problems.error(node, f"{path}.type", f"is missing: expected one of {names}")
        else:
            hint = did_you_mean(value, TARGET_TYPES)
            shown = found(nodes.data(node.entries["type"].node))
            self._problems.error(
                node.entries["type"].node,
                f"{path}.type",
                f"expected one of {names}, found {shown}{': ' if hint else ''}{hint}",
            )
        sections = [kind for name, kind in TARGET_TYPES.items() if name in node.entries]
        return (sections or list(TARGET_TYPES.values()))[0]

    def _identity(self, tree: Mapping, values: dict[str, Any], path: str) -> Mapping:
        """Id from name and name from id."""
        if "id" not in values and "name" not in values:
            self._problems.error(tree, f"{path}.name", "is missing: expected a name, or an id")
        elif "id" not in values:
            made_id = slug(masking.public_text(values["name"], tree, "name"))
            if not made_id:
                at = find(tree, "name") or tree
                self._problems.error(at, f"{path}.name", "no id can be made from this name: give the target an id")
                return tree
            values["id"] = made_id
            return _with(tree, "id", made_id)
        elif "name" not in values:
            values["name"] = values["id"]
            return _with(tree, "name", values["id"])
        return tree


def _target(
    values: dict[str, Any], settings: Any, resolved: Resolved, position: int, inherited: tuple[Secret, ...]
) -> ResolvedTarget:
    kind = resolved.kind
    warn = values.get("warn")
    return ResolvedTarget(
        id=values["id"],
        name=masking.public_text(values["name"], resolved.tree, "name"),
        type=kind.name,
        settings=settings,
        expect=values.get("expect", kind.nothing_asked),
        warn=None if warn == kind.nothing_asked else warn,
        interval_s=values["interval"],
        timeout_s=values["timeout"],
        retry_interval_s=values["retry_interval"],
        failure_threshold=values["failure_threshold"],
        success_threshold=values["success_threshold"],
        enabled=values["enabled"],
        group=masking.public_text(values.get("group", ""), resolved.tree, "group"),
        labels=tuple(
            (name, masking.public_text(value, resolved.tree, "labels", name))
            for name, value in values["labels"].items()
        ),
        notify=tuple(values["notify"]),
        depends_on=tuple(values["depends_on"]),
        secrets=tuple(dict.fromkeys((*nodes.secrets(resolved.tree), *inherited))),
        summary=kind.summary(resolved.tree),
        config_json=masking.config_json(resolved.tree),
        position=position,
    )


def _with(tree: Mapping, key: str, value: Any) -> Mapping:
    return Mapping({**tree.entries, key: made(value, tree, nodes.BUILT_IN)}, tree.file, tree.line, tree.column)
