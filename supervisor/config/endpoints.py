"""The values of a webhook -> model.WebhookEndpoint."""

from __future__ import annotations

import json
from typing import Any

from supervisor.config import nodes
from supervisor.config.nodes import Node, find, join
from supervisor.config.problems import Problems
from supervisor.config.receivers import HOW_TO_MAKE_ONE, shape_of
from supervisor.model import WebhookEndpoint
from supervisor.webhook.payload import check_template


def endpoint(values: dict[str, Any], node: Node, path: str, problems: Problems) -> WebhookEndpoint:
    """One receiver; notes what can only be judged with everything in place."""
    shape = shape_of(values)
    template = json.dumps(values["template"], ensure_ascii=False) if shape == "template" else None
    if template is not None:
        try:
            check_template(template)
        except ValueError as exc:
            problems.error(find(node, "template") or node, join(path, "template"), str(exc))
    if shape == "checkvisor" and not values["secrets"]:
        message = f"there is no signing secret: the receiver can't tell our events from others'; {HOW_TO_MAKE_ONE}"
        problems.warning(node, join(path, "secrets"), message)
    return WebhookEndpoint(
        name=values["name"],
        url=values.get("url", ""),
        secrets=values["secrets"],
        events=_events(values, node, path, problems),
        default=values["default"],
        enabled=values["enabled"],
        metadata_json=json.dumps(values["metadata"], ensure_ascii=False),
        headers=values["headers"],
        timeout_s=values["timeout"],
        retries_s=values["retries"],
        permanent_retries_s=values["permanent_retries"],
        max_age_s=values["max_age"],
        max_pending=values["max_pending"],
        allow_private=values["allow_private"],
        reminder_interval_s=values.get("reminder_interval"),
        format=shape,
        template_json=template,
        apprise_url=values.get("apprise"),
        mask=nodes.secrets(node),
    )


def _events(values: dict[str, Any], node: Node, path: str, problems: Problems) -> tuple[str, ...]:
    """The events as written; who sets `reminderInterval` wants reminders."""
    events: tuple[str, ...] = values["events"]
    if values.get("reminder_interval") is None:
        if "reminder" in events:
            problems.warning(
                find(node, "events") or node, join(path, "events"), "no reminder is ever sent: set reminderInterval"
            )
        return events
    return events if "reminder" in events else (*events, "reminder")
