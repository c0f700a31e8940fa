"""What targets, webhooks and maintenance windows say about each other: ids, dependencies, names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from supervisor.config.nodes import Entry, Mapping, Node, find, join
from supervisor.config.nodes import Sequence as List
from supervisor.config.problems import Problems
from supervisor.config.resolve import Resolved
from supervisor.config.words import did_you_mean
from supervisor.model import ResolvedTarget

Built = tuple[ResolvedTarget, Resolved]


def check_ids(targets: Sequence[Built], problems: Problems) -> None:
    """Ids are unique; two names with one slug ask for explicit ids."""
    seen: dict[str, Built] = {}
    folded: dict[str, str] = {}
    for target, resolved in targets:
        earlier = seen.setdefault(target.id, (target, resolved))
        entry = _written(resolved.tree, "id", "name")
        if earlier[1] is not resolved:
            first = _written(earlier[1].tree, "id", "name")
            where = f"{first.file}:{first.line}"
            path = join(resolved.path, "name" if entry.origin == "" and "id" not in _own(resolved.tree) else "id")
            if "id" in _own(resolved.tree) and "id" in _own(earlier[1].tree):
                message = f'the id "{target.id}" stands twice, first at {where}: every target needs its own'
            else:
                message = (
                    f'the name gives the id "{target.id}", which the target at {where} has: give both targets an id'
                )
            problems.error(entry.node, path, message)
        elif folded.setdefault(target.id.lower(), target.id) != target.id:
            other = folded[target.id.lower()]
            problems.warning(
                entry.node,
                join(resolved.path, "id"),
                f'the ids "{other}" and "{target.id}" differ only in capital letters',
            )


def _own(tree: Mapping) -> set[str]:
    return {key for key, entry in tree.entries.items() if entry.origin != "built-in"}


def _written(tree: Mapping, *keys: str) -> Entry:
    """The first of the keys that the user wrote."""
    own = _own(tree)
    return next(tree.entries[key] for key in (*keys, "type") if key in own)


def check_names(
    names: Iterable[str], known: Sequence[str], node: Node | None, path: str, what: str, problems: Problems
) -> None:
    """Every name is known; `node` is the list they stand in."""
    for index, name in enumerate(names):
        if name in known:
            continue
        listed = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
        hint = did_you_mean(name, known) or (f"expected one of {listed}" if known else "none is configured")
        item = find(node, index) if isinstance(node, List) else node
        assert node is not None
        problems.error(item or node, join(path, index), f'there is no {what} "{name}": {hint}')


def check_references(targets: Sequence[Built], webhooks: Sequence[str], ids: Sequence[str], problems: Problems) -> None:
    """`notify` names webhooks, `dependsOn` names targets."""
    known_ids, known_webhooks = set(ids), set(webhooks)
    for target, resolved in targets:
        if not known_webhooks.issuperset(target.notify):
            entry = resolved.tree.entries["notify"]
            path = "defaults.notify" if entry.origin == "defaults" else join(resolved.path, "notify")
            check_names(target.notify, webhooks, entry.node, path, "webhook", problems)
        if not known_ids.issuperset(target.depends_on):
            node, path = find(resolved.tree, "dependsOn"), join(resolved.path, "dependsOn")
            check_names(target.depends_on, ids, node, path, "target", problems)


def check_cycles(targets: Sequence[Built], problems: Problems) -> None:
    """`dependsOn` has no cycle. Each cycle is told once, at the target that stands first in the file."""
    graph = {target.id: target.depends_on for target, _resolved in targets}
    resolved_by_id = {target.id: resolved for target, resolved in targets}
    done: set[str] = set()
    for start in graph:
        cycle = _cycle(start, graph, done)
        if cycle:
            resolved = resolved_by_id[cycle[0]]
            node = find(resolved.tree, "dependsOn")
            assert node is not None
            chain = " -> ".join([*cycle, cycle[0]])
            problems.error(
                node, join(resolved.path, "dependsOn"), f"the dependencies go in a circle: {chain}; remove one of them"
            )


def _cycle(start: str, graph: dict[str, tuple[str, ...]], done: set[str]) -> list[str]:
    """A cycle reachable from `start` over targets not yet `done`, without recursion: chains may be long."""
    if start in done:
        return []
    trail: list[str] = [start]
    on_trail = {start}
    pending = [iter(graph[start])]
    while pending:
        following = next((name for name in pending[-1] if name in graph and name not in done), None)
        if following is None:
            pending.pop()
            left = trail.pop()
            on_trail.discard(left)
            done.add(left)
        elif following in on_trail:
            cycle = trail[trail.index(following) :]
            done.update(trail)
            return cycle
        else:
            trail.append(following)
            on_trail.add(following)
            pending.append(iter(graph[following]))
    return []
