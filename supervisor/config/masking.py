"""What may be shown of a target: single lines and its configuration as JSON, both without secrets.

Substituted values stand as `${NAME}`; values that go with a sensitive name are hidden even when written in clear.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from supervisor.config.nodes import Mapping, Node, Scalar, Sequence, find
from supervisor.text import HIDDEN, clean, cut
from supervisor.text import is_sensitive as _is_sensitive

is_sensitive = lru_cache(4096)(_is_sensitive)
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(=)?", re.ASCII)
_URL_KEYS = frozenset({"url", "proxy", "heartbeatUrl", "apprise"})
_HARMLESS = frozenset({"keyFile", "certFile", "caFile", "auth"})
_SUMMARY_LIMIT = 500


def masked(node: Node, name: str = "") -> Any:
    """The tree as JSON values without secrets."""
    if isinstance(node, Mapping):
        return {key: masked(entry.node, key) for key, entry in node.entries.items()}
    if isinstance(node, Sequence):
        items = [masked(item, name) for item in node.items]
        return _masked_arguments(items) if name == "args" else items
    value = node.shown if node.secrets else node.value
    if name in _URL_KEYS and isinstance(value, str):
        return masked_url(value)
    if not node.secrets and value not in (None, "", True, False) and name not in _HARMLESS and is_sensitive(name):
        return HIDDEN
    return value


def config_json(tree: Mapping) -> str:
    """The resolved configuration of a target as JSON, secrets masked."""
    return json.dumps(masked(tree), ensure_ascii=False, separators=(",", ":"), default=str)


def public_text(text: str, tree: Node | None, *path: str | int) -> str:
    """A text that everybody sees, read from this place: its secrets masked."""
    node = find(tree, *path)
    hides = isinstance(node, Scalar) and any(secret.value for secret in node.secrets)
    return str(node.shown) if isinstance(node, Scalar) and hides else text


def shown_line(tree: Mapping, *path: str) -> str:
    """The single value at a path as one line without secrets; empty if there is none."""
    node = find(tree, *path)
    return one_line(str(masked(node, path[-1]))) if isinstance(node, Scalar) else ""


def one_line(text: str) -> str:
    """A text without secrets, fit to be shown in a line."""
    return cut(clean(text), _SUMMARY_LIMIT)


def masked_url(text: str) -> str:
    """The URL without user info and without secret values of its query."""
    try:
        parts = urlsplit(text)
    except ValueError:
        return HIDDEN
    if not parts.netloc:
        return text if text.startswith("${") or "://" not in text else HIDDEN
    query = "&".join(_masked_parameter(parameter) for parameter in parts.query.split("&"))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, query, parts.fragment))


def _masked_parameter(parameter: str) -> str:
    name, equals, value = parameter.partition("=")
    if equals and value and not value.startswith("${") and is_sensitive(unquote(name)):
        return f"{name}={HIDDEN}"
    return parameter


def _masked_arguments(words: list[Any]) -> list[Any]:
    """Values of options with a sensitive name: `--password=x`, `--token x`, `Authorization: x`."""
    hidden: list[Any] = []
    hide_next = False
    for word in words:
        text = str(word)
        option = _OPTION.match(text)
        name, colon, _rest = text.partition(":")
        if hide_next and not text.startswith("${"):
            hidden.append(HIDDEN)
            hide_next = False
            continue
        hide_next = False
        if option and is_sensitive(option[1]) and (option[2] or option.end() == len(text)):
            hide_next = not option[2]
            hidden.append(f"{option[1]}={HIDDEN}" if option[2] and "${" not in text else word)
        elif colon and " " not in name and is_sensitive(name) and "${" not in text:
            hidden.append(f"{name}: {HIDDEN}")
        elif "://" in text and "@" in text:
            hidden.append(masked_url(text))
        else:
            hidden.append(word)
    return hidden
