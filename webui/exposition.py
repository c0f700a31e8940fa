"""The two text formats that Prometheus reads, written line by line. Pure.

prometheus-client's own writer checks and escapes every name of every sample again: 0.15 s for a thousand targets, where
this takes 0.02 s. It knows no more than web metrics need: gauges, counters, and labels that were escaped once.
"""

from __future__ import annotations

from collections.abc import Iterable

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ODD = {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}

Samples = Iterable[tuple[str, float]]  # labels as `labels` writes them, value


def labels(**values: str) -> str:
    r"""`name="value",...`; in a value `\`, `"` and the line feed are escaped."""
    return ",".join(f'{name}="{escaped(text)}"' for name, text in values.items())


def escaped(text: str) -> str:
    """A label's value."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def number(value: float) -> str:
    """A sample's value."""
    text = repr(float(value))
    return _ODD.get(text, text)


class Page:
    """Collects families, then gives the text."""

    def __init__(self, content_type: str) -> None:
        self.openmetrics = content_type == OPENMETRICS
        self._parts: list[str] = []

    def gauge(self, name: str, words: str, samples: Samples) -> None:
        """A value that goes up and down."""
        self._family(name, name, "gauge", words, samples)

    def counter(self, name: str, words: str, samples: Samples) -> None:
        """A value that only grows; its samples end in `_total`, in OpenMetrics its family does not."""
        total = name + "_total"
        self._family(name if self.openmetrics else total, total, "counter", words, samples)

    def _family(self, family: str, name: str, kind: str, words: str, samples: Samples) -> None:
        self._parts.append(f"# HELP {family} {words}\n# TYPE {family} {kind}\n")
        self._parts.extend(
            f"{name}{{{pairs}}} {number(value)}\n" if pairs else f"{name} {number(value)}\n" for pairs, value in samples
        )

    def text(self) -> str:
        """All families."""
        return "".join([*self._parts, "# EOF\n"] if self.openmetrics else self._parts)
