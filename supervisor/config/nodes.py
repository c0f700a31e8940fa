"""A configuration file as a tree in which every value and every key knows where it stands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Literal

from supervisor.model import Secret

Origin = Literal["", "built-in", "defaults"]  # "": the same as the mapping around it, in the end the target
BUILT_IN: Origin = "built-in"
DEFAULTS: Origin = "defaults"
Path = tuple[str | int, ...]

_PLAIN_KEY = re.compile(r"[\w-]{1,80}", re.ASCII)


class Text(str):
    """A text that holds secrets: `shown` is how it may be displayed. `str(text)` gives the plain value."""

    __slots__ = ("shown",)
    shown: str

    @classmethod
    def hiding(cls, value: str, shown: str) -> Text:
        """The value with its masked form beside it."""
        text = cls(value)
        text.shown = shown
        return text


@dataclass(slots=True, eq=False)
class Scalar:
    """`value` is what the loader reads, `raw` the source text before substitution, `shown` what may be displayed."""

    value: Any
    file: str
    line: int
    column: int
    raw: str = ""
    plain: bool = True
    shown: str | None = None
    secrets: tuple[Secret, ...] = ()
    size: int = 1


@dataclass(slots=True, eq=False)
class Entry:
    """A key of a mapping with its own place; `origin` says which level of the configuration it came from."""

    file: str
    line: int
    column: int
    node: Node
    origin: Origin = ""


@dataclass(slots=True, eq=False)
class Mapping:
    entries: dict[str, Entry]
    file: str
    line: int
    column: int
    size: int = 1


@dataclass(slots=True, eq=False)
class Sequence:
    items: list[Node]
    file: str
    line: int
    column: int
    size: int = 1


Node = Scalar | Mapping | Sequence


def data(node: Node) -> Any:
    """The tree as plain dict, list and scalar values; texts with secrets are `Text`."""
    if isinstance(node, Mapping):
        return {key: data(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [data(item) for item in node.items]
    if node.secrets and isinstance(node.value, str):
        return Text.hiding(node.value, node.shown or "")
    return node.value


def plain(value: Any) -> Any:
    """A copy without `Text`: what may be pickled and kept."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return str(value) if isinstance(value, str) else value


def shown(node: Node) -> Any:
    """The tree as JSON values with secrets masked as `${NAME}`."""
    if isinstance(node, Mapping):
        return {key: shown(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [shown(item) for item in node.items]
    return node.shown if node.secrets else node.value


def secrets(node: Node) -> tuple[Secret, ...]:
    """Every secret below the node, in file order, each once."""
    seen: dict[Secret, None] = {}
    pending: list[Node] = [node]
    while pending:
        inner = pending.pop()
        if isinstance(inner, Mapping):
            pending.extend([entry.node for entry in inner.entries.values()][::-1])
        elif isinstance(inner, Sequence):
            pending.extend(inner.items[::-1])
        elif inner.secrets:
            seen.update(dict.fromkeys(inner.secrets))
    return tuple(seen)


def child(node: Node | None, step: str | int) -> Node | None:
    """The node one step below, if it is there."""
    if isinstance(node, Mapping):
        entry = node.entries.get(str(step))
        return entry.node if entry else None
    if isinstance(node, Sequence) and isinstance(step, int) and 0 <= step < len(node.items):
        return node.items[step]
    return None


def find(node: Node | None, *path: str | int) -> Node | None:
    """The node at a path, if it is there."""
    for step in path:
        node = child(node, step)
    return node


def join(path: str, step: str | int) -> str:
    """One step more on a path as it is shown: `targets[0].http.url`, `labels["a b"]`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if _PLAIN_KEY.fullmatch(step):
        return f"{path}.{step}" if path else step
    return f"{path}[{json.dumps(step[:80])}]"


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands: file, line and column (from 1) and the path as it is shown."""

    file: str
    line: int
    column: int
    path: str


@dataclass(slots=True)
class Document:
    """One parsed file: its root, and the scalars that hold a `$`, each with the key and the section it stands under."""

    file: str
    root: Mapping
    dollars: list[tuple[Scalar, str, Path]] = field(default_factory=list)
