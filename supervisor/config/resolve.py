"""Target over `defaults` over built-in values, on trees whose entries remember where they came from. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from marshmallow import missing

from supervisor.config.fields import Duration, ListOf, Size, Typed
from supervisor.config.nodes import BUILT_IN, DEFAULTS, Entry, Mapping, Node, Origin, Scalar, Sequence, find
from supervisor.config.strict import Section, Strict, camel
from supervisor.config.target_type import TargetType

_SHARED = ("interval", "timeout", "retryInterval", "failureThreshold", "successThreshold", "notify")


def resolve(target: Mapping, defaults: Mapping | None, kind: TargetType) -> Mapping:
    """The target with what `defaults` says for its type. Applying it again changes nothing."""
    if defaults is None:
        return target
    entries = dict(target.entries)
    for key in _SHARED:
        if key in defaults.entries and key not in entries:
            entries[key] = _from_defaults(defaults.entries[key])
    _merge_key(entries, defaults, "labels", str)
    section, shared = entries.get(kind.name), defaults.entries.get(kind.name)
    if (
        section is not None
        and shared is not None
        and isinstance(section.node, Mapping)
        and isinstance(shared.node, Mapping)
    ):
        inner = dict(section.node.entries)
        for key, entry in shared.node.entries.items():
            if key in kind.merged_keys:
                _merge_key(inner, shared.node, key, kind.merged_keys[key])
            elif key not in inner:
                inner[key] = _from_defaults(entry)
        entries[kind.name] = replace(section, node=_like(section.node, inner))
    return _like(target, entries)


def _merge_key(entries: dict[str, Entry], defaults: Mapping, key: str, fold: Any) -> None:
    """Merge one mapping by its keys; anything but two mappings replaces."""
    if key not in defaults.entries:
        return
    own, shared = entries.get(key), defaults.entries[key]
    if own is None:
        entries[key] = _from_defaults(shared)
    elif isinstance(own.node, Mapping) and isinstance(shared.node, Mapping):
        present = {fold(name) for name in own.node.entries}
        merged = {
            name: _from_defaults(entry) for name, entry in shared.node.entries.items() if fold(name) not in present
        }
        entries[key] = replace(own, node=_like(own.node, {**merged, **own.node.entries}))


def _from_defaults(entry: Entry) -> Entry:
    return replace(entry, origin=DEFAULTS)


def _like(node: Mapping, entries: dict[str, Entry]) -> Mapping:
    return Mapping(entries, node.file, node.line, node.column)


# --- paths -----------------------------------------------------------------------------------------------------------


def absolute(value: str, beside: Node) -> str:
    """A path relative to the file in which `beside` stands, made absolute; symbolic links stay."""
    return os.path.normpath(Path(beside.file).absolute().parent / value)


def with_absolute_paths(tree: Mapping, kind: TargetType) -> Mapping:
    """The target with its relative paths made absolute, each by the file it stands in."""
    for below in kind.path_keys:
        path = (kind.name, *below)
        node = find(tree, *path)
        if isinstance(node, Scalar) and isinstance(node.value, str) and node.value and not node.value.startswith("/"):
            tree = _put(tree, path, absolute_scalar(node, node if node.file else tree))
    return tree


def absolute_scalar(node: Scalar, beside: Node) -> Scalar:
    """The scalar as an absolute path, in all its forms."""
    base = absolute(".", beside)
    raw = f"{base.replace('$', '$$')}/{node.raw}" if "$" in node.raw else absolute(node.value, beside)
    shown = f"{base}/{node.shown}" if node.shown is not None else None
    return replace(node, value=absolute(node.value, beside), raw=raw, shown=shown, plain=False)


def _put(tree: Mapping, path: tuple[str, ...], node: Node) -> Mapping:
    """A copy of the tree with another node at the path."""
    entry = tree.entries[path[0]]
    if len(path) > 1:
        assert isinstance(entry.node, Mapping)
        node = _put(entry.node, path[1:], node)
    return _like(tree, {**tree.entries, path[0]: replace(entry, node=node)})


# --- built-in values -------------------------------------------------------------------------------------------------


def with_built_ins(node: Mapping, schema: Strict) -> Mapping:
    """The mapping with every built-in value of the schema written out, down through its sections."""
    entries: dict[str, Entry] = {}
    for key, built, inner in _plan(schema):
        entry = node.entries.get(key, built)
        if entry is None:
            continue
        if inner is not None and entry is not built and isinstance(entry.node, Mapping):
            entry = replace(entry, node=with_built_ins(entry.node, inner))
        entries[key] = entry
    return _like(node, entries)


@lru_cache(64)
def _plan(schema: Strict) -> tuple[tuple[str, Entry | None, Strict | None], ...]:
    """Each key of a schema with its built-in entry and, of a section, the schema below."""
    plan = []
    nowhere = Mapping({}, "", 0, 0)
    order = {name: index for index, name in enumerate(schema.first)}
    for name, field in sorted(schema.fields.items(), key=lambda item: order.get(item[0], len(order))):
        assert isinstance(field, Typed)
        inner = field.inner if type(field) is Section and not field.each else None
        value = built_in(field)
        entry = None if value is missing else made(value, nowhere, BUILT_IN)
        if entry is not None and inner is not None:
            entry = replace(entry, node=with_built_ins(nowhere, inner))
        plan.append((camel(name), entry, inner))
    return tuple(plan)


def built_in(field: Typed) -> Any:
    """The built-in value of a field as it would be written in YAML; `missing` if there is none."""
    value = field.load_default() if callable(field.load_default) else field.load_default
    return value if value is missing else _written(field, value)


def _written(field: Typed, value: Any) -> Any:
    if isinstance(field, Duration):
        return duration_text(value)
    if isinstance(field, Size):
        return size_text(value)
    if isinstance(field, ListOf):
        return [_written(field.item, item) for item in value]
    if isinstance(field, Section):
        return [] if field.each else {}
    return {} if value == () else value


def duration_text(seconds: float) -> str:
    """`90.0` -> `1m30s`."""
    milliseconds = round(seconds * 1000)
    if not milliseconds:
        return "0s"
    parts = []
    for unit, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        count, milliseconds = divmod(milliseconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def size_text(count: int) -> str:
    """`104857600` -> `100MB`."""
    for unit, size in (("GB", 1024**3), ("MB", 1024**2), ("KB", 1024)):
        if count % size == 0:
            return f"{count // size}{unit}"
    return f"{count}B"


def made(value: Any, beside: Node, origin: Origin) -> Entry:
    """An entry for a value that stands in no file."""
    return Entry(beside.file, beside.line, beside.column, _node(value, beside), origin)


def _node(value: Any, beside: Node) -> Node:
    if isinstance(value, dict):
        return Mapping(
            {key: made(item, beside, "") for key, item in value.items()}, beside.file, beside.line, beside.column
        )
    if isinstance(value, list | tuple):
        return Sequence([_node(item, beside) for item in value], beside.file, beside.line, beside.column)
    return Scalar(value, beside.file, beside.line, beside.column, plain=not isinstance(value, str))


@dataclass(frozen=True, slots=True)
class Resolved:
    """One target between the files and the program: its merged tree, and where it stood."""

    tree: Mapping
    kind: TargetType
    path: str
