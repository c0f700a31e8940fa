"""The stages of an HTTP verdict: status, time, headers, certificate, body, time again (design section 5). Pure."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from supervisor.expect import describe
from supervisor.expect.content import Content
from supervisor.expect.decode import header_text
from supervisor.expect.observation import HttpObservation
from supervisor.expect.operators import Kind
from supervisor.expect.rules import Place, judge_body_rule, judge_header, rule_path, rule_subject, seen_by
from supervisor.expect.spec import BodyRule, HeaderRule, HttpExpect, StatusRange
from supervisor.expect.stage import Step, Trace, any_of, days, first_failure, judge_duration
from supervisor.model import Certificate, CheckFailure
from supervisor.text import HIDDEN, MISSING, is_sensitive

if TYPE_CHECKING:
    from supervisor.context import CheckContext

_DAY_MS = 86_400_000
_LAST_MS = 253_402_300_799_999  # the end of the year 9999
_UNTIL_HEADERS = "took {} until the headers"
_UNTIL_END = "took {} until the end of the body"


class HttpStages:
    """One answer on its way through the stages; remembers the body between `expect` and `warn`."""

    __slots__ = ("_trace", "content", "context", "observation")

    def __init__(self, observation: HttpObservation, context: CheckContext) -> None:
        self.observation = observation
        self.context = context
        self.content: Content | None = None
        self._trace = Trace(context, list)

    def judge(self, expect: HttpExpect, root: str, status: tuple[StatusRange, ...] | None) -> Step:
        """The failure of the first stage that does not hold."""
        self._trace = Trace(self.context, lambda: _places(expect, root, status is not None))
        return first_failure(self._stages(expect, root, status), self._trace)

    def _stages(self, expect: HttpExpect, root: str, status: tuple[StatusRange, ...] | None) -> Iterator[Step]:
        limit_ms = expect.max_duration_ms
        if status is not None:
            yield self._status(status, root)
        if limit_ms is not None and self.content is None:
            yield self._duration(limit_ms, root, self.observation.headers_ms, _UNTIL_HEADERS)
        for header in expect.headers:
            yield self._header(header, root)
        if expect.certificate_min_days_left is not None:
            yield self._certificate(expect.certificate_min_days_left, root)
        for position, rule in enumerate(expect.body):
            yield from self._read()
            yield self._body_rule(rule, position, root)
        if limit_ms is not None and self.content is not None:
            yield self.whole_duration(limit_ms, root)

    def _status(self, wanted: tuple[StatusRange, ...], root: str) -> Step:
        path = f"{root}.status"
        self.context.enter("status", path)
        status = self.observation.status
        failure = None
        if not any(item.low <= status <= item.high for item in wanted):
            expected = any_of(item.text for item in wanted)
            message = f"status {status}, expected {expected}"
            failure = CheckFailure("mismatch", "status", path, message, expected, str(status))
        self._trace.note(path, failure, lambda: (str(status), any_of(item.text for item in wanted)))
        return failure

    def whole_duration(self, limit_ms: int, root: str) -> Step:
        """The time limit once the body has been read."""
        return self._duration(limit_ms, root, self.observation.duration_ms, _UNTIL_END)

    def _duration(self, limit_ms: int, root: str, took_ms: float, form: str) -> Step:
        return judge_duration(self.context, self._trace, root, limit_ms, took_ms, form)

    def _header(self, rule: HeaderRule, root: str) -> Step:
        place = Place("headers", f"{root}.headers.{rule.name}", f"header {rule.name}")
        self.context.enter(place.phase, place.path)
        failure = judge_header(rule.operators, self.observation.headers, rule.name, place)
        self._trace.note(place.path, failure, lambda: self._shown_header(rule))
        return failure

    def _shown_header(self, rule: HeaderRule) -> tuple[str, str]:
        hide = is_sensitive(rule.name)
        lines = [header_text(value) for key, value in self.observation.headers if key.lower() == rule.name.lower()]
        seen = HIDDEN if hide and lines else ", ".join(lines) if lines else MISSING
        return seen, describe.expected(rule.operators, Kind.TEXT, hide=hide)

    def _certificate(self, least: float, root: str) -> Step:
        place = Place("certificate", f"{root}.certificate.minDaysLeft", "the certificate")
        self.context.enter(place.phase, place.path)
        certificate = self.observation.certificate
        failure = judge_certificate(certificate, least, time.time() * 1000, place)
        self._trace.note(
            place.path,
            failure,
            lambda: (f"until {_date(certificate.not_after_ms)}" if certificate else "", days(least)),
        )
        return failure

    def _read(self) -> Iterator[Step]:
        if self.content is not None:
            return
        self.context.enter("body", "http.body")
        body = self.observation.body()
        if isinstance(body, CheckFailure):
            self.context.note("body", body.message, body.expected, "failed")
            yield body
            return
        self.content = Content(body.content, body.content_type)

    def _body_rule(self, rule: BodyRule, position: int, root: str) -> Step:
        content = self.content
        assert content is not None
        place = Place("body", f"{root}.body[{position}].{rule_path(rule)}", rule_subject(rule, "the body"))
        self.context.enter(place.phase, place.path)
        failure = judge_body_rule(rule, content, place)
        self._trace.note(place.path, failure, lambda: seen_by(rule, content))
        return failure


def _places(expect: HttpExpect, root: str, with_status: bool) -> list[str]:
    """The paths of all stages, in order."""
    limit = [f"{root}.maxDurationMs"] if expect.max_duration_ms is not None else []
    return [
        *([f"{root}.status"] if with_status else []),
        *limit,
        *(f"{root}.headers.{rule.name}" for rule in expect.headers),
        *([f"{root}.certificate.minDaysLeft"] if expect.certificate_min_days_left is not None else []),
        *(f"{root}.body[{position}].{rule_path(rule)}" for position, rule in enumerate(expect.body)),
        *(limit if expect.body else []),
    ]


def judge_certificate(certificate: Certificate | None, least: float, now_ms: float, place: Place) -> Step:
    """Whether the certificate is valid and ends late enough."""
    expected = days(least)
    if certificate is None:
        return place.failure("there is no certificate: the answer did not come over TLS", expected, MISSING)
    if certificate.not_before_ms > now_ms:
        begins = _date(certificate.not_before_ms)
        return place.failure(f"the certificate is not valid before {begins}", expected, f"valid from {begins}")
    left = (certificate.not_after_ms - now_ms) / _DAY_MS
    if left >= least:
        return None
    ends = _date(certificate.not_after_ms)
    message = f"the certificate expires in {left:.1f} days, on {ends}, expected {describe.number(least)} or more"
    if left < 0:
        message = f"the certificate expired {-left:.1f} days ago, on {ends}"
    return place.failure(message, expected, f"{left:.1f} days left (until {ends})")


def _date(at_ms: float) -> str:
    return datetime.fromtimestamp(min(max(at_ms, 0), _LAST_MS) / 1000, UTC).strftime("%Y-%m-%d %H:%M UTC")
