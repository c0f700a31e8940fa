"""The one formatter of all logs."""

from __future__ import annotations

import io
import json
import logging

import pytest

from supervisor import logs
from supervisor.model import Secret


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def restored():
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(False)


def test_elsewhere_than_on_a_terminal_a_line_is_json(restored):
    """time, level, event, logger and the fields, one object a line; None is left out."""
    stream = io.StringIO()
    logs.setup(stream)
    logs.event(logging.getLogger("x"), "check.finished", target="a b", duration_ms=1.23456, none=None, ok=True)
    line = json.loads(stream.getvalue())
    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "info", "event": "check.finished", "logger": "x", "target": "a b", "duration_ms": 1.235, "ok": True,
    }  # fmt: skip


def test_on_a_terminal_it_is_key_value(restored):
    """Text with blanks is quoted."""
    stream = Terminal()
    logs.setup(stream)
    logs.event(logging.getLogger("x"), "check.finished", target="a b", n=3)
    assert stream.getvalue().endswith('INFO    check.finished target="a b" n=3\n')


@pytest.mark.parametrize("stream_type", [io.StringIO, Terminal])
def test_secrets_and_control_characters_never_get_out(restored, stream_type):
    """A secret in a message, a field or a traceback is masked; control characters are escaped."""
    stream = stream_type()
    logs.set_secrets(logs.setup(stream), (Secret("TOKEN", "s3cr3t-value"),))
    log = logging.getLogger("x")
    logs.event(log, "a", text="x s3cr3t-value\nb\x1b[31m", error=ValueError("s3cr3t-value"))
    try:
        raise ValueError("s3cr3t-value")
    except ValueError:
        logs.event(log, "b", exc_info=True)
    assert "s3cr3t" not in stream.getvalue()
    assert "${TOKEN}" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
    assert "x ${TOKEN}\nb" not in stream.getvalue()
