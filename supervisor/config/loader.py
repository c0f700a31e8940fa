"""Files -> Config: the whole way, and every problem of it at once."""

from __future__ import annotations

import gc
import resource
from collections.abc import Iterator
from collections.abc import Mapping as Environment
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from marshmallow import ValidationError

from supervisor.config import nodes, relations
from supervisor.config.build import Inheritance, TargetBuilder, slug
from supervisor.config.endpoints import endpoint
from supervisor.config.fields import found
from supervisor.config.files import Files, check_permissions, public_variables
from supervisor.config.lints import Lints
from supervisor.config.nodes import Document, Entry, Mapping, Scalar, Sequence, find, join
from supervisor.config.problems import Problems
from supervisor.config.public import GroupNames, page_json
from supervisor.config.receivers import MaintenanceSchema, WebhookSchema
from supervisor.config.resolve import Resolved, absolute, duration_text
from supervisor.config.schema import DefaultsSchema, PageSchema, RuntimeSchema
from supervisor.config.strict import Strict, unknown_key
from supervisor.config.substitution import Substitution
from supervisor.config.types import TARGET_TYPES
from supervisor.model import Config, MaintenanceWindow, ResolvedTarget, RuntimeSettings, WebhookEndpoint

SECTIONS = ("runtime", "page", "defaults", "targets", "webhooks", "maintenance", "include")
_LISTS = ("targets", "webhooks", "maintenance")
_DESCRIPTORS_A_WORKER = 6  # its pipes, its pidfd, and what a replacement needs meanwhile
_DESCRIPTORS_BESIDES = 64


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration with the trees it was made of, for `explain`."""

    config: Config
    targets: tuple[tuple[ResolvedTarget, Resolved], ...]
    documents: tuple[Document, ...]


class Loader:
    """One load. Every step notes its problems and goes on as far as it can."""

    def __init__(self, environ: Environment[str, str], insecure: bool) -> None:
        self._environ, self._insecure = environ, insecure
        self.problems = Problems()
        self._files = Files(self.problems)
        self._sections: dict[str, tuple[Entry, Document]] = {}
        self._webhook_names = relations.Names("webhook", ())
        self._target_ids = relations.Names("target", ())

    def load(self, path: Path) -> Loaded:
        """Read, validate, build; raises ConfigError with all problems."""
        with _no_collector():
            return self._load_all(path)

    def _load_all(self, path: Path) -> Loaded:
        self._files.read(path, self._environ)
        documents = self._files.documents
        substitution = self._substitute()
        self._top_level(documents)
        runtime = self._section("runtime", RuntimeSchema())
        page = self._section("page", PageSchema())
        page_node = self._sections["page"][0].node if page else None
        self._section("defaults", DefaultsSchema())
        self._webhook_names = relations.Names("webhook", _texts(documents, "webhooks", "name"))
        self._target_ids = relations.Names("target", _texts(documents, "targets", "id", "name"))
        webhooks = self._webhooks(documents)
        built = self._targets(documents, webhooks, substitution)
        group_names = GroupNames(built)
        maintenance = self._maintenance(documents, group_names)
        self._permissions(built)
        settings = self._runtime(runtime or {}, path)
        self.problems.raise_errors()
        files = (*self._files.names, *substitution.files)
        secrets = tuple(dict.fromkeys(secret for document in documents for secret in nodes.secrets(document.root)))
        config = Config(
            runtime=settings,
            targets=tuple(target for target, _resolved in built),
            webhooks=webhooks,
            maintenance=maintenance,
            page_json=page_json(page or PageSchema().load({}), page_node, group_names),
            warnings=self.problems.warnings(),
            files=tuple(dict.fromkeys(files)),
            fingerprint=self._files.digest.text(),
            secrets=secrets,
        )
        return Loaded(config, tuple(built), tuple(documents))

    def _substitute(self) -> Substitution:
        documents = self._files.documents
        substitution = Substitution(self._environ, public_variables(documents), self.problems)
        for document in documents:
            substitution.apply(document)
        self.problems.hide(substitution.secrets())
        for name, content in substitution.files.items():
            self._files.digest.note(name, content)
        return substitution

    # --- sections

    def _top_level(self, documents: list[Document]) -> None:
        for document in documents:
            for key, entry in document.root.entries.items():
                if key.startswith("x-"):
                    continue  # a place for anchors
                if key not in SECTIONS:
                    self.problems.error(entry, key, unknown_key(key, list(SECTIONS), _ELSEWHERE))
                elif key in _LISTS or key == "include":
                    continue
                elif key in self._sections:
                    first = self._sections[key][0]
                    self.problems.error(
                        entry,
                        key,
                        f"the section stands twice, first at {first.file}:{first.line}: it may stand in one file only",
                    )
                else:
                    self._sections[key] = (entry, document)

    def _section(self, name: str, schema: Strict) -> Any:
        """The values of a section that stands once; None if it is missing or wrong."""
        if name not in self._sections:
            return None
        entry = self._sections[name][0]
        return self._load(schema, entry.node, name, "")

    def _load(self, schema: Strict, node: nodes.Node, path: str, below: str) -> Any:
        if not isinstance(node, Mapping):
            if isinstance(node, Scalar) and node.value is None:
                what = "is empty: expected a mapping of settings, or remove the key"
            else:
                what = f"expected a mapping, found {'a list' if isinstance(node, Sequence) else 'a single value'}"
            self.problems.error(node, path, what)
            return None
        try:
            return schema.load(nodes.data(node))
        except ValidationError as exc:
            self.problems.tree(exc.messages, node, path, below)
            return None

    def _items(self, documents: list[Document], name: str) -> list[tuple[nodes.Node, str]]:
        """The items of a list that appends over all files, each with its path in its own file."""
        items: list[tuple[nodes.Node, str]] = []
        for document in documents:
            entry = document.root.entries.get(name)
            if entry is None:
                continue
            if not isinstance(entry.node, Sequence):
                empty = isinstance(entry.node, Scalar) and entry.node.value is None
                how = ", or remove the key" if empty else ""
                what = found(nodes.data(entry.node))
                self.problems.error(entry, name, f"expected a list, found {what}: begin each item with `- `{how}")
                continue
            items += [(item, join(name, index)) for index, item in enumerate(entry.node.items)]
        return items

    # --- lists

    def _targets(
        self, documents: list[Document], webhooks: tuple[WebhookEndpoint, ...], substitution: Substitution
    ) -> list[tuple[ResolvedTarget, Resolved]]:
        entry = self._sections.get("defaults")
        defaults = entry[0].node if entry is not None and isinstance(entry[0].node, Mapping) else None
        default_names = tuple(webhook.name for webhook in webhooks if webhook.default)
        inheritance = Inheritance(tuple(sorted(substitution.webhook_only())), substitution.inherited())
        builder = TargetBuilder(defaults, default_names, inheritance, self.problems)
        items = self._items(documents, "targets")
        for position, (node, path) in enumerate(items):
            if isinstance(node, Mapping):
                builder.add(node, path, position)
            else:
                self.problems.error(node, path, "expected a mapping with name, type and its settings")
        if not items and documents and not self.problems:
            self.problems.warning(documents[0].root, "targets", "there are no targets: nothing is checked")
        relations.check_ids(builder.built, self.problems)
        relations.check_references(builder.built, self._webhook_names, self._target_ids, self.problems)
        relations.check_cycles(builder.built, self.problems)
        lints = Lints(self.problems)
        for target, resolved in builder.built:
            if target.retry_interval_s > target.interval_s:
                _retry_problem(target, resolved, self.problems)
            lints.target(target, resolved)
        return builder.built

    def _webhooks(self, documents: list[Document]) -> tuple[WebhookEndpoint, ...]:
        endpoints: list[WebhookEndpoint] = []
        schema = WebhookSchema()
        seen: dict[str, nodes.Node] = {}
        for node, path in self._items(documents, "webhooks"):
            values = self._load(schema, node, path, "")
            if values is None:
                continue
            name = values["name"]
            if name in seen:
                first = seen[name]
                self.problems.error(
                    find(node, "name") or node,
                    join(path, "name"),
                    f'the webhook "{name}" stands twice, first at {first.file}:{first.line}',
                )
            seen.setdefault(name, node)
            endpoints.append(endpoint(values, node, path, self.problems))
        return tuple(endpoints)

    def _maintenance(self, documents: list[Document], group_names: GroupNames) -> tuple[MaintenanceWindow, ...]:
        windows = []
        schema = MaintenanceSchema()
        groups = relations.Names("group", _texts(documents, "targets", "group"))
        if "page" in self._sections:
            groups.doubt(find(self._sections["page"][0].node, "groups"), "page.groups", self.problems)
        for node, path in self._items(documents, "maintenance"):
            values = self._load(schema, node, path, "")
            if values is None:
                continue
            for key, known in (("targets", self._target_ids), ("groups", groups)):
                known.check(values[key], find(node, key) or node, join(path, key), self.problems)
            duration = values.pop("duration", None)
            values["groups"] = group_names.shown(values["groups"])
            windows.append(MaintenanceWindow(**values, duration_s=duration))
        return tuple(windows)

    # --- the rest

    def _permissions(self, built: list[tuple[ResolvedTarget, Resolved]]) -> None:
        has_commands = any(resolved.kind.runs_programs for _target, resolved in built)
        check_permissions(self._files, has_commands, self._insecure, self.problems)

    def _runtime(self, values: dict[str, Any], path: Path) -> RuntimeSettings:
        entry = self._sections.get("runtime")
        node = entry[0].node if entry else None
        if "data_dir" in values:
            data_dir = absolute(values["data_dir"], find(node, "dataDir") or Scalar(None, str(path), 1, 1))
        elif self._environ.get("STATE_DIRECTORY"):
            data_dir = self._environ["STATE_DIRECTORY"].split(":")[0]
        else:
            first = Path(self._files.names[0]) if self._files.names else path
            data_dir = str(first.absolute().parent / "data")
        settings = RuntimeSettings(
            data_dir=data_dir,
            max_concurrent_checks=values.get("max_concurrent_checks", 20),
            metrics_listen=values.get("metrics_listen", "127.0.0.1:9464"),
            heartbeat_url=values.get("heartbeat_url"),
        )
        self._descriptors(settings.max_concurrent_checks, find(node, "maxConcurrentChecks"))
        return replace(settings, retention=values["retention"]) if "retention" in values else settings

    def _descriptors(self, workers: int, node: nodes.Node | None) -> None:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        needed = workers * _DESCRIPTORS_A_WORKER + _DESCRIPTORS_BESIDES
        if hard != resource.RLIM_INFINITY and needed > hard:
            most = max((hard - _DESCRIPTORS_BESIDES) // _DESCRIPTORS_A_WORKER, 1)
            at = node or Scalar(None, self._files.names[0] if self._files.names else "", 1, 1)
            self.problems.error(
                at,
                "runtime.maxConcurrentChecks",
                f"{workers} workers need {needed} file descriptors, and the limit is {hard}: "
                f"at most {most}, or raise the limit (LimitNOFILE=, ulimit -n)",
            )


def _texts(documents: list[Document], section: str, *keys: str) -> list[str]:
    """What the items of a list say under the first of the keys that they have, right or wrong otherwise: a name stays
    known when something else about it is wrong. A name in place of an id is made one."""
    texts = []
    for document in documents:
        listed = find(document.root, section)
        for item in listed.items if isinstance(listed, Sequence) else ():
            key = next((key for key in keys if find(item, key) is not None), None)
            node = find(item, key) if key is not None else None
            if isinstance(node, Scalar) and isinstance(node.value, str):
                texts.append(str(node.value) if key == keys[0] else slug(str(nodes.shown(node))))
    return list(dict.fromkeys(texts))


@contextmanager
def _no_collector() -> Iterator[None]:
    """Hundreds of thousands of nodes live to the end: walking them again and again is a third of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_ELSEWHERE = {
    "endpoints": "write targets:",
    "alerting": "write webhooks:",
    "alerts": "write webhooks:",
    "retention": "write it under runtime:",
    "dataDir": "write it under runtime:",
    "maxConcurrentChecks": "write it under runtime:",
    "metricsListen": "write it under runtime:",
    "interval": "write it under defaults:, or at a target",
    "timeout": "write it under defaults:, or at a target",
    "title": "write it under page:",
    **dict.fromkeys(TARGET_TYPES, "write it under defaults:, or at a target"),
}


def _retry_problem(target: ResolvedTarget, resolved: Resolved, problems: Problems) -> None:
    entry = resolved.tree.entries["retryInterval"]
    path = "defaults.retryInterval" if entry.origin == "defaults" else join(resolved.path, "retryInterval")
    problems.error(
        entry.node,
        path,
        f"{duration_text(target.retry_interval_s)} is longer than the interval {duration_text(target.interval_s)}"
        + (f' of the target "{target.id}"' if entry.origin == "defaults" else "")
        + ": expected at most the interval",
    )
