"""The digest of a configuration's files, cheap enough to take every few seconds: what `--watch` compares.

A file is parsed only when its content is new, to find what it includes; nothing is validated.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path

from supervisor.config import reading
from supervisor.config.document import MAX_FILE_BYTES, Reader
from supervisor.config.nodes import Document, Node, Scalar, Sequence
from supervisor.config.nodes import Mapping as MappingNode
from supervisor.config.problems import Problems
from supervisor.config.substitution import Substitution

SUFFIXES = (".yaml", ".yml")


class Digest:
    """The digest of names and contents, in the order in which they are noted."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()

    def note(self, name: str, content: bytes) -> None:
        self._hash.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogatepass"))
        self._hash.update(content)

    def text(self) -> str:
        return self._hash.hexdigest()


def read_file(path: Path) -> bytes:
    """The content, a little more than the limit at most; raises OSError, or ValueError for an impossible name."""
    return reading.read(path, MAX_FILE_BYTES)


def directory(path: Path) -> list[Path]:
    """The configuration files of a directory in name order; hidden ones (editors' swap files) do not count. A link to
    nowhere does: reading it is an error, and what it stood for is not missed in silence."""
    return sorted(
        entry
        for entry in path.iterdir()
        if entry.suffix.lower() in SUFFIXES and not entry.name.startswith(".") and not os.path.isdir(entry)  # noqa: PTH112
    )


def includes(document: Document) -> list[tuple[Node, str]]:
    """The patterns that a file includes, each with its path."""
    entry = document.root.entries.get("include")
    if entry is None:
        return []
    if isinstance(entry.node, Sequence):
        return [(item, f"include[{index}]") for index, item in enumerate(entry.node.items)]
    return [(entry.node, "include")]


def matching(pattern: str, beside: str) -> list[Path]:
    """The files and directories that a pattern means, relative to the file it stands in."""
    whole = str(Path(beside).parent / pattern)
    return [Path(name) for name in sorted(glob.glob(whole, recursive=True))]  # noqa: PTH207 - keeps the path as written


def opened(found: Iterable[Path]) -> list[Path]:
    """The files among these, and those of the directories among them."""
    return [file for path in found for file in (directory(path) if path.is_dir() else [path])]


def fingerprint(path: Path, environ: Mapping[str, str]) -> str:
    """The digest of a file or directory and of everything it draws in; equal to `Config.fingerprint` after a load of
    the same contents. What can't be read is not part of it."""
    digest = Digest()
    seen: set[str] = set()
    values = Substitution(environ, (), Problems())
    wanted: list[tuple[Scalar, ...]] = []
    try:
        pending = directory(path) if path.is_dir() else [path]
    except OSError:
        pending = []
    while pending:
        file = pending.pop(0)
        try:
            identity = os.path.realpath(file)
            if identity in seen:
                continue
            seen.add(identity)
            content = read_file(file)
        except (OSError, ValueError):
            continue
        digest.note(str(file), content)
        patterns, files = _references(content, str(file))
        wanted.append(tuple(Scalar(raw, str(file), 1, 1, raw) for raw in files))
        drawn_in: list[Path] = []
        for raw in patterns:
            drawn_in += _expanded(raw, str(file), environ)
        pending = drawn_in + pending
    for scalars in wanted:
        values.apply(_holding(scalars))
    for name, content in values.files.items():
        digest.note(name, content)
    return digest.text()


def _holding(scalars: tuple[Scalar, ...]) -> Document:
    return Document("", MappingNode({}, "", 1, 1), [(scalar, "", ()) for scalar in scalars])


def _expanded(raw: str, file: str, environ: Mapping[str, str]) -> list[Path]:
    scalar = Scalar(raw, file, 1, 1, raw)
    if "$" in raw:
        Substitution(environ, (), Problems()).apply(_holding((scalar,)))
    if not isinstance(scalar.value, str) or not scalar.value or "\0" in scalar.value:
        return []
    try:
        return opened(matching(scalar.value, file))
    except OSError:
        return []


@lru_cache(256)
def _references(content: bytes, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a file includes, and the texts in it that name files, both as written."""
    document = Reader(Problems()).read(content, name)
    if document is None:
        return (), ()
    patterns = tuple(
        item.raw for item, _path in includes(document) if isinstance(item, Scalar) and isinstance(item.value, str)
    )
    return patterns, tuple(scalar.raw for scalar, _key, _steps in document.dollars if "${file:" in scalar.raw)
