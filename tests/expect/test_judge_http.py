"""The stages of an HTTP verdict: their order, their places, and what is read when."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.expect import judge_http
from supervisor.expect.spec import Compare, Contains, Empty, Equals, Exists, HttpExpect, Match, Not, StatusRange
from supervisor.model import CheckFailure
from tests.expect.support import Answer, certificate, context, css, has, header, http, js

BROKEN = CheckFailure("error", "body", "http.body", "the body ended after 2 of 12 bytes")
OK_BODY = b'{"status":"ok"}'
EVERYTHING = HttpExpect(
    status=(StatusRange(200, 299, "2xx"),),
    max_duration_ms=100,
    headers=(header("X-A", Equals("1")), header("X-B", Exists(True))),
    certificate_min_days_left=7,
    body=(has("ok"), js("$.status", Equals("ok"))),
)


def good(**changes: Any) -> Answer:
    """An answer that satisfies EVERYTHING."""
    fields: dict[str, Any] = {
        "content": OK_BODY, "headers": (("x-a", "1"), ("X-B", "2")), "certificate": certificate(30),
        "headers_ms": 50.0, "duration_ms": 99.0,
    }  # fmt: skip
    return Answer(**(fields | changes))


def test_everything_holds() -> None:
    """All stages pass, the body is read once."""
    answer = good()
    assert http(EVERYTHING, answer, EVERYTHING).failure is None
    assert answer.reads == 1


BAD_STAGES: list[tuple[str, str, dict[str, Any]]] = [
    ("status", "expect.status", {"status": 503}),
    ("duration", "expect.maxDurationMs", {"headers_ms": 101.0, "duration_ms": 101.0}),
    ("headers", "expect.headers.X-A", {"headers": (("x-a", "2"),)}),
    ("headers", "expect.headers.X-B", {"headers": (("x-a", "1"),)}),
    ("certificate", "expect.certificate.minDaysLeft", {"certificate": certificate(6)}),
    ("body", "http.body", {"content": BROKEN}),
    ("body", "expect.body[0].contains", {"content": b"{}"}),
    ("body", "expect.body[1].json($.status)", {"content": b'{"status":"no","x":"ok"}'}),
    ("duration", "expect.maxDurationMs", {"duration_ms": 101.0}),
]


@pytest.mark.parametrize("position", range(len(BAD_STAGES)))
def test_the_first_stage_that_fails_is_the_failure(position: int) -> None:
    """Whatever else is wrong behind it; and a body is read only when everything before it holds."""
    phase, path, _ = BAD_STAGES[position]
    changes: dict[str, Any] = {}
    for _phase, _path, later in reversed(BAD_STAGES[position:]):
        changes |= later
    answer = good(**changes)
    failure = http(EVERYTHING, answer).failure
    assert failure is not None
    assert (failure.phase, failure.path) == (phase, path)
    assert answer.reads == (1 if position >= 5 else 0)
    assert failure.kind == ("error" if path == "http.body" else "mismatch")


@pytest.mark.parametrize(
    "expect", [HttpExpect(), HttpExpect(body=(has("ok"),)), HttpExpect(headers=(header("X-A", Equals("1")),))]
)
def test_without_status_200_is_expected(expect: HttpExpect) -> None:
    """Also beside other expectations; `warn` has no such default."""
    failure = http(expect, good(status=204)).failure
    assert failure is not None
    assert failure.message == "status 204, expected 200"
    verdict = http(HttpExpect(status=(StatusRange(204, 204, "204"),)), good(status=204), expect)
    assert verdict.failure is verdict.warning is None


def test_no_body_rule_no_reading() -> None:
    """A body that nobody asks for is not read, broken or not."""
    answer = good(content=BROKEN)
    assert http(HttpExpect(max_duration_ms=100), answer).failure is None
    assert answer.reads == 0


def test_the_limit_counts_the_body_when_it_was_read() -> None:
    """H51: headers at once, body late."""
    late = {"headers_ms": 10.0, "duration_ms": 1010.4}
    failure = http(HttpExpect(max_duration_ms=500, body=(has("ok"),)), good(**late)).failure
    assert failure is not None
    assert (failure.phase, failure.path, failure.expected) == ("duration", "expect.maxDurationMs", "<= 500 ms")
    assert failure.message == "took 1,010 ms until the end of the body, expected at most 500 ms"
    assert http(HttpExpect(max_duration_ms=500), good(**late)).failure is None


def test_the_limit_counts_a_body_that_only_warn_reads() -> None:
    """The result's duration includes it, so the limit does."""
    verdict = http(
        HttpExpect(max_duration_ms=500), good(headers_ms=10.0, duration_ms=900.0), HttpExpect(body=(has("ok"),))
    )
    assert verdict.failure is not None
    assert verdict.failure.path == "expect.maxDurationMs"


