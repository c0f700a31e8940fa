"""What everybody sees beside the targets themselves: the page and the names of groups, secrets masked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from supervisor.config.masking import public_text
from supervisor.config.nodes import Node, Scalar, find, plain
from supervisor.config.resolve import Resolved
from supervisor.model import ResolvedTarget


class GroupNames:
    """How groups are shown. Two targets may give one group differently: in clear, and by a variable."""

    def __init__(self, built: Iterable[tuple[ResolvedTarget, Resolved]]) -> None:
        self._shown: dict[str, dict[str, None]] = {}
        for target, resolved in built:
            node = find(resolved.tree, "group")
            if isinstance(node, Scalar):
                self._shown.setdefault(str(node.value), {})[target.group] = None

    def shown(self, names: Iterable[str]) -> tuple[str, ...]:
        """The groups of these names, as targets have them."""
        return tuple(dict.fromkeys(shown for name in names for shown in self._shown.get(str(name), (str(name),))))


def page_json(page: Mapping[str, Any], node: Node | None, groups: GroupNames) -> str:
    """The section `page`, read from this node, as the web app finds it in the database."""
    seen = {
        **page,
        "title": public_text(page["title"], node, "title"),
        "links": [
            {key: public_text(value, node, "links", index, key) for key, value in link.items()}
            for index, link in enumerate(page["links"])
        ],
        "groups": {shown: show for name, show in page["groups"].items() for shown in groups.shown((name,))},
    }
    return json.dumps(plain(seen), ensure_ascii=False)
