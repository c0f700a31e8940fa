"""Doubts about a target that loads: warnings, each with its place. Nothing here refuses anything."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit

from supervisor.checkers.command.settings import CommandSettings
from supervisor.checkers.http.settings import HttpSettings
from supervisor.config.build import program_exists
from supervisor.config.nodes import Mapping, Node, Scalar, Sequence, find, join
from supervisor.config.problems import Problems
from supervisor.config.resolve import Resolved, duration_text
from supervisor.expect import checks
from supervisor.model import ResolvedTarget

_lint_regex = lru_cache(4096)(checks.lint_regex)
_lint_json_path = lru_cache(4096)(checks.lint_json_path)
_lint_css = lru_cache(4096)(checks.lint_css)
_lint_xpath = lru_cache(4096)(checks.lint_xpath)
_SHELL = frozenset({"|", "||", "&&", ";", ">", ">>", "<", "2>", "2>&1", "&"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "busybox"})


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
        if isinstance(target.settings, HttpSettings):
            self._http(target, target.settings, tree, path)
        elif isinstance(target.settings, CommandSettings):
            self._command(target.settings, tree, path)

    def _at(self, tree: Mapping, path: str, steps: tuple[str | int, ...], message: str) -> None:
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

    # --- http

    def _http(self, target: ResolvedTarget, settings: HttpSettings, tree: Mapping, path: str) -> None:
        if settings.body is not None and settings.method in ("GET", "HEAD"):
            self._at(
                tree,
                path,
                ("http", "method"),
                f"a body is sent with {settings.method}, which servers ignore: set method: POST",
            )
        written = find(tree, "http", "url")
        url = str(written.value) if isinstance(written, Scalar) else settings.url
        if "@" in urlsplit(url).netloc and settings.auth is None:
            self._at(
                tree,
                path,
                ("http", "url"),
                "the URL holds a user without a password, and no Authorization is sent for it: use auth",
            )
        plain = settings.url[:5].lower() == "http:"
        for part in ("expect", "warn"):
            days = getattr(getattr(target, part), "certificate_min_days_left", None)
            if days is not None and plain:
                self._at(
                    tree,
                    path,
                    (part, "certificate"),
                    "the URL is http, and only https has a certificate: use an https URL",
                )
        if plain and settings.tls.ca_file:
            self._at(tree, path, ("http", "tls", "caFile"), "the URL is http, where this has no effect")
        if not settings.tls.verify and not plain:
            self._at(
                tree,
                path,
                ("http", "tls", "verify"),
                "the certificate is not verified: anyone on the way can answer for this server",
            )

    # --- command

    def _command(self, settings: CommandSettings, tree: Mapping, path: str) -> None:
        program = settings.exec
        if " " in program and not program_exists(settings):
            first, _, rest = program.partition(" ")
            self._at(
                tree,
                path,
                ("command", "exec"),
                "this looks like a whole command line, and it is taken as the name of one program: write "
                f"exec: {first} and args: [{', '.join(rest.split())}]",
            )
            return
        if program.startswith("~"):
            self._at(tree, path, ("command", "exec"), "~ is not expanded, there is no shell: write the whole path")
        elif "/" not in program and not _in_path(program, settings):
            self._at(tree, path, ("command", "exec"), f"no program {program} is found in PATH now")
        elif "/" in program:
            self._program_file(Path(settings.cwd, program), tree, path)
        if not Path(settings.cwd).is_dir():
            self._at(tree, path, ("command", "cwd"), f"the directory {settings.cwd} does not exist now")
        self._arguments(settings, tree, path)

    def _program_file(self, file: Path, tree: Mapping, path: str) -> None:
        try:
            mode = file.stat().st_mode
        except OSError:
            self._at(tree, path, ("command", "exec"), f"there is no program {file} now")
            return
        if mode & stat.S_IWOTH:
            self._at(tree, path, ("command", "exec"), f"every user may change {file}: chmod o-w {file}")
        elif not os.access(file, os.X_OK) or not stat.S_ISREG(mode):
            self._at(tree, path, ("command", "exec"), f"{file} is not an executable file: chmod +x {file}")

    def _arguments(self, settings: CommandSettings, tree: Mapping, path: str) -> None:
        in_shell = os.path.basename(settings.exec) in _SHELLS  # noqa: PTH119
        for index, argument in enumerate(settings.args):
            steps = ("command", "args", index)
            if argument in _SHELL and not in_shell:
                self._at(
                    tree,
                    path,
                    steps,
                    f"{argument} reaches the program as it is, there is no shell: write exec: sh, args: [-c, '...']",
                )
            elif re.match(r"-{1,2}[\w-]+ \S", argument) and not in_shell:
                self._at(tree, path, steps, "an option and its value in one argument: make two items of them")


def _in_path(program: str, settings: CommandSettings) -> bool:
    search = dict(settings.env).get("PATH", os.environ.get("PATH", os.defpath))
    return shutil.which(program, path=search) is not None
