"""The conventions of monitoring plugins: exit codes, the first line, performance data. Pure.

Source: Monitoring Plugins Development Guidelines, sections "Plugin Output" and "Performance data".
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from supervisor.checkers.command.settings import NagiosSettings
from supervisor.model import CheckFailure, Metric

PATH = "command.nagios"

_MOST_METRICS = 50
_MOST_BYTES = 4096  # of the metrics as JSON
_LABEL_LIMIT = 64
_READ_LIMIT = 65536  # of an output; a plugin's is a few lines
_LINE_LIMIT = 4096

_NUMBER = r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
# 'a label'=value[unit];[warning];[critical];[minimum];[maximum] -- in a quoted label '' stands for '
_ITEM = re.compile(
    rf"(?:'(?P<quoted>(?:[^']|'')+)'|(?P<plain>[^\s='|][^\s=|]*))="
    rf"(?:(?P<value>{_NUMBER})(?P<unit>[^\s;\d'\"|]*)|U[^\s;|]*)"
    rf"(?:;(?P<warning>[^\s;|]*))?(?:;(?P<critical>[^\s;|]*))?"
    rf"(?:;(?P<minimum>[^\s;|]*))?(?:;(?P<maximum>[^\s;|]*))?;*(?=\s|$|\|)"
)
_JUNK = re.compile(r"'(?:[^']|'')*'\S*|\S+")


@dataclass(frozen=True, slots=True)
class Plugin:
    """What a plugin said: a line for people, values for machines."""

    line: str
    metrics: tuple[Metric, ...]


def read_output(output: bytes) -> Plugin:
    """The first line before `|`, and the performance data of the whole output."""
    text = output[:_READ_LIMIT].decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\0", " ")
    first, _, rest = text.partition("\n")
    line, _, data = first.partition("|")
    # long text follows, then a second `|` after which every line is performance data
    _, _, more = rest.partition("|")
    return Plugin(line.strip()[:_LINE_LIMIT], tuple(_capped(_metrics(f"{data}\n{more}"))))


def judge_exit(code: int, line: str, settings: NagiosSettings) -> tuple[CheckFailure | None, CheckFailure | None]:
    """(failure, warning) of an exit code: 0 ok, 1 warning, 2 critical; everything else, signals too, is unknown."""
    if code == 0:
        return None, None
    if code == 1:
        found = _finding("mismatch", "warning", code, line)
        return (None, found) if settings.warning == "degraded" else (found, None)
    if code == 2:
        return _finding("mismatch", "critical", code, line), None
    return _finding(settings.unknown, "unknown", code, line), None


def _finding(kind: str, word: str, code: int, line: str) -> CheckFailure:
    said = f": {line}" if line else ""
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    return CheckFailure(
        kind="error" if kind == "error" else "mismatch",
        phase="exitCode",
        path=PATH,
        message=f"the plugin says {word} ({how}){said}",
        expected="0 (ok)",
        actual=f"{code} ({word})",
    )


def _metrics(text: str) -> Iterator[Metric]:
    position = 0
    while position < len(text):
        if text[position].isspace() or text[position] == "|":
            position += 1
            continue
        found = _ITEM.match(text, position)
        if found is not None:
            yield _metric(found)
            position = found.end()
        else:  # not performance data: skip to the next blank, the rest may be good
            junk = _JUNK.match(text, position)
            position = junk.end() if junk is not None else position + 1


def _metric(found: re.Match[str]) -> Metric:
    quoted = found["quoted"]
    label = quoted.replace("''", "'") if quoted is not None else found["plain"]
    return Metric(
        label=label[:_LABEL_LIMIT],
        value=_number(found["value"]),
        unit=(found["unit"] or "")[:_LABEL_LIMIT],
        warning=(found["warning"] or "")[:_LABEL_LIMIT],
        critical=(found["critical"] or "")[:_LABEL_LIMIT],
        minimum=_number(found["minimum"]),
        maximum=_number(found["maximum"]),
    )


def _number(text: str | None) -> float | None:
    """None for U (the plugin could not tell), for what is no number, and for what no float can hold."""
    if not text or re.fullmatch(_NUMBER, text) is None:
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def _capped(metrics: Iterator[Metric]) -> Iterator[Metric]:
    size = 2
    for count, metric in enumerate(metrics):
        size += len(json.dumps(_shape(metric), ensure_ascii=False).encode("utf-8", "replace")) + 1
        if count >= _MOST_METRICS or size > _MOST_BYTES:
            return
        yield metric


def _shape(metric: Metric) -> dict[str, object]:
    """About what is stored of it, to count its bytes."""
    return {
        "label": metric.label,
        "value": metric.value,
        "unit": metric.unit,
        "warning": metric.warning,
        "critical": metric.critical,
        "minimum": metric.minimum,
        "maximum": metric.maximum,
    }