@pytest.mark.parametrize(("took", "over"), [(500.0, False), (500.0004, True), (500.9, True), (float("nan"), True)])
def test_the_limit_is_inclusive(took: float, over: bool) -> None:
    """And what is not comparable is not within."""
    failure = http(HttpExpect(max_duration_ms=500), good(headers_ms=took)).failure
    assert (failure is not None) == over


def test_a_mismatch_of_warn_is_a_warning() -> None:
    """The same shape, with paths that begin with `warn.`; an error of it is an error of the check."""
    for warn, path in (
        (HttpExpect(max_duration_ms=20), "warn.maxDurationMs"),
        (HttpExpect(certificate_min_days_left=60), "warn.certificate.minDaysLeft"),
        (HttpExpect(body=(has("ok"), has("fast"))), "warn.body[1].contains"),
        (HttpExpect(status=(StatusRange(201, 201, "201"),)), "warn.status"),
        (HttpExpect(headers=(header("X-C", Exists(True)),)), "warn.headers.X-C"),
    ):
        verdict = http(EVERYTHING, good(), warn)
        assert verdict.failure is None
        assert verdict.warning is not None
        assert (verdict.warning.kind, verdict.warning.path) == ("mismatch", path)
    verdict = http(HttpExpect(), good(content=BROKEN), HttpExpect(body=(has("ok"),)))
    assert verdict.failure == BROKEN
    assert verdict.warning is None
    verdict = http(HttpExpect(), good(content=b"<div>" * 300), HttpExpect(body=(css("p", Exists(False)),)))
    assert verdict.failure is not None
    assert (verdict.failure.kind, verdict.failure.path) == ("error", "warn.body[0].css(p)")


def test_warn_is_not_judged_after_a_failure() -> None:
    """A warning stands beside a match only, and costs nothing otherwise."""
    answer = good(status=500)
    verdict = http(HttpExpect(), answer, HttpExpect(body=(has("x"),)))
    assert verdict.failure is not None
    assert verdict.warning is None
    assert answer.reads == 0


def test_headers_are_joined_and_case_insensitive() -> None:
    """Repeated lines become one value; outer blanks do not count."""
    answer = good(headers=(("VARY", " a "), ("vary", "b\t"), ("Content-Length", "12")))
    assert (
        http(
            HttpExpect(
                headers=(header("Vary", Equals("a, b")), header("content-length", Equals(12), Compare("lt", 13)))
            ),
            answer,
        ).failure
        is None
    )
    failure = http(HttpExpect(headers=(header("Vary", Contains("c")),)), answer).failure
    assert failure is not None
    assert (failure.actual, failure.expected) == ("a, b", 'contains "c"')
    assert failure.message == 'header Vary is "a, b", which does not contain "c"'


@pytest.mark.parametrize(
    "operator",
    [
        Equals("x"),
        Contains("x"),
        Match("x"),
        Empty(True),
        Empty(False),
        Compare("gte", 0),
        Exists(True),
        Not((Equals("x"),)),
    ],
)
def test_an_absent_header_matches_nothing(operator: Any) -> None:
    """Only exists: false."""
    failure = http(HttpExpect(headers=(header("X-C", operator),)), good()).failure
    assert failure is not None
    assert failure.actual == "(missing)"
    assert "header X-C is missing" in failure.message
    assert http(HttpExpect(headers=(header("X-C", Exists(False)),)), good()).failure is None


@pytest.mark.parametrize("name", ["Set-Cookie", "authorization", "X-Api-Key", "X-Auth-Token"])
def test_values_of_sensitive_headers_are_hidden(name: str) -> None:
    """In failures and in the trace, the expected value too."""
    answer = good(headers=((name, "canary-value"),))
    for operator in (Equals("expected-canary"), Contains("Secure"), Exists(False), Not((Match("canary"),))):
        failure = http(HttpExpect(headers=(header(name, operator),)), answer).failure
        assert failure is not None
        assert "canary-value" not in repr(failure)
        assert "expected-canary" not in repr(failure)
        assert failure.actual == "(hidden)"
        assert name in failure.message
    traced = context(trace=True)
    judge_http(HttpExpect(headers=(header(name, Exists(True)),)), None, answer, traced)
    assert "canary" not in repr(traced.steps)


