"""One HTTP check, from target to outcome."""

from __future__ import annotations

import signal
from urllib.parse import urlsplit

from supervisor import expect as expectations
from supervisor.checkers.base import CheckContext, Outcome
from supervisor.checkers.http.cookies import Cookies
from supervisor.checkers.http.failures import PLACES, after, expired_message, failure_of, redirect_failure
from supervisor.checkers.http.observe import Answer
from supervisor.checkers.http.plan import Plan, make_plan
from supervisor.checkers.http.redirect import Hop, RedirectError, next_hop
from supervisor.checkers.http.settings import HttpSettings
from supervisor.deadline import DeadlineExpired
from supervisor.model import CheckFailure, ResolvedTarget, Timings
from supervisor.net import Adapter, CertificateFailure, Exchange, NetFailure, Watch
from supervisor.net.certificate import parse, period_of

_MOST_PLANS = 1024  # a worker's memory has a budget; a plan is about 2 KB


class HttpChecker:
    """The checker of type `http`. Keeps plans, never connections or cookies."""

    type = "http"

    def __init__(self) -> None:
        self._plans: dict[str, Plan] = {}

    def check(self, target: ResolvedTarget, context: CheckContext) -> Outcome:
        """Follow redirects to the final answer and judge it. DeadlineExpired passes only if it strikes twice."""
        run = _Run(target, context)
        context.enter(*PLACES["send"])
        try:
            run.go(self._plan(target, keep=context.keep))
        except NetFailure as fault:
            run.failed(fault)
        except DeadlineExpired:
            signal.setitimer(signal.ITIMER_REAL, 0)  # it has struck; once more would only disturb the verdict
            run.expired()
        finally:
            run.close()
        return run.outcome()

    def _plan(self, target: ResolvedTarget, *, keep: bool) -> Plan:
        settings: HttpSettings = target.settings
        plan = self._plans.get(target.id)
        if plan is None or (plan.settings is not settings and plan.settings != settings):
            plan = make_plan(settings)
            if not keep:
                return plan
            if len(self._plans) >= _MOST_PLANS and target.id not in self._plans:
                self._plans.popitem()  # the newest: in a fixed rotation giving up the oldest would lose every one
            self._plans[target.id] = plan
        return plan


class _ContextWatch(Watch):
    """Tells the context where the exchange stands."""

    def __init__(self, context: CheckContext) -> None:
        self._context = context
        self.tracing = context.steps is not None
        self.place = "send"
        self.in_redirects = False  # a deadline that passes now was used up by redirects

    def enter(self, place: str) -> None:
        self.place = place
        self._context.enter(*PLACES["redirect" if self.in_redirects else place])

    def note(self, step: str, seen: str) -> None:
        self._context.note(step, seen)


