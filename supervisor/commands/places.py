"""Where a running supervisor keeps its database and its control socket, without loading its configuration whole.

An operator's shell rarely has the secrets of the service, and a broken edit must not hide what the database knows: of
the configuration only `runtime.dataDir` is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from supervisor.config.files import Files
from supervisor.config.nodes import Document, Scalar, find
from supervisor.config.problems import Problems
from supervisor.config.resolve import absolute
from supervisor.config.substitution import Substitution
from supervisor.errors import ConfigError

DATABASE = "checkvisor.db"
SOCKET = "control.sock"
# where the packaged unit keeps them (StateDirectory=, RuntimeDirectory=); a shell does not have the unit's variables
_SERVICE_STATE = Path("/var/lib/checkvisor")
_SERVICE_RUNTIME = Path("/run/checkvisor")


def data_dir(path: Path, environ: Mapping[str, str]) -> Path:
    """The data directory of the configuration at `path`. Raises ConfigError if that can't be told."""
    problems = Problems()
    files = Files(problems)
    files.read(path, environ)
    if not files.documents:
        problems.raise_errors()
    for document in files.documents:
        node = find(document.root, "runtime", "dataDir")
        if isinstance(node, Scalar):
            return Path(_value(node, document, environ))
    if environ.get("STATE_DIRECTORY"):
        return Path(environ["STATE_DIRECTORY"].split(":")[0])
    beside = Path(os.path.abspath(files.names[0] if files.names else path)).parent / "data"  # noqa: PTH100 - as loaded
    service = _SERVICE_STATE / DATABASE
    return beside if (beside / DATABASE).exists() or not service.exists() else _SERVICE_STATE


def _value(node: Scalar, document: Document, environ: Mapping[str, str]) -> str:
    problems = Problems()
    asked = [place for place in document.dollars if place[0] is node]
    if asked:
        Substitution(environ, (), problems).apply(Document(document.file, document.root, asked))
    if not isinstance(node.value, str) or not node.value:
        problems.error(node, "runtime.dataDir", "expected the path of a directory")
    problems.raise_errors()
    return absolute(str(node.value), node)


def database(path: Path, environ: Mapping[str, str]) -> Path:
    """The database file; it need not exist."""
    return data_dir(path, environ) / DATABASE


def control_socket(path: Path, environ: Mapping[str, str]) -> Path:
    """The control socket; it need not exist."""
    if environ.get("RUNTIME_DIRECTORY"):
        return Path(environ["RUNTIME_DIRECTORY"].split(":")[0]) / SOCKET
    try:
        directory = data_dir(path, environ)
    except ConfigError:
        if not _is_socket(_SERVICE_RUNTIME / SOCKET):
            raise
        return _SERVICE_RUNTIME / SOCKET
    if directory == _SERVICE_STATE and not _is_socket(directory / SOCKET):
        return _SERVICE_RUNTIME / SOCKET
    return directory / SOCKET


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:  # no right to look into the directory
        return True
