"""Expectations as written: what the loader makes of `expect:` and `warn:`, before a worker compiles it (design 5).

`not` is resolved here: `not: {json: {path: P, OPS}}` is a JsonRule whose operators are `(Not(OPS),)`, and
`not: {exists: true}` is `Exists(False)`. A rule without operators means `(Exists(True),)`. Expressions are strings.
"""

from __future__ import annotations

from dataclasses import dataclass

from supervisor.model import JsonValue

# --- operators -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Equals:
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Contains:
    value: JsonValue


@dataclass(frozen=True, slots=True)
class Match:
    pattern: str


@dataclass(frozen=True, slots=True)
class Empty:
    want: bool


@dataclass(frozen=True, slots=True)
class Exists:
    want: bool


@dataclass(frozen=True, slots=True)
class Compare:
    """`op` is gte, lte, gt or lt."""

    op: str
    value: int | float


@dataclass(frozen=True, slots=True)
class Count:
    """Number of nodes; `operators` hold on that number (`count: 3` is Equals(3))."""

    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Not all of `operators` hold on the value."""

    operators: tuple[Operator, ...]


Operator = Equals | Contains | Match | Empty | Exists | Compare | Count | Not

# --- rules -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextRule:
    """Operators on the whole text. `key` is what the user wrote (`contains`, `regex`, `not` ...): it is shown."""

    key: str
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class JsonRule:
    path: str
    operators: tuple[Operator, ...]
    some: bool = False
    dialect: str = "rfc9535"  # or "jsonpath-ng"


@dataclass(frozen=True, slots=True)
class CssRule:
    selector: str
    operators: tuple[Operator, ...]
    attribute: str | None = None
    some: bool = False


@dataclass(frozen=True, slots=True)
class XpathRule:
    path: str
    operators: tuple[Operator, ...]
    namespaces: tuple[tuple[str, str], ...] = ()
    some: bool = False


BodyRule = TextRule | JsonRule | CssRule | XpathRule


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """`name` as written; compared case-insensitively."""

    name: str
    operators: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class StatusRange:
    """`200` is 200..200, `2xx` is 200..299, `200-299` as written; `text` is what the user wrote."""

    low: int
    high: int
    text: str


@dataclass(frozen=True, slots=True)
class HttpExpect:
    """None or empty where the user said nothing; the default status [200] is applied by `judge`, never written here."""

    status: tuple[StatusRange, ...] | None = None
    max_duration_ms: int | None = None
    headers: tuple[HeaderRule, ...] = ()
    certificate_min_days_left: float | None = None
    body: tuple[BodyRule, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandExpect:
    exit_code: tuple[int, ...] | None = None
    max_duration_ms: int | None = None
    stdout: tuple[TextRule, ...] = ()
    stderr: tuple[TextRule, ...] = ()
