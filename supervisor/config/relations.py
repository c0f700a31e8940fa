"""What targets, webhooks and maintenance windows say about each other: ids, dependencies, names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from supervisor.config.nodes import Entry, Mapping, Node, find, join
from supervisor.config.nodes import Sequence as List
from supervisor.config.problems import Problems
from supervisor.config.resolve import Resolved
from supervisor.config.words import did_you_mean
from supervisor.model import ResolvedTarget

Built = tuple[ResolvedTarget, Resolved]
_MOST_GUESSES = 20


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


class Names:
    """The names of a kind that are known. A guess at what was meant costs milliseconds among thousands of names, so
    there is one guess for a name, and after some names none."""

    def __init__(self, what: str, known: Sequence[str]) -> None:
        self._what, self._known = what, dict.fromkeys(known)
        self._guesses: dict[str, str] = {}

    def check(self, names: Iterable[str], node: Node | None, path: str, problems: Problems) -> None:
        """Every name is known; `node` is the list they stand in."""
        for index, name in enumerate(names):
            if name not in self._known:
                assert node is not None
                at = find(node, index) if isinstance(node, List) else node
                problems.error(at or node, join(path, index), f'there is no {self._what} "{name}": {self._hint(name)}')

    def doubt(self, mapping: Node | None, path: str, problems: Problems) -> None:
        """A warning for each key of the mapping that is no known name: it may become one."""
        for name, entry in mapping.entries.items() if isinstance(mapping, Mapping) else ():
            if name not in self._known:
                problems.warning(entry, join(path, name), f'there is no {self._what} "{name}" now: {self._hint(name)}')

    def _hint(self, name: str) -> str:
        if name not in self._guesses:
            guess = did_you_mean(name, self._known) if len(self._guesses) < _MOST_GUESSES else ""
            listed = ", ".join(list(self._known)[:10]) + (", ..." if len(self._known) > 10 else "")
            self._guesses[name] = guess or (f"expected one of {listed}" if self._known else "none is configured")
        return self._guesses[name]


def check_references(targets: Sequence[Built], webhooks: Names, ids: Names, problems: Problems) -> None:
    """`notify` names webhooks, `dependsOn` names targets."""
    for target, resolved in targets:
        entry = resolved.tree.entries["notify"]
        path = "defaults.notify" if entry.origin == "defaults" else join(resolved.path, "notify")
        webhooks.check(target.notify, entry.node, path, problems)
        ids.check(target.depends_on, find(resolved.tree, "dependsOn"), join(resolved.path, "dependsOn"), problems)


def check_cycles(targets: Sequence[Built], problems: Problems) -> None:
    """`dependsOn` has no cycle. Each dependency that closes one is told, at the target where it begins."""
    graph = {target.id: target.depends_on for target, _resolved in targets}
    resolved_by_id = {target.id: resolved for target, resolved in targets}
    done: set[str] = set()
    for start in graph:
        for cycle in _cycles(start, graph, done):
            resolved = resolved_by_id[cycle[0]]
            node = find(resolved.tree, "dependsOn")
            assert node is not None
            chain = " -> ".join([*cycle, cycle[0]])
            problems.error(
                node, join(resolved.path, "dependsOn"), f"the dependencies go in a circle: {chain}; remove one of them"
            )


def _cycles(start: str, graph: dict[str, tuple[str, ...]], done: set[str]) -> Iterator[list[str]]:
    """A cycle for each dependency that closes one, over targets not yet `done`, without recursion: chains may be
    long."""
    if start in done:
        return
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
            yield trail[trail.index(following) :]
        else:
            trail.append(following)
            on_trail.add(following)
            pending.append(iter(graph[following]))
