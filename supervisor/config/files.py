"""Which files make up a configuration: a file or a directory, and what they include. First step: path -> documents."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from supervisor.config import nodes
from supervisor.config.document import Reader
from supervisor.config.fields import found
from supervisor.config.nodes import Document, Node, Scalar, Sequence
from supervisor.config.problems import Problems
from supervisor.config.substitution import Substitution
from supervisor.config.watch import SUFFIXES, Digest, directory, includes, matching, opened, read_file
from supervisor.errors import CheckvisorError

_MAX_FILES = 1000


class NoConfiguration(CheckvisorError):  # noqa: N818 - it reads as what is the case
    """There is no configuration where one was looked for."""

    exit_status = 2


def default_path(environ: Mapping[str, str]) -> Path:
    """CHECKVISOR_CONFIG, then ./config.yaml, then /etc/checkvisor/config.yaml (also when none exists)."""
    if environ.get("CHECKVISOR_CONFIG"):
        return Path(environ["CHECKVISOR_CONFIG"])
    here = Path("config.yaml")
    return here if here.exists() else Path("/etc/checkvisor/config.yaml")


class Files:
    """Reads every file once; the digest of all contents is what `--watch` compares."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._reader = Reader(problems)
        self._seen: set[str] = set()
        self.digest = Digest()
        self.documents: list[Document] = []
        self.names: list[str] = []
        self.modes: list[tuple[str, os.stat_result]] = []

    def read(self, path: Path, environ: Mapping[str, str]) -> None:
        """Read the file or the directory, and what is included."""
        try:
            files = self._directory(path) if path.is_dir() else [path]
        except OSError as exc:
            self._problems.error_at(str(path), 1, 1, "", f"the directory can't be read: {exc.strerror or exc}")
            return
        if not files:
            message = f"the directory holds no file that ends in {' or '.join(SUFFIXES)}"
            self._problems.error_at(str(path), 1, 1, "", message)
        for file in files:
            self._file(file, environ)

    def _directory(self, path: Path) -> list[Path]:
        self._note_modes([path])
        return directory(path)

    def _file(self, path: Path, environ: Mapping[str, str]) -> None:
        name = str(path)
        self._problems.file(name)
        try:
            identity = os.path.realpath(path)
            if identity in self._seen:
                return
            self._seen.add(identity)
            content = read_file(path)
            self.modes.append((name, path.stat()))
        except (OSError, ValueError) as exc:
            reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
            self._problems.error_at(name, 1, 1, "", f"the file can't be read: {reason}")
            return
        self.names.append(name)
        self.digest.note(name, content)
        document = self._reader.read(content, name)
        if document is None:
            return
        self.documents.append(document)
        for item, where in includes(document):
            for included in self._included(item, where, document, environ):
                if len(self._seen) >= _MAX_FILES:
                    self._problems.error(item, where, f"more than {_MAX_FILES:,} files")
                    return
                self._file(included, environ)

    def _included(self, item: Node, where: str, document: Document, environ: Mapping[str, str]) -> list[Path]:
        asked = [place for place in document.dollars if place[0] is item]
        if asked:
            Substitution(environ, (), self._problems).apply(Document(document.file, document.root, asked))
        value = item.value if isinstance(item, Scalar) else None
        if not isinstance(value, str) or not value or "\0" in value:
            what = found(nodes.data(item))
            self._problems.error(item, where, f"expected a file name or a pattern such as conf.d/*.yaml, found {what}")
            return []
        try:
            matched = matching(value, document.file)
            is_pattern = glob.has_magic(value)
            self._note_modes({path.parent for path in matched if is_pattern})
            self._note_modes({path for path in matched if path.is_dir()})
            files = opened(matched)
        except OSError as exc:
            self._problems.error(item, where, f"{value} can't be read: {exc.strerror or exc}")
            return []
        if not files and is_pattern:
            self._problems.warning(item, where, f"no file matches {value}")
        elif not matched:
            self._problems.error(item, where, f"there is no file {value}")
        return files

    def _note_modes(self, directories: Iterable[Path]) -> None:
        """Whoever may put files into one of these changes the configuration."""
        self.modes += [(str(path), path.stat()) for path in sorted(directories)]


def check_permissions(files: Files, has_commands: bool, insecure: bool, problems: Problems) -> None:
    """Who may write the configuration may run commands as the supervisor's user: refuse what everybody may write."""
    for name, status in files.modes:
        at = Scalar(None, name, 1, 1)
        what = "put files into this directory" if stat.S_ISDIR(status.st_mode) else "change this file"
        if status.st_mode & stat.S_IWOTH:
            message = f"every user may {what}, and it can run commands: chmod o-w {name}"
            refused = has_commands
        elif status.st_mode & stat.S_IWGRP:
            message = f"the group {status.st_gid} may {what}: chmod g-w {name}"
            refused = has_commands and os.geteuid() == 0
            if refused:
                message = f"the group {status.st_gid} may {what}, and it runs commands as root: chmod g-w {name}"
        else:
            continue
        if refused and not insecure:
            problems.error(at, "", f"{message}, or start with --insecure-config")
        else:
            problems.warning(at, "", message)


def public_variables(documents: list[Document]) -> list[str]:
    """`runtime.publicVariables` as far as it is well-formed: it is needed before anything is validated."""
    names: list[str] = []
    for document in documents:
        listed = nodes.find(document.root, "runtime", "publicVariables")
        if isinstance(listed, Sequence):
            names += [item.value for item in listed.items if isinstance(item, Scalar) and isinstance(item.value, str)]
    return names
