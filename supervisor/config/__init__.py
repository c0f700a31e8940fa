"""From configuration files to `model.Config`: strict, with every problem at once and each at its place.

    files (which files) -> document (text -> nodes with positions, scalars) -> substitution (${...}, secrets)
        -> resolve (target over defaults over built-in, pure) -> schema, types, rules (marshmallow: what a key may hold)
        -> build, relations, lints -> model.Config

`types/` holds all that is to be known of one type of target, a module a type; everything else asks `TARGET_TYPES`.

`explained` and `editors` (the JSON Schema) tell users what was made of what they wrote, and what they may write.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from supervisor.config import watch
from supervisor.config.editors import jsonschema
from supervisor.config.explained import Explained, explain, explain_yaml
from supervisor.config.files import NoConfiguration, default_path
from supervisor.config.loader import Loaded, Loader
from supervisor.errors import ConfigError, Problem
from supervisor.model import Config

__all__ = [
    "ConfigError", "Explained", "Loaded", "NoConfiguration", "Problem", "default_path", "explain", "explain_yaml",
    "fingerprint", "jsonschema", "load", "load_all",
]  # fmt: skip


def load(path: Path, *, environ: Mapping[str, str] = os.environ, insecure: bool = False) -> Config:
    """The configuration of a file or a directory. Raises ConfigError with every problem found."""
    return load_all(path, environ=environ, insecure=insecure).config


def load_all(path: Path, *, environ: Mapping[str, str] = os.environ, insecure: bool = False) -> Loaded:
    """The same, with the trees it was made of, for `explain`."""
    return Loader(environ, insecure).load(Path(path))


def fingerprint(path: Path, *, environ: Mapping[str, str] = os.environ) -> str:
    """The digest of all contents, `${file:...}` files included: `--watch` compares it with `Config.fingerprint`. Cheap
    while nothing changes; validates nothing."""
    return watch.fingerprint(Path(path), environ)
