"""What was made of what the user wrote: each value with its origin, and the configuration as explicit YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from supervisor.config import masking
from supervisor.config.loader import Loaded
from supervisor.config.nodes import Entry, Mapping, Node, Sequence, find, join
from supervisor.config.resolve import Resolved, absolute, absolute_scalar
from supervisor.model import ResolvedTarget

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_FILE = re.compile(r"\$\{file:([^}]+)\}")
_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff]")


@dataclass(frozen=True, slots=True)
class Explained:
    """One value: `value` is masked, `origin` is built-in, `defaults at FILE:LINE` or `target at FILE:LINE`."""

    path: str
    value: Any
    origin: str


def explain(loaded: Loaded, target_id: str) -> tuple[Explained, ...]:
    """Each resolved value of a target with where it came from. Raises KeyError for an unknown id."""
    target, resolved = _by_id(loaded)[target_id]
    lines = list(_lines(resolved.tree, "", "", ""))
    unwritten = resolved.kind.unwritten(target.settings)
    if unwritten is not None and not any(line.path.startswith(unwritten[0]) for line in lines):
        lines.append(Explained(*unwritten, "built-in, when the check is judged"))
    return tuple(lines)


def _by_id(loaded: Loaded) -> dict[str, tuple[ResolvedTarget, Resolved]]:
    return {target.id: (target, resolved) for target, resolved in loaded.targets}


def _lines(node: Mapping, path: str, inherited: str, name: str) -> Iterator[Explained]:
    for key, entry in node.entries.items():
        origin = entry.origin or inherited or "target"
        yield from _value(entry.node, entry, join(path, key), origin, key)


def _value(node: Node, entry: Entry, path: str, origin: str, name: str) -> Iterator[Explained]:
    if isinstance(node, Mapping) and node.entries:
        yield from _lines(node, path, origin, name)
    elif isinstance(node, Sequence) and any(isinstance(item, Mapping) for item in node.items):
        for index, item in enumerate(node.items):
            place = f"{origin} at {item.file}:{item.line}"
            yield Explained(join(path, index), masking.masked(item), place)
    else:
        place = origin if origin == "built-in" else f"{origin} at {entry.file}:{entry.line}"
        yield Explained(path, masking.masked(node, name), place)


# --- as YAML ---------------------------------------------------------------------------------------------------------


def explain_yaml(loaded: Loaded, ids: Iterable[str] | None = None) -> str:
    """A configuration without defaults and includes that loads to the same targets, given the same variables and files.

    With `ids`, only these targets and those they depend on. `${...}` stays as it was written: no secret is printed."""
    chosen = None if ids is None else _with_dependencies(loaded, ids)
    lines: list[str] = []
    for section in ("runtime", "page"):
        for document in loaded.documents:
            entry = document.root.entries.get(section)
            if entry is not None and isinstance(entry.node, Mapping):
                node = entry.node if chosen is None else _only(entry.node, "publicVariables")
                if node.entries:
                    lines += [f"{section}:", *_mapping(node, "  ")]
    targets = [resolved.tree for target, resolved in loaded.targets if chosen is None or target.id in chosen]
    lines += _list("targets", targets)
    for section in ("webhooks", "maintenance") if chosen is None else ("webhooks",):
        items: list[Node] = []
        for document in loaded.documents:
            listed = find(document.root, section)
            items += listed.items if isinstance(listed, Sequence) else []
        lines += _list(section, items) if items else []
    return "\n".join(lines) + "\n"


def _with_dependencies(loaded: Loaded, ids: Iterable[str]) -> set[str]:
    by_id = _by_id(loaded)
    chosen: set[str] = set()
    pending = list(ids)
    while pending:
        name = pending.pop()
        if name not in chosen:
            chosen.add(name)
            pending += by_id[name][0].depends_on
    return chosen


def _only(node: Mapping, *keys: str) -> Mapping:
    kept = {key: entry for key, entry in node.entries.items() if key in keys}
    return Mapping(kept, node.file, node.line, node.column)


def _list(key: str, items: Iterable[Node]) -> list[str]:
    lines = [line for item in items for line in _item(item, "  ")]
    return [f"{key}:", *lines] if lines else [f"{key}: []"]


def _item(node: Node, indent: str) -> list[str]:
    if isinstance(node, Mapping | Sequence) and _children(node):
        first, *rest = _block(node, indent + "  ")
        return [f"{indent}- {first.lstrip()}", *rest]
    return [f"{indent}- {_inline(node, '')}"]


def _children(node: Mapping | Sequence) -> bool:
    return bool(node.entries if isinstance(node, Mapping) else node.items)


def _block(node: Mapping | Sequence, indent: str) -> list[str]:
    if isinstance(node, Mapping):
        return _mapping(node, indent)
    return [line for item in node.items for line in _item(item, indent)]


def _mapping(node: Mapping, indent: str) -> list[str]:
    lines = []
    for key, entry in node.entries.items():
        shown = key if _PLAIN_KEY.fullmatch(key) else _quoted(key)
        inner = entry.node
        if isinstance(inner, Mapping | Sequence) and _children(inner):
            lines += [f"{indent}{shown}:", *_block(inner, indent + "  ")]
        else:
            lines.append(f"{indent}{shown}: {_inline(inner, key)}")
    return lines


def _inline(node: Node, key: str) -> str:
    if isinstance(node, Mapping):
        return "{}"
    if isinstance(node, Sequence):
        return "[]"
    if key == "dataDir" and isinstance(node.value, str) and not node.value.startswith("/"):
        node = absolute_scalar(node, node)
    if "$" in node.raw:
        raw = _FILE.sub(lambda found: f"${{file:{absolute(found[1], node)}}}", node.raw)
        return raw if node.plain and raw.startswith("${") and raw.endswith("}") and " #" not in raw else _quoted(raw)
    if isinstance(node.value, str):
        return _quoted(node.value)
    return "null" if node.value is None else json.dumps(node.value)


def _quoted(text: str) -> str:
    """A double-quoted scalar that reads back as the same text."""
    escaped = json.dumps(text, ensure_ascii=False)
    return _ESCAPE.sub(lambda found: f"\\u{ord(found[0]):04x}", escaped)
