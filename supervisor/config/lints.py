"""Doubts about a target that loads: warnings, each with its place. Nothing here refuses anything."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from supervisor.config.nodes import Mapping, Node, Scalar, Sequence, find, join
from supervisor.config.problems import Problems
from supervisor.config.resolve import Resolved, duration_text
from supervisor.config.target_type import Steps
from supervisor.expect import checks
from supervisor.model import ResolvedTarget

_lint_regex = lru_cache(4096)(checks.lint_regex)
_lint_json_path = lru_cache(4096)(checks.lint_json_path)
_lint_css = lru_cache(4096)(checks.lint_css)
_lint_xpath = lru_cache(4096)(checks.lint_xpath)


class Lints:
    """Warnings about one target after the other."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def target(self, target: ResolvedTarget, resolved: Resolved) -> None:
        tree, path = resolved.tree, resolved.path
        if target.timeout_s > target.interval_s:
            self._at(
                tree,
                path,
                ("timeout",),
                f"the timeout {duration_text(target.timeout_s)} is longer than the interval "
                f"{duration_text(target.interval_s)}: a slow check makes the next slots missed",
            )
        for part in ("expect", "warn"):
            node = find(tree, part)
            if isinstance(node, Mapping):
                self._limits(target, tree, path, part)
                self._expressions(node, join(path, part))
        for doubt in resolved.kind.lints(target, tree):
            self._at(tree, path, doubt.steps, doubt.message)

    def _at(self, tree: Mapping, path: str, steps: Steps, message: str) -> None:
        """A warning about the value at `steps`; a value from `defaults` is told there."""
        node: Node = tree
        shown, below = path, ""
        for step in steps:
            below = join(below, step)
            entry = node.entries.get(str(step)) if isinstance(node, Mapping) else None
            inner = find(node, step)
            shown = f"defaults.{below}" if entry is not None and entry.origin == "defaults" else join(shown, step)
            if inner is None or inner.line == 0:
                break  # a built-in value: told where the mapping stands that lacks it
            node = inner
        self._problems.warning(node, shown, message)

    def _limits(self, target: ResolvedTarget, tree: Mapping, path: str, part: str) -> None:
        limit = getattr(getattr(target, part), "max_duration_ms", None)
        if limit is not None and limit >= target.timeout_s * 1000:
            self._at(
                tree,
                path,
                (part, "maxDurationMs"),
                f"{limit} ms is not below the timeout "
                f"{duration_text(target.timeout_s)}: the check ends before this limit is passed",
            )
        hard = getattr(target.expect, "max_duration_ms", None)
        if part == "warn" and limit is not None and hard is not None and limit >= hard:
            self._at(
                tree,
                path,
                (part, "maxDurationMs"),
                f"{limit} ms is not below expect.maxDurationMs ({hard} ms): this never warns",
            )

    def _expressions(self, node: Node, path: str) -> None:
        if isinstance(node, Sequence):
            for index, item in enumerate(node.items):
                self._expressions(item, join(path, index))
            return
        if not isinstance(node, Mapping):
            return
        for key, entry in node.entries.items():
            inner = join(path, key)
            if key in ("regex", "match"):
                self._expression(_lint_regex, entry.node, inner)
            elif key == "json":
                dialect = find(entry.node, "dialect")
                ng = isinstance(dialect, Scalar) and dialect.value == "jsonpath-ng"
                self._expression(
                    _lint_json_path, find(entry.node, "path"), join(inner, "path"), *(["jsonpath-ng"] if ng else [])
                )
                self._expressions(entry.node, inner)
            elif key == "css":
                self._expression(_lint_css, find(entry.node, "selector"), join(inner, "selector"))
                self._expressions(entry.node, inner)
            elif key == "xpath":
                self._expression(_lint_xpath, find(entry.node, "path"), join(inner, "path"))
                self._expressions(entry.node, inner)
            else:
                self._expressions(entry.node, inner)

    def _expression(self, lint: Callable[..., list[str]], node: Node | None, path: str, *more: str) -> None:
        if isinstance(node, Scalar) and isinstance(node.value, str):
            for sentence in lint(str(node.value), *more):
                self._problems.warning(node, path, sentence)
