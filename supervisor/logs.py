"""Logs: one line an event on stderr, `key=value` on a terminal, JSON elsewhere. Never bodies, headers, secrets."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, TextIO

from supervisor.model import Secret
from supervisor.text import Masker, clean

_FIELDS = "checkvisor_fields"


def event(log: logging.Logger, name: str, *, level: int = logging.INFO, exc_info: bool = False, **fields: Any) -> None:
    """Log one event: a dotted name (`check.finished`) and its fields."""
    log.log(level, name, extra={_FIELDS: fields}, exc_info=exc_info)


def become_event(record: logging.LogRecord, name: str) -> None:
    """Make an event of a library's record: what it said is the field `message`."""
    setattr(record, _FIELDS, {"message": record.getMessage()})
    record.msg, record.args = name, ()


class Formatter(logging.Formatter):
    """One line a record. Text is masked before it is cleaned, so that no form of a secret gets through."""

    def __init__(self, *, as_json: bool) -> None:
        super().__init__()
        self._as_json = as_json
        self.masker = Masker(())

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = dict(getattr(record, _FIELDS, {}))
        if record.exc_info:
            fields["traceback"] = self.formatException(record.exc_info)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"
        message = self._clean(record.getMessage())
        shown = {name: self._value(value) for name, value in fields.items() if value is not None}
        if self._as_json:
            head = {"time": stamp, "level": record.levelname.lower(), "event": message, "logger": record.name}
            return json.dumps(head | shown, ensure_ascii=False, separators=(",", ":"))
        shown.pop("traceback", None)
        pairs = " ".join(f"{name}={_quoted(value)}" for name, value in shown.items())
        line = f"{stamp} {record.levelname:<7} {message} {pairs}".rstrip()
        traceback = (self._clean(part) for part in str(fields.get("traceback", "")).splitlines())
        return "\n".join((line, *traceback))

    def _clean(self, text: str) -> str:
        return clean(self.masker.mask(text))

    def _value(self, value: Any) -> Any:
        if isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return round(value, 3)
        return self._clean(str(value))


def _quoted(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(c in text for c in ' "=') else text


def setup(stream: TextIO | None = None, *, level: int = logging.INFO) -> Formatter:
    """Send all logging to one stream through one formatter; its masker is set after loading (`set_secrets`)."""
    stream = stream or sys.stderr
    formatter = Formatter(as_json=not stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    logging.getLogger("urllib3").setLevel(logging.WARNING)
    logging.captureWarnings(True)
    return formatter


def set_secrets(formatter: Formatter, secrets: tuple[Secret, ...]) -> None:
    """Mask these from now on (at start and after each reload)."""
    formatter.masker = Masker(secrets)
