"""The problems of a configuration, collected in order and without repetition, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from supervisor.config.nodes import Entry, Mapping, Node, Scalar, Sequence, join, secrets
from supervisor.errors import ConfigError, Problem
from supervisor.model import Secret
from supervisor.text import Masker, clean, cut


class AtKey(str):
    """A message about a key, not about its value: it is reported where the key stands."""

    __slots__ = ()


class Problems:
    """Errors and warnings of one load. Files are numbered as they come, so that problems come out in file order."""

    def __init__(self) -> None:
        self._errors: dict[Problem, None] = {}
        self._warnings: dict[Problem, None] = {}
        self._files: dict[str, int] = {}
        self._broken: set[int] = set()
        self._masker = Masker(())

    def __bool__(self) -> bool:
        return bool(self._errors)

    def file(self, name: str) -> None:
        """Note a file, in the order in which its problems shall be told."""
        self._files.setdefault(name, len(self._files))

    def hide(self, values: Iterable[Secret]) -> None:
        """Mask these in every problem from now on: one place may speak of the value of another."""
        self._masker = Masker(values)

    def error(self, at: Node | Entry, path: str, message: str) -> None:
        self.error_at(at.file, at.line, at.column, path, _without_secrets(message, at))

    def error_at(self, file: str, line: int, column: int, path: str, message: str) -> None:
        message = self._masker.mask(message)
        self._errors[Problem(clean(file), line, column, clean(path), cut(clean(message), 600))] = None

    def broken(self, node: Node, path: str, message: str) -> None:
        """An error that leaves the node without a value: what else is wrong with it is of no interest."""
        self._broken.add(id(node))
        self.error(node, path, message)

    def warning(self, at: Node | Entry, path: str, message: str) -> None:
        message = self._masker.mask(_without_secrets(message, at))
        self._warnings[Problem(clean(at.file), at.line, at.column, clean(path), cut(clean(message), 600))] = None

    def tree(self, messages: Any, node: Node, path: str, below: str = "") -> None:
        """Report a tree of marshmallow messages about `node`. Entries that came from `defaults` are reported there:
        `path` is the shown path of the node, `below` the same without `targets[0]`."""
        self._descend(messages, node, node, path, below)

    def _descend(self, messages: Any, node: Node, at: Node | Entry, path: str, below: str) -> None:
        if isinstance(messages, dict):
            for step, inner in messages.items():
                if step == "_schema":
                    self._descend(inner, node, at, path, below)
                else:
                    self._step(step, inner, node, path, below)
            return
        for message in messages if isinstance(messages, list | tuple) else [messages]:
            if isinstance(message, dict):
                self._descend(message, node, at, path, below)
            elif id(node) not in self._broken:
                place = at if isinstance(message, AtKey) else node
                self.error(place, path, str(message))

    def _step(self, step: Any, inner: Any, node: Node, path: str, below: str) -> None:
        below = join(below, step)
        if isinstance(node, Mapping) and str(step) in node.entries:
            entry = node.entries[str(step)]
            path = f"defaults.{below}" if entry.origin == "defaults" else join(path, step)
            self._descend(inner, entry.node, entry, path, below)
        elif isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
            item = node.items[step]
            self._descend(inner, item, item, join(path, step), below)
        else:
            self._descend(inner, node, node, join(path, step), below)

    def raise_errors(self) -> None:
        """Raise ConfigError if there is any."""
        if self._errors:
            raise ConfigError(self._sorted(self._errors))

    def warnings(self) -> tuple[str, ...]:
        return tuple(str(problem) for problem in self._sorted(self._warnings))

    def _sorted(self, problems: Iterable[Problem]) -> tuple[Problem, ...]:
        last = len(self._files)
        return tuple(sorted(problems, key=lambda p: (self._files.get(p.file, last), p.file, p.line, p.column)))


def _without_secrets(message: str, at: Node | Entry) -> str:
    """The message without the secrets of the place it is about. Short ones, which may be part of any word, are masked
    where the message quotes the value; a number or a boolean is masked however it was written."""
    node = at.node if isinstance(at, Entry) else at
    held = secrets(node)
    if not held:
        return message
    if isinstance(node, Scalar) and not isinstance(node.value, str):
        value = str(node.value).lower()
        for words in ("the number ", "the boolean ", "such as "):
            message = message.replace(f"{words}{value}", f"{words}{node.shown}")
    for secret in held:
        if secret.value:
            message = message.replace(f'"{secret.value}"', f'"${{{secret.name}}}"')
    return Masker(held).mask(message)
