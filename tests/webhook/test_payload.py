"""What an event says: every field of every type, templates, and the lines for people."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.model import EventDraft, EventType, Metric, Timings
from supervisor.webhook.payload import (
    Envelope,
    UnreadableEventError,
    check_template,
    error_of,
    headline,
    native_body,
    parse,
    rfc3339,
    target_data,
    template_body,
)
from tests.make import make_failure, make_result, make_target
from tests.webhook.rig import draft_of

NOW = 1_700_000_000_123


def body_of(kind: EventType, metadata: str = "{}", **fields: Any) -> dict[str, Any]:
    target = make_target(id="shop", name="Shop API", group="Shop")
    draft = draft_of(kind, "shop", NOW, **fields)
    envelope = Envelope("shop", "shop:7", 7, kind, "uuid", NOW, (target_data(target, draft),), error_of(draft))
    return json.loads(native_body(parse(envelope.json().encode()), metadata))


def test_a_down_event_has_every_field_of_the_contract() -> None:
    """The envelope, and data[0] with the result and what belongs to `down`."""
    body = body_of("target.down", '{"env": "prod"}')
    assert set(body) == {
        "success", "type", "id", "eventId", "seq", "source", "timestamp", "data", "metadata", "error",
    }  # fmt: skip
    assert (body["success"], body["type"], body["id"], body["eventId"], body["seq"]) == (
        False, "target.down", "shop", "shop:7", 7,
    )  # fmt: skip
    assert body["timestamp"] == "2023-11-14T22:13:20.123Z"
    assert body["metadata"] == {"env": "prod"}
    assert body["error"] == "status 503, expected 200"
    (data,) = body["data"]
    assert data["targetId"] == "shop"
    assert (data["name"], data["group"], data["checkType"]) == ("Shop API", "Shop", "http")
    assert data["previousState"] == "failing"
    assert data["since"] == "2023-11-14T22:12:20.123Z"
    assert data["consecutiveFailures"] == 3
    assert data["failure"] == {
        "kind": "mismatch", "phase": "status", "path": "expect.status", "message": "status 503, expected 200",
    }  # fmt: skip


def test_an_up_event_says_how_long_it_was_down() -> None:
    """`up` is a success without `error`."""
    body = body_of("target.up")
    assert body["success"] is True
    assert "error" not in body
    assert body["metadata"] == {}
    assert body["data"][0]["downForMs"] == 90_000
    assert body["data"][0]["downSince"] == rfc3339(NOW - 90_000)


@pytest.mark.parametrize("matched", [True, False])
def test_a_result_event_is_a_success_exactly_when_it_matched(matched: bool) -> None:
    """`success` = matched, with the failure's message as `error` otherwise."""
    body = body_of("target.result", matched=matched)
    assert body["success"] is matched
    assert ("error" in body) is not matched


def test_a_reminder_counts_and_is_no_success() -> None:
    """As `down`, with its number."""
    body = body_of("target.reminder", reminder=3)
    assert body["success"] is False
    assert body["data"][0]["reminder"] == 3


def test_a_closed_event_needs_no_result() -> None:
    """Pausing a target that is down: name and reason."""
    target = make_target(id="shop", name="Shop API")
    data = target_data(target, EventDraft("target.closed", NOW, reason="paused"))
    assert data == {"targetId": "shop", "name": "Shop API", "group": "", "checkType": "http", "reason": "paused"}


def test_timings_metrics_and_warnings_are_in_the_result() -> None:
    """camelCase names; what is not there is left out; NaN is null."""
    metrics = (Metric("load", float("nan"), "s", "1", maximum=2.0),)
    result = make_result(
        timings=Timings(dns=1.23456, first_byte=2.0), metrics=metrics, warning=make_failure(path="warn.x")
    )
    data = target_data(make_target(), EventDraft("target.degraded", NOW, result))
    body = json.loads(Envelope("t", "t:1", 1, "target.degraded", "u", NOW, (data,)).json())
    assert body["data"][0]["timings"] == {"dns": 1.235, "firstByte": 2.0}
    assert body["data"][0]["metrics"] == [{"label": "load", "value": None, "unit": "s", "warning": "1", "maximum": 2.0}]
    assert body["data"][0]["warning"]["path"] == "warn.x"


