"""Resolved trees -> model.ResolvedTarget: typed values, and what can only be judged once everything is in place."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import Mapping as Dict
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from marshmallow import ValidationError
from slugify import slugify

from supervisor.checkers.command.settings import CommandSettings
from supervisor.checkers.http.settings import BasicAuth, HttpSettings, TlsSettings
from supervisor.config import masking, nodes
from supervisor.config.fields import found
from supervisor.config.nodes import Mapping, Scalar, find
from supervisor.config.problems import AtKey, Problems
from supervisor.config.resolve import (
    Resolved,
    absolute,
    duration_text,
    made,
    resolve,
    with_absolute_paths,
    with_built_ins,
)
from supervisor.config.schema import target_schema
from supervisor.config.types import TYPE_SCHEMAS
from supervisor.config.words import did_you_mean
from supervisor.expect.spec import CommandExpect, HttpExpect
from supervisor.model import ResolvedTarget

_RETRY_S = 30.0


def slug(name: str) -> str:
    """The id made from a name."""
    return str(slugify(name, max_length=64)).strip("-")


class TargetBuilder:
    """Builds the targets of one configuration. `default_webhooks` is what a target without `notify` tells."""

    def __init__(
        self, defaults: Mapping | None, default_webhooks: tuple[str, ...], drop_env: tuple[str, ...], problems: Problems
    ) -> None:
        self._defaults, self._webhooks, self._drop_env, self._problems = defaults, default_webhooks, drop_env, problems
        self.built: list[tuple[ResolvedTarget, Resolved]] = []

    def add(self, node: Mapping, path: str, position: int) -> None:
        """Build one target, or note what is wrong with it."""
        kind = self._kind(node, path)
        tree = with_absolute_paths(resolve(node, self._defaults, kind), kind)
        schema = target_schema(kind)
        try:
            values = schema.load(nodes.data(tree))
        except ValidationError as exc:
            messages = exc.messages
            if isinstance(messages, dict):
                messages.pop("type", None)
            self._problems.tree(messages, tree, path)
            return
        tree = self._identity(tree, values, path)
        if "id" not in values:
            return
        if "retry_interval" not in values:
            values["retry_interval"] = min(values["interval"], _RETRY_S)
            tree = _with(tree, "retryInterval", duration_text(values["retry_interval"]))
        if "notify" not in values:
            values["notify"] = self._webhooks
            tree = _with(tree, "notify", list(self._webhooks))
        resolved = Resolved(with_absolute_paths(with_built_ins(tree, schema), kind), kind, path)
        settings = self._settings(kind, values, tree, path)
        if settings is not None:
            self.built.append((self._target(values, kind, settings, resolved, position), resolved))

    def _kind(self, node: Mapping, path: str) -> str:
        written = find(node, "type")
        value = written.value if isinstance(written, Scalar) else None
        if isinstance(value, str) and value in TYPE_SCHEMAS:
            return str(value)
        names = ", ".join(TYPE_SCHEMAS)
        if "type" not in node.entries:
            self._problems.error(node, f"{path}.type", f"is missing: expected one of {names}")
        else:
            hint = did_you_mean(value, TYPE_SCHEMAS)
            shown = found(nodes.data(node.entries["type"].node))
            self._problems.error(
                node.entries["type"].node,
                f"{path}.type",
                f"expected one of {names}, found {shown}{': ' if hint else ''}{hint}",
            )
        sections = [name for name in TYPE_SCHEMAS if name in node.entries]
        return sections[0] if sections else "http"

    def _identity(self, tree: Mapping, values: dict[str, Any], path: str) -> Mapping:
        """Id from name and name from id."""
        if "id" not in values and "name" not in values:
            self._problems.error(tree, f"{path}.name", "is missing: expected a name, or an id")
        elif "id" not in values:
            made_id = slug(values["name"])
            if not made_id:
                at = find(tree, "name") or tree
                self._problems.error(at, f"{path}.name", "no id can be made from this name: give the target an id")
                return tree
            values["id"] = made_id
            return _with(tree, "id", made_id)
        elif "name" not in values:
            values["name"] = values["id"]
            return _with(tree, "name", values["id"])
        return tree

    def _settings(self, kind: str, values: dict[str, Any], tree: Mapping, path: str) -> Any:
        try:
            if kind == "http":
                return http_settings(values)
            return command_settings(values, tree, self._drop_env)
        except ValidationError as exc:
            self._problems.tree(exc.messages, tree, path)
            return None

    def _target(
        self, values: dict[str, Any], kind: str, settings: Any, resolved: Resolved, position: int
    ) -> ResolvedTarget:
        empty = HttpExpect() if kind == "http" else CommandExpect()
        warn = values.get("warn")
        return ResolvedTarget(
            id=values["id"],
            name=values["name"],
            type=kind,
            settings=settings,
            expect=values.get("expect", empty),
            warn=None if warn == empty else warn,
            interval_s=values["interval"],
            timeout_s=values["timeout"],
            retry_interval_s=values["retry_interval"],
            failure_threshold=values["failure_threshold"],
            success_threshold=values["success_threshold"],
            enabled=values["enabled"],
            group=values.get("group", ""),
            labels=tuple(values["labels"].items()),
            notify=tuple(values["notify"]),
            depends_on=tuple(values["depends_on"]),
            secrets=nodes.secrets(resolved.tree),
            summary=masking.summary(resolved.tree, kind),
            config_json=masking.config_json(resolved.tree),
            position=position,
        )


def _with(tree: Mapping, key: str, value: Any) -> Mapping:
    return Mapping({**tree.entries, key: made(value, tree, nodes.BUILT_IN)}, tree.file, tree.line, tree.column)


# --- http ------------------------------------------------------------------------------------------------------------


def http_settings(values: Dict[str, Any]) -> HttpSettings:
    """The settings of an HTTP check; raises ValidationError with paths below the target."""
    written = dict(values["http"])
    body, content_type = _body(written)
    if any(name.lower() == "content-type" for name, _value in written["headers"]):
        content_type = None
    _no_body_rules_with_head(values)
    url, auth = _user_info(written)
    for key in ("body", "json", "form", "url", "auth"):
        written.pop(key, None)
    _load_once(values["http"]["tls"])
    return HttpSettings(url=url, auth=auth, body=body, content_type=content_type, **written)


def _body(written: Dict[str, Any]) -> tuple[bytes | None, str | None]:
    if "json" in written:
        return json.dumps(written["json"], ensure_ascii=False).encode("utf-8"), "application/json"
    if "form" in written:
        return urlencode(written["form"], doseq=True).encode("ascii"), "application/x-www-form-urlencoded"
    body = written.get("body")
    return (None if body is None else body.encode("utf-8")), None


def _no_body_rules_with_head(values: Dict[str, Any]) -> None:
    if values["http"]["method"] != "HEAD":
        return
    errors = {}
    for part in ("expect", "warn"):
        if part in values and values[part].body:
            errors[part] = {"body": [AtKey("an answer to HEAD has no body: remove the rules, or use method GET")]}
    if errors:
        raise ValidationError(errors)


def _user_info(written: Dict[str, Any]) -> tuple[str, Any]:
    """User and password in the URL are basic authentication; they leave the URL here."""
    parts = urlsplit(written["url"])
    auth = written.get("auth")
    if "@" not in parts.netloc:
        return written["url"], auth
    info, _, host = parts.netloc.rpartition("@")
    user, colon, password = info.partition(":")
    given = auth is not None or any(name.lower() == "authorization" for name, _value in written["headers"])
    if given:
        raise ValidationError(
            {"http": {"url": ["the URL holds a user, and auth or the header Authorization is given too: keep one"]}}
        )
    url = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return url, BasicAuth(unquote(user), unquote(password)) if colon else None


def _load_once(tls: TlsSettings) -> None:
    """Load the files once, to prove that they can be."""
    try:
        if tls.ca_file:
            _load_authorities(tls.ca_file)
    except (OSError, ssl.SSLError) as exc:
        message = _file_problem(tls.ca_file, exc, "certificates in PEM form")
        raise ValidationError({"http": {"tls": {"caFile": [message]}}}) from exc
    try:
        if tls.cert_file:
            _load_client(tls.cert_file, tls.key_file)
    except (OSError, ssl.SSLError) as exc:
        expected = "a certificate and the key that fits it, in PEM form, without a password"
        message = _file_problem(exc.filename or tls.cert_file, exc, expected)
        raise ValidationError({"http": {"tls": {"certFile": [message]}}}) from exc


@functools.lru_cache(64)
def _load_authorities(path: str) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)


@functools.lru_cache(64)
def _load_client(cert_file: str, key_file: str | None) -> None:
    # without a callback OpenSSL would ask on the terminal for the password of an encrypted key
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password=lambda: "")


def _file_problem(path: Any, exc: OSError, expected: str) -> str:
    if isinstance(exc, ssl.SSLError):
        return f"{path} does not hold {expected}"
    return f"{path} can't be read: {exc.strerror or exc}"


# --- command ---------------------------------------------------------------------------------------------------------


def command_settings(values: Dict[str, Any], tree: Mapping, drop_env: tuple[str, ...]) -> CommandSettings:
    """The settings of a command check; raises ValidationError with paths below the target."""
    written = dict(values["command"])
    written["cwd"] = absolute(written["cwd"], tree)
    written["env"] = tuple(written["env"].items())
    if written.get("nagios") is not None:
        message = AtKey("nagios judges the exit code itself: remove exitCode, or nagios")
        errors = {
            part: {"exitCode": [message]}
            for part in ("expect", "warn")
            if part in values and values[part].exit_code is not None
        }
        if errors:
            raise ValidationError(errors)
    return CommandSettings(**written, drop_env=drop_env)


def program_exists(settings: CommandSettings) -> bool:
    """Whether `exec` as a whole is a file, seen from the working directory."""
    return "/" in settings.exec and Path(settings.cwd, settings.exec).exists()
