"""`checkvisor events ...`: what the webhook queue holds (read from the database), and requests to the supervisor."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from supervisor.commands import options, output
from supervisor.errors import CheckvisorError

if TYPE_CHECKING:
    from supervisor.store.read.journal import JournalRow, OutcomeRow

FAILED = CheckvisorError.exit_status
_EVENT_ID = re.compile(r"(.+):([1-9][0-9]{0,17})", re.DOTALL)
_COLOURS = {"delivered": "green", "waiting": "yellow"}
_DEADLINE_S = 10.0

endpoint_option = click.option("--endpoint", type=options.ID, metavar="NAME", help="Only this webhook.")


@click.group(epilog="Example: checkvisor events list")
def events() -> None:
    """See and steer the webhook queue."""


# --- from the database -----------------------------------------------------------------------------------------------


@events.command(
    "list", short_help="List the latest events.", epilog="Example: checkvisor events list shop-api --limit 5"
)
@click.argument("stream", required=False, type=options.ID, metavar="[ID]")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, help="At most so many.")
@options.config
@options.as_json
def list_events(stream: str | None, limit: int, path: Path | None, as_json: bool) -> None:
    """List the latest events and what became of them.

    ID is a target, or _supervisor for events about the supervisor itself. Delivered events are kept as long as
    runtime.retention.events says.
    """
    from supervisor.store.read.journal import journal

    with _reading(path) as reading:
        rows = journal(reading.connection, limit=limit, stream=stream)
    if as_json:
        output.document({"items": [_as_data(row) for row in rows], "nextCursor": None})
    elif not rows:
        output.line(f"no events{'' if stream is None else f' of {output.shown(stream)}'}")
    else:
        _print_rows(rows)


@events.command(short_help="Show one event.", epilog="Example: checkvisor events show shop-api:17")
@click.argument("event_id", type=options.ID, metavar="EVENT_ID")
@options.config
@options.as_json
def show(event_id: str, path: Path | None, as_json: bool) -> int:
    """Show one event: its outcome at each webhook, and its body without the webhook's metadata."""
    from supervisor.store.read.journal import one_event

    stream, seq = _parsed(event_id)
    with _reading(path) as reading:
        row = one_event(reading.connection, stream, seq)
    if row is None:
        output.sentence(f"checkvisor: there is no event {event_id}: it never existed, or retention has deleted it")
        return FAILED
    if as_json:
        output.document(_as_data(row) | {"body": _body(row)})
        return 0
    output.line(f"{output.shown(event_id)}  {row.type}  {_time(row.created_at)}")
    for outcome in row.outcomes:
        output.line(f"  {output.shown(outcome.endpoint)}: {_told(outcome)}")
    output.document(_body(row))
    return 0


def _reading(path: Path | None) -> Any:
    from supervisor.commands import places
    from supervisor.store.connect import Reader

    return Reader(places.database(options.config_path(path), os.environ), deadline_s=_DEADLINE_S).read()


def _parsed(event_id: str) -> tuple[str, int]:
    found = _EVENT_ID.fullmatch(event_id)
    if found is None:
        raise options.WrongUsage(
            f"{event_id!r} is no event id; one looks like shop-api:17 (see: checkvisor events list)"
        )
    return found[1], int(found[2])


def _body(row: JournalRow) -> Any:
    try:
        return json.loads(row.body)
    except ValueError:
        return row.body.decode("utf-8", "backslashreplace")


def _time(timestamp_ms: int) -> str:
    from supervisor.webhook.payload import rfc3339

    return rfc3339(timestamp_ms)


def _as_data(row: JournalRow) -> dict[str, Any]:
    outcomes = [
        {"endpoint": one.endpoint, "outcome": one.outcome}
        | ({} if one.error is None else {"error": one.error})
        | ({} if one.next_attempt_at is None else {"nextAttemptAt": _time(one.next_attempt_at)})
        for one in row.outcomes
    ]
    return {
        "eventId": f"{row.stream}:{row.seq}",
        "id": row.stream,
        "seq": row.seq,
        "type": row.type,
        "timestamp": _time(row.created_at),
        "endpoints": outcomes,
    }


def _print_rows(rows: list[JournalRow]) -> None:
    cells = [
        (
            f"{row.stream}:{row.seq}",
            row.type,
            _time(row.created_at),
            ", ".join(f"{one.endpoint}: {one.outcome}" for one in row.outcomes) or "-",
        )
        for row in rows
    ]
    output.table(("EVENT", "TYPE", "TIME", "OUTCOME"), cells)


def _told(outcome: OutcomeRow) -> str:
    text = output.paint(outcome.outcome, _COLOURS.get(outcome.outcome, "red"))
    if outcome.next_attempt_at is not None:
        text += f", next attempt {_time(outcome.next_attempt_at)}"
    return text if not outcome.error else f"{text}: {output.shown(outcome.error)}"


# --- by the supervisor -----------------------------------------------------------------------------------------------


@events.command(
    short_help="Send a sample event to webhooks.", epilog="Example: checkvisor events test shop-api --endpoint ops"
)
@click.argument("target_id", type=options.ID, metavar="ID")
@endpoint_option
@options.config
@options.as_json
def test(target_id: str, endpoint: str | None, path: Path | None, as_json: bool) -> int:
    """Have the running supervisor send a sample event of target ID to its webhooks, and show what they answered."""
    return _attempts({"command": "test", "target": target_id, "endpoint": endpoint}, path, as_json=as_json)


@events.command(short_help="Send an event again.", epilog="Example: checkvisor events redeliver shop-api:17")
@click.argument("event_id", type=options.ID, metavar="EVENT_ID")
@endpoint_option
@options.config
@options.as_json
def redeliver(event_id: str, endpoint: str | None, path: Path | None, as_json: bool) -> int:
    """Have the running supervisor send an event again: the same id and bytes, outside the queue."""
    _parsed(event_id)
    return _attempts({"command": "redeliver", "eventId": event_id, "endpoint": endpoint}, path, as_json=as_json)


@events.command(
    short_help="Give up an event that waits.", epilog="Example: checkvisor events skip shop-api:17 --endpoint ops"
)
@click.argument("event_id", type=options.ID, metavar="EVENT_ID")
@endpoint_option
@options.config
@options.as_json
def skip(event_id: str, endpoint: str | None, path: Path | None, as_json: bool) -> None:
    """Have the running supervisor give up an event that still waits; it becomes a dead letter."""
    _parsed(event_id)
    skipped = _ask({"command": "skip", "eventId": event_id, "endpoint": endpoint}, path)
    names = [str(name) for name in skipped] if isinstance(skipped, list) else []
    if as_json:
        output.document(names)
    else:
        output.line(output.shown(f"{event_id} skipped for {', '.join(names)}"))


def _ask(request: dict[str, Any], path: Path | None) -> Any:
    from supervisor.commands import client, places

    return client.ask(places.control_socket(options.config_path(path), os.environ), request)


def _attempts(request: dict[str, Any], path: Path | None, *, as_json: bool) -> int:
    result = _ask(request, path)
    attempts = [one for one in result if isinstance(one, dict)] if isinstance(result, list) else []
    if as_json:
        output.document(attempts)
    else:
        for one in attempts:
            good = one.get("delivered") is True
            word = output.paint("delivered" if good else "not delivered", "green" if good else "red")
            output.line(f"{output.shown(str(one.get('endpoint')))}: {word}: {output.shown(str(one.get('detail')))}")
    return 0 if attempts and all(one.get("delivered") is True for one in attempts) else FAILED