@pytest.mark.parametrize("stored", [b"", b"{", b"[1]", b"\xff\xfe", b'"text"', b"[" * 100_000], ids=range(6))
def test_bytes_that_are_no_envelope_are_unreadable(stored: bytes) -> None:
    """Never half an event."""
    with pytest.raises(UnreadableEventError):
        parse(stored)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.text())
def test_any_values_give_the_same_valid_bytes_each_time(metadata: dict[str, Any], message: str) -> None:
    """Identical over attempts; valid UTF-8 JSON with sorted keys; the template never breaks."""
    envelope = Envelope("t", "t:1", 1, "target.down", "u", NOW, ({"name": message},), message or "x").json().encode()
    encoded = json.dumps(metadata)
    first = native_body(parse(envelope), encoded)
    assert first == native_body(parse(envelope), encoded)
    assert json.loads(first)["metadata"] == json.loads(json.dumps(metadata))
    template = json.dumps({"a": "x {{error}} y", "b": "{{data.name}}", "c": "{{metadata}}"})
    filled = json.loads(template_body(template, parse(envelope), encoded))
    assert filled["a"] == f"x {message or 'x'} y"
    assert filled["b"] == message


def test_values_with_placeholders_are_not_filled_in_again() -> None:
    """A message that looks like a placeholder is text."""
    envelope = parse(Envelope("t", "t:1", 1, "target.down", "u", NOW, ({},), "{{source}}").json().encode())
    assert json.loads(template_body('{"a": "<{{error}}>"}', envelope, "{}")) == {"a": "<{{source}}>"}


def test_whole_numbers_within_a_text_have_no_point() -> None:
    """For people; a placeholder alone is the number itself, and metadata stays as the user wrote it."""
    data = {"durationMs": 107.0, "metrics": [{"value": 2.0}, {"value": 0.25}], "n": 3}
    envelope = parse(Envelope("t", "t:1", 1, "target.up", "u", NOW, (data,)).json().encode())
    text = "{{data.durationMs}} ms, {{data.metrics[0].value}} of {{data.metrics[1].value}}, {{data.n}}, {{metadata.v}}"
    filled = json.loads(template_body(json.dumps({"a": text, "b": "{{data.durationMs}}"}), envelope, '{"v": 1.0}'))
    assert filled == {"a": "107 ms, 2 of 0.25, 3, 1.0", "b": 107.0}


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("{", "the template is not JSON"),
        ('{"a": "{{nme}}"}', "is unknown; placeholders begin with one of"),
        ('{"a": ["{{ data. }}"]}', "can't be read"),
        ('{"a": "{{error"}', "can't be read"),
    ],
)
def test_a_template_that_can_not_work_is_refused_in_words(template: str, told: str) -> None:
    """What the loader says."""
    with pytest.raises(ValueError) as raised:
        check_template(template)
    assert told in str(raised.value)


def test_a_template_that_works_is_accepted() -> None:
    """All the names, with and without blanks, paths and indices."""
    check_template('{"a": "{{ data[0].failure.message }} {{title}} {{text}}", "b": [1, "{{metadata.x-y}}", null]}')


KINDS: list[tuple[EventType, str, str]] = [
    ("target.down", "Shop API is down", "failure"),
    ("target.up", "Shop API is up again", "success"),
    ("target.closed", "Shop API: incident closed", "info"),
    ("target.degraded", "Shop API is degraded", "warning"),
    ("target.recovered", "Shop API is no longer degraded", "success"),
    ("target.result", "Shop API: check matched", "info"),
    ("target.reminder", "Shop API is still down", "failure"),
]


@pytest.mark.parametrize(("kind", "title", "severity"), KINDS, ids=[kind for kind, _, _ in KINDS])
def test_people_get_a_title_a_text_and_a_severity(kind: EventType, title: str, severity: str) -> None:
    """For Apprise and for templates."""
    body = body_of(kind, reason="paused" if kind == "target.closed" else None)
    told = headline(body)
    assert (told[0], told[2]) == (title, severity)
    assert "Group: Shop" in told[1]
    if kind == "target.down":
        assert told[1].startswith("status 503, expected 200\n")
    if kind == "target.up":
        assert "Down for 1 m 30 s" in told[1]
