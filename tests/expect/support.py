"""Observations as plain values, and one call for one rule."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from supervisor.context import CheckContext
from supervisor.deadline import Deadline
from supervisor.expect import Verdict, judge_command, judge_http
from supervisor.expect.observation import Body
from supervisor.expect.spec import (
    BodyRule,
    CommandExpect,
    Contains,
    CssRule,
    HeaderRule,
    HttpExpect,
    JsonRule,
    Match,
    Operator,
    TextRule,
    XpathRule,
)
from supervisor.model import Certificate, CheckFailure


def context(*, trace: bool = False) -> CheckContext:
    """A context with time enough."""
    return CheckContext(Deadline(60), trace=trace)


@dataclass(slots=True)
class Answer:
    """An HTTP answer in memory; `reads` counts how often the body was asked for."""

    content: bytes | CheckFailure = b""
    content_type: str = ""
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    headers_ms: float = 10.0
    duration_ms: float = 20.0
    certificate: Certificate | None = None
    reads: int = 0

    def body(self) -> Body | CheckFailure:
        self.reads += 1
        return self.content if isinstance(self.content, CheckFailure) else Body(self.content, self.content_type)


@dataclass(slots=True)
class Ended:
    """A command that has ended."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    duration_ms: float = 20.0


def days(number: float) -> int:
    """A time that many days from now, in ms."""
    return int((time.time() + number * 86400) * 1000)


def certificate(days_left: float, since: float = -10) -> Certificate:
    return Certificate(days(since), days(days_left), "CN=test", "CN=ca")


def http(expect: HttpExpect, answer: Answer, warn: HttpExpect | None = None) -> Verdict:
    return judge_http(expect, warn, answer, context())


def command(expect: CommandExpect, ended: Ended, warn: CommandExpect | None = None, **nagios: Any) -> Verdict:
    return judge_command(expect, warn, ended, context(), **nagios)


def failure_of(rule: BodyRule, content: bytes | str | Any, content_type: str = "") -> CheckFailure | None:
    """The failure of one body rule; what is neither bytes nor text is sent as JSON."""
    if isinstance(content, str):
        content = content.encode()
    elif not isinstance(content, bytes):
        content = json.dumps(content).encode()
    verdict = http(HttpExpect(body=(rule,)), Answer(content, content_type))
    assert verdict.warning is None
    return verdict.failure


def holds(rule: BodyRule, content: Any, content_type: str = "") -> bool:
    """Whether the rule matches; what does not must be a mismatch of the rule, at its place."""
    failure = failure_of(rule, content, content_type)
    if failure is None:
        return True
    assert failure.kind == "mismatch", failure
    assert failure.phase == "body"
    assert failure.path.startswith("expect.body[0].")
    assert failure.message
    assert failure.expected is not None
    assert failure.actual is not None
    return False


def refused(check: Callable[..., None], *arguments: object) -> str:
    """The sentence with which the loader refuses the expression."""
    with pytest.raises(ValueError) as caught:
        check(*arguments)
    return str(caught.value)


def refusal(check: Callable[..., None], *arguments: object) -> str | None:
    """The same, or None where it is accepted."""
    try:
        check(*arguments)
    except ValueError as error:
        return str(error)
    return None


def js(path: str, *operators: Operator, some: bool = False, dialect: str = "rfc9535") -> JsonRule:
    return JsonRule(path, operators, some, dialect)


def css(selector: str, *operators: Operator, attribute: str | None = None, some: bool = False) -> CssRule:
    return CssRule(selector, operators, attribute, some)


def xp(path: str, *operators: Operator, some: bool = False, **namespaces: str) -> XpathRule:
    return XpathRule(path, operators, tuple(namespaces.items()), some)


def has(text: str) -> TextRule:
    return TextRule("contains", (Contains(text),))


def rx(pattern: str) -> TextRule:
    return TextRule("regex", (Match(pattern),))


def text(key: str, *operators: Operator) -> TextRule:
    return TextRule(key, operators)


def header(name: str, *operators: Operator) -> HeaderRule:
    return HeaderRule(name, operators)