@pytest.mark.parametrize(
    ("left", "words"),
    [(6.5, "expires in 6.5 days"), (-3, "expired 3.0 days ago"), (0.01, "expires in 0.0 days"), (-40_000, "expired")],
)
def test_certificates_that_end_too_soon(left: float, words: str) -> None:
    """The message says when, and what was expected."""
    failure = http(HttpExpect(certificate_min_days_left=7), good(certificate=certificate(left))).failure
    assert failure is not None
    assert (failure.kind, failure.phase, failure.expected) == ("mismatch", "certificate", ">= 7 days left")
    assert words in failure.message
    assert "UTC" in failure.message


def test_certificates_that_are_missing_or_not_yet_valid() -> None:
    """No TLS, no certificate; one that begins tomorrow is not valid today."""
    expect = HttpExpect(certificate_min_days_left=0)
    for found, words in ((None, "did not come over TLS"), (certificate(90, since=1), "not valid before")):
        failure = http(expect, good(certificate=found)).failure
        assert failure is not None
        assert words in failure.message
    assert http(HttpExpect(certificate_min_days_left=7), good(certificate=certificate(7.1))).failure is None


def test_each_stage_is_announced_before_it_runs() -> None:
    """A check that is killed fails at the place it was in."""
    places: list[tuple[str, str]] = []
    traced = context(trace=True)
    traced._mark = lambda phase, path: places.append((phase, path))
    judge_http(EVERYTHING, HttpExpect(max_duration_ms=98), good(), traced)
    assert [path for _phase, path in places] == [
        "expect.status", "expect.maxDurationMs", "expect.headers.X-A", "expect.headers.X-B",
        "expect.certificate.minDaysLeft", "http.body", "expect.body[0].contains", "expect.body[1].json($.status)",
        "expect.maxDurationMs", "warn.maxDurationMs",
    ]  # fmt: skip
    assert traced.steps is not None
    assert [step.outcome for step in traced.steps] == ["ok"] * 8 + ["failed"]
    assert traced.steps[-1].seen == "99 ms"


def test_long_values_are_whole_or_left_out_of_the_sentence() -> None:
    """Half a secret can't be masked: nothing is cut before the worker has masked it."""
    for size in (100, 5000):
        value = "s" * size + "e"
        failure = http(HttpExpect(headers=(header("X-A", Equals("x")),)), good(headers=(("X-A", value),))).failure
        assert failure is not None
        assert (value in failure.message) == (size == 100)
        assert "sss" not in failure.message.replace(value, "")
        assert failure.actual == value


def test_the_trace_tells_every_stage() -> None:
    """What was seen and expected of those that held, the failure, and those that were not judged."""
    traced = context(trace=True)
    answer = good(content=b'{"status":"no","x":"ok"}')
    judge_http(EVERYTHING, None, answer, traced)
    assert traced.steps is not None
    assert [(step.step, step.seen, step.expected, step.outcome) for step in traced.steps] == [
        ("expect.status", "200", "2xx", "ok"),
        ("expect.maxDurationMs", "50.0 ms", "<= 100 ms", "ok"),
        ("expect.headers.X-A", "1", "1", "ok"),
        ("expect.headers.X-B", "2", "exists", "ok"),
        ("expect.certificate.minDaysLeft", traced.steps[4].seen, ">= 7 days left", "ok"),
        ("expect.body[0].contains", '"{\\"status\\":\\"no\\",\\"x\\":\\"ok\\"}"', 'contains "ok"', "ok"),
        ("expect.body[1].json($.status)", '"no"', '"ok"', "failed"),
        ("expect.maxDurationMs", "", None, "skipped"),
    ]
    assert traced.steps[4].seen.startswith("until 20")
    traced = context(trace=True)
    judge_http(EVERYTHING, None, good(status=500), traced)
    assert traced.steps is not None
    assert [step.outcome for step in traced.steps] == ["failed"] + ["skipped"] * 7


def test_h47_header_values_beyond_ascii() -> None:
    """A value is UTF-8, or else latin-1; `not` must not hold because the text was misread."""
    answer = Answer(b"", headers=(("X-U", "größer".encode().decode("latin-1")), ("X-L", "läuft")))
    right = (header("x-u", Equals("größer")), header("x-l", Equals("läuft")))
    assert http(HttpExpect(headers=right), answer).failure is None
    failure = http(HttpExpect(headers=(header("x-u", Not((Contains("größer"),))),)), answer).failure
    assert failure is not None
    assert failure.path == "expect.headers.x-u"
    assert failure.actual == "größer"