class _Run:
    """What one check has found so far."""

    def __init__(self, target: ResolvedTarget, context: CheckContext) -> None:
        self._target = target
        self._context = context
        self._watch = _ContextWatch(context)
        self._adapter: Adapter | None = None
        self._answer: Answer | None = None
        self._redirects = 0
        self._failure: CheckFailure | None = None
        self._warning: CheckFailure | None = None
        self._failed_certificate: CertificateFailure | None = None

    @property
    def _exchange(self) -> Exchange | None:
        return self._adapter.exchange if self._adapter is not None else None

    def go(self, plan: Plan) -> None:
        """Request, follow, judge. Raises NetFailure and DeadlineExpired."""
        hop = Hop(plan.first, plan.settings.body)
        cookies = Cookies()
        seen: set[str | None] = set()
        while True:
            exchange = self._send(plan, hop)
            assert exchange.head is not None
            if exchange.head.status == 407 and plan.route.proxy is not None:
                raise NetFailure("proxy", f"the {exchange.peer} asks for credentials (status 407)", actual="407")
            if not plan.settings.follow_redirects:
                break
            try:
                following = next_hop(plan, hop, exchange.head, cookies)
            except RedirectError as fault:
                self._fail(redirect_failure(str(fault), self._redirects))
                return
            if following is None:
                break
            exchange.close()
            seen.add(hop.request.url)
            self._redirects += 1
            if self._redirects > plan.settings.max_redirects:
                self._fail(redirect_failure(_too_many(plan, following, seen)))
                return
            self._watch.in_redirects = self._redirects > 1 or following.request.url in seen
            self._note_redirect(exchange, following)
            hop = following
        self._watch.in_redirects = False
        self._judge(plan, hop, exchange)

    def _send(self, plan: Plan, hop: Hop) -> Exchange:
        route = plan.route if hop.request.origin == plan.origin else plan.foreign_route()
        adapter = self._adapter = Adapter(route, self._watch)
        if self._watch.tracing:
            self._context.note("request", f"{hop.request.method} {shown_url(hop.request.url)}", outcome="info")
        adapter.send(hop.request, timeout=self._context.deadline)
        exchange = adapter.exchange
        assert exchange is not None
        if self._watch.tracing and exchange.head is not None:
            head = exchange.head
            self._context.note("answer", f"HTTP/1.{head.minor} {head.status} {head.reason}".rstrip())
        return exchange

    def _note_redirect(self, exchange: Exchange, following: Hop) -> None:
        if self._watch.tracing and exchange.head is not None:
            seen = f"{exchange.head.status} to {shown_url(following.request.url)}"
            self._context.note("redirect", f"{seen}, as {following.request.method}")

    def _judge(self, plan: Plan, hop: Hop, exchange: Exchange) -> None:
        head = exchange.head
        assert head is not None
        self._answer = Answer(exchange, head, plan.settings.max_body_bytes, self._context)
        if self._watch.tracing:
            self._note_answer(hop, exchange)
        verdict = expectations.judge_http(self._target.expect, self._target.warn, self._answer, self._context)
        self._failure, self._warning = verdict.failure, verdict.warning

    def _note_answer(self, hop: Hop, exchange: Exchange) -> None:
        url = shown_url(hop.request.url)
        self._context.note("finalUrl", f"{url}{after(self._redirects)}", outcome="info")
        if exchange.leaf:
            certificate = parse(exchange.leaf)
            subject = certificate.subject if certificate is not None else "unreadable"
            self._context.note("certificate", f"{subject}, valid until {period_of(certificate)[1]}", outcome="info")

    # --- ways to end

    def _fail(self, failure: CheckFailure) -> None:
        self._failure = failure
        self._context.note("failed", failure.message, outcome="failed")

    def failed(self, fault: NetFailure) -> None:
        """The connection or the answer is at fault."""
        if isinstance(fault, CertificateFailure):
            self._failed_certificate = fault
        self._fail(failure_of(fault, self._redirects))

    def expired(self) -> None:
        """The deadline has passed at the context's place."""
        context = self._context
        limit = self._target.timeout_s
        if context.path.startswith("http."):
            place = "body" if context.phase == "body" else self._watch.place
            message = expired_message(place, self._exchange, limit, self._redirects)
        else:
            message = f"no verdict within {limit:g} s: judging the answer did not end"
        self._fail(CheckFailure("error", context.phase, context.path, message))

    def close(self) -> None:
        """Close the connection, whatever happened."""
        if self._adapter is not None:
            self._adapter.close()

    def outcome(self) -> Outcome:
        """All of it, for the worker."""
        exchange, answer = self._exchange, self._answer
        head = exchange.head if exchange is not None else None
        certificate = parse(exchange.leaf) if exchange is not None and exchange.leaf else None
        if certificate is None and self._failed_certificate is not None:
            certificate = self._failed_certificate.certificate
        timings = _timings(exchange) if exchange is not None else None
        self._note_timings(timings)
        return Outcome(
            duration_ms=answer.duration_ms if answer is not None else self._context.deadline.elapsed_ms(),
            status_detail=f"HTTP {head.status}" if head is not None else "",
            failure=self._failure,
            warning=self._warning,
            timings=timings,
            certificate=certificate,
        )

    def _note_timings(self, timings: Timings | None) -> None:
        if self._watch.tracing and timings is not None:
            names = ("dns", "connect", "tls", "first_byte", "transfer")
            times = [(name, getattr(timings, name)) for name in names]
            shown = ", ".join(f"{name.replace('_b', 'B')} {value:g} ms" for name, value in times if value is not None)
            self._context.note("timings", shown, outcome="info")


def _timings(exchange: Exchange) -> Timings:
    return Timings(
        dns=_rounded(exchange.dns_ms),
        connect=_rounded(exchange.connect_ms),
        tls=_rounded(exchange.tls_ms),
        first_byte=_rounded(exchange.first_byte_ms),
        transfer=_rounded(exchange.transfer_ms),
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def shown_url(url: str | None) -> str:
    """A URL for the trace: without user info, and with a mark where its query is."""
    parts = urlsplit(url or "")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{'?…' if parts.query else ''}"


def _too_many(plan: Plan, following: Hop, seen: set[str | None]) -> str:
    limit = plan.settings.max_redirects
    told = f"more than {limit} redirect{'' if limit == 1 else 's'}"
    if following.request.url in seen:
        return f"{told}: they go in a circle at {following.request.origin}"
    return f"{told}: the next one would go to {following.request.origin}"
