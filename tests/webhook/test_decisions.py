"""The pure decisions: filters, retry steps, breaker, signatures, origins."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from supervisor.model import EventType, WebhookEndpoint
from supervisor.webhook.breaker import Breaker
from supervisor.webhook.exchange import origin
from supervisor.webhook.filters import reminder_interval_ms, wanting
from supervisor.webhook.retries import Answer, kind_of_status, next_delay_s
from supervisor.webhook.signature import secret_key, signatures
from tests.make import make_target
from tests.webhook.rig import SECRET, endpoint

# --- filters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "kind", "wanted"),
    [
        (("down", "up"), "target.down", True),
        (("down", "up"), "target.up", True),
        (("down", "up"), "target.closed", True),
        (("down",), "target.closed", False),
        (("closed",), "target.closed", True),
        (("down", "up"), "target.degraded", False),
        (("degraded",), "target.degraded", True),
        (("recovered",), "target.recovered", True),
        (("down", "up"), "target.result", False),
        (("result",), "target.result", True),
        (("down", "up"), "target.reminder", False),
    ],
)
def test_an_endpoint_gets_what_it_names(events: tuple[str, ...], kind: EventType, wanted: bool) -> None:
    """`closed` goes with `up`; results and supervisor events are opt-in."""
    target = make_target(notify=("ops",))
    assert bool(wanting([endpoint("ops", "http://x/", events=events)], target, kind)) is wanted


def test_only_the_targets_own_endpoints_are_asked() -> None:
    """`notify` of the target, enabled endpoints, in file order."""
    every = [endpoint("a", "http://x/"), endpoint("b", "http://x/", enabled=False), endpoint("c", "http://x/")]
    target = make_target(notify=("c", "b", "a"))
    assert wanting(every, target, "target.down") == ("a", "c")
    assert wanting(every, make_target(notify=()), "target.down") == ()


def test_supervisor_events_go_to_whoever_names_them() -> None:
    """Whatever the targets notify."""
    every = [endpoint("a", "http://x/", events=("started", "down")), endpoint("b", "http://x/")]
    assert wanting(every, None, "supervisor.started") == ("a",)
    assert wanting(every, None, "supervisor.stopped") == ()


def test_each_endpoint_is_reminded_at_its_own_interval() -> None:
    """The state machine reminds at the shortest interval; the others leave reminders out."""
    every = [
        endpoint("fast", "http://x/", reminder_interval_s=600.0),
        endpoint("slow", "http://x/", reminder_interval_s=1500.0),
        endpoint("never", "http://x/"),
    ]
    target = make_target(notify=("fast", "slow", "never"))
    assert reminder_interval_ms(every, target) == 600_000
    heard = [wanting(every, target, "target.reminder", number) for number in range(1, 6)]
    assert heard == [("fast",), ("fast",), ("fast", "slow"), ("fast",), ("fast", "slow")]
    assert reminder_interval_ms(every[2:], target) is None


# --- retries ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "counts"),
    [
        (200, "delivered", False), (204, "delivered", False), (299, "delivered", False), (300, "permanent", False),
        (302, "permanent", False), (400, "permanent", False), (401, "permanent", False), (404, "permanent", False),
        (408, "retryable", True), (410, "gone", False), (425, "retryable", True), (429, "retryable", True),
        (500, "retryable", True), (503, "retryable", True), (599, "retryable", True), (999, "retryable", True),
    ],
)  # fmt: skip
def test_what_a_status_means(status: int, kind: str, counts: bool) -> None:
    """Kinds of webhooks.md, and what counts towards the breaker."""
    assert kind_of_status(status) == (kind, counts)


@given(st.floats(0, 1, exclude_max=True))
def test_the_steps_with_their_jitter(chance: float) -> None:
    """8 retryable attempts and 3 permanent ones, each within 20 % of its step."""
    one = endpoint("ops", "http://x/")
    for kind, steps in (("retryable", one.retries_s), ("permanent", one.permanent_retries_s)):
        answer = Answer(kind, "no")  # type: ignore[arg-type]
        for attempts in range(1, len(steps)):
            delay = next_delay_s(one, attempts, answer, chance)
            assert delay is not None
            assert steps[attempts] * 0.8 <= delay <= steps[attempts] * 1.2
        assert next_delay_s(one, len(steps), answer, chance) is None


# --- the breaker -----------------------------------------------------------------------------------------------------

DOWN = Answer("retryable", "connection refused", counts=True)
FINE = Answer("delivered", "HTTP 200", 200, counts=False)
REFUSED = Answer("permanent", "HTTP 403", 403, counts=False)


def told(breaker: Breaker, answer: Answer, now: float) -> bool:
    return breaker.told(answer, now, int(now * 1000), 0.5)


def test_five_failures_in_a_row_open_it() -> None:
    """Four and a success do not."""
    breaker = Breaker()
    for answer in (DOWN, DOWN, DOWN, DOWN, FINE, DOWN, DOWN, DOWN, DOWN):
        assert told(breaker, answer, 0.0)
    assert breaker.permission(0.0) == "send"
    assert told(breaker, DOWN, 0.0)
    assert breaker.permission(4.9) == "wait"
    assert breaker.permission(5.0) == "probe"


def test_probes_double_their_interval_up_to_five_minutes_and_spend_nothing() -> None:
    """One at a time; the first success closes it."""
    breaker, now, waits = Breaker(), 0.0, []
    for _ in range(5):
        told(breaker, DOWN, now)
    for _ in range(9):
        waits.append(breaker.open_until - now)
        now = breaker.open_until
        assert breaker.permission(now) == "probe"
        breaker.probing = True
        assert breaker.permission(now) == "wait"
        assert not told(breaker, DOWN, now)
        breaker.probing = False
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300, 300]
    told(breaker, FINE, now)
    assert breaker.permission(now) == "send"
    assert breaker.failures == 0


def test_an_answer_that_only_refuses_closes_it_too() -> None:
    """A receiver that says 403 is not down, and its events must not wait behind a breaker for ever."""
    breaker = Breaker()
    for _ in range(5):
        told(breaker, DOWN, 0.0)
    assert told(breaker, REFUSED, 10.0)
    assert breaker.state == "closed"


def test_refusals_do_not_open_it() -> None:
    """3xx and 4xx do not count."""
    breaker = Breaker()
    for _ in range(20):
        told(breaker, REFUSED, 0.0)
    assert breaker.state == "closed"


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_opens_it_at_once(status: int) -> None:
    """Nothing before the time that was asked for."""
    breaker = Breaker()
    told(breaker, Answer("retryable", "slow down", status, 600.0), 0.0)
    assert breaker.permission(599.0) == "wait"
    assert breaker.permission(720.0) == "probe"


def test_retry_after_of_another_status_does_not_open_it() -> None:
    """502 with Retry-After delays its event alone."""
    breaker = Breaker()
    told(breaker, Answer("retryable", "bad gateway", 502, 600.0), 0.0)
    assert breaker.state == "closed"


# --- signatures ------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.integers(24, 64).flatmap(lambda size: st.binary(min_size=size, max_size=size)))
def test_signatures_verify_with_the_reference_package(body: bytes, key: bytes) -> None:
    """Any body, any key of the allowed size."""
    secret = "whsec_" + base64.b64encode(key).decode()
    now = datetime.now(UTC)
    ours = signatures([secret], "id:1", int(now.timestamp()), body)
    if body.decode("utf-8", "replace").encode() == body:
        assert Webhook(secret).sign("id:1", now, body.decode()) == ours


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "secret",
        "whsec_",
        "whsec_short",
        "whsec_!!!!",
        "whsec_" + "A" * 31,
        "whsec_" + "QUFB" * 7,
        "whsec_" + "QUFB" * 22,
    ],
)
def test_a_secret_that_is_none_is_refused_without_being_shown(secret: str) -> None:
    """`whsec_` and base64 of 24 to 64 bytes; the sentence shows how to make one."""
    with pytest.raises(ValueError, match="openssl rand -base64 32") as raised:
        secret_key(secret)
    assert len(secret) < 12 or secret not in str(raised.value)


def test_a_good_secret_is_accepted() -> None:
    """32 bytes."""
    assert len(secret_key(SECRET)) == 32


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pw@hooks.example.org/T0/B0/secret?x=1", "https://hooks.example.org"),
        ("http://127.0.0.1:8080/x", "http://127.0.0.1:8080"),
        ("http://[::1]:81/x", "http://[::1]:81"),
        ("http://[::1", ""),
    ],
)
def test_only_the_origin_of_a_url_is_shown(url: str, shown: str) -> None:
    """Webhook paths are secrets."""
    assert origin(url) == shown


def test_an_endpoints_repr_holds_no_secret() -> None:
    """URLs, secrets and headers do not get into logs by accident."""
    one = WebhookEndpoint("ops", "https://x/token", secrets=(SECRET,), headers=(("A", "b-value"),))
    assert "token" not in repr(one)
    assert "whsec" not in repr(one)
    assert "b-value" not in repr(one)
