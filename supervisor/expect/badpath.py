"""What is wrong with a JSONPath, in words: where, what stands there, what was expected. Pure.

Both libraries tell it in the names of their tokens. Here each of their complaints becomes one form of sentence.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Never

from jsonpath import JSONPathError
from jsonpath_ng.exceptions import JsonPathLexerError
from jsonpath_ng.ext.parser import ExtendedJsonPathParser
from jsonpath_ng.ext.string import DefintionInvalid

from supervisor.expect.describe import INLINE
from supervisor.expect.stage import any_of
from supervisor.text import count

RFC, NG = "JSONPath of RFC 9535", "path of jsonpath-ng"
_LONGEST_FOUND = 40
_LESS_DEEP = "a path that is nested less deeply"
_NAMES = {" ": "a blank", "\t": "a tab", "\n": "a line break", "\r": "a line break"}


class BadPathError(ValueError):
    """A path that can't be compiled. `at` counts from 0: the length of the path at its end, None where nobody knows."""

    def __init__(self, path: str, language: str, expected: str, at: int | None = None, found: str = "") -> None:
        super().__init__(path, language, expected, at, found)
        self.path, self.language, self.expected, self.at, self.found = path, language, expected, at, found

    def __str__(self) -> str:
        return self.told()

    def told(self, shown: str | None = None) -> str:
        """The sentence. `shown` is how a path with secrets may be displayed: then nothing else of it is."""
        path = shown if shown is not None else self.path
        if len(path) > INLINE:
            path = f"the path of {count(len(self.path))} characters"
        where = found = ""
        if self.at is not None:
            where = " at its end" if self.at >= len(self.path) else f" at character {self.at + 1}"
            if self.found and shown is None:
                found = f"found {_quoted(self.found)}, "
        return f"{path} is not a {self.language}{where}: {found}expected {self.expected}"


def _quoted(text: str) -> str:
    if text in _NAMES:
        return _NAMES[text]
    if len(text) > _LONGEST_FOUND:
        return f"a text of {count(len(text))} characters"
    return text if '"' in text or "(" in text[1:] else f'"{text}"'


# --- RFC 9535 --------------------------------------------------------------------------------------------------------

_SELECTOR = "a name in quotes, an index, a slice such as 0:2, * or a filter such as ?@.a == 1"
_VALUE = "a value or a path, such as 5, 'text', true or @.name"
_NUMBER = "a number without a leading zero, such as 7 or -1"
_GOES_ON = '".", "[" or the end of the path'
_ESCAPE = r"one of the escapes \b \f \n \r \t \/ \\ and \uXXXX, or a \ before the quote that opened the text"
_ARGUMENTS = {"Value": "a value, or a path that gives one", "Logical": "a test", "Nodes": "a path such as @.*"}
_NEXT = '"," or "]"'
_TOKENS = {"COMMA": _NEXT, "ROOT": '"$"', "RBRACKET": '"]"', "LPAREN": '"("', "RPAREN": '")"', "COLON": '":"'}
_STRINGS = ("TOKEN_SINGLE_QUOTE_STRING", "TOKEN_DOUBLE_QUOTE_STRING")
_LITERAL = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[\w.+-]+""", re.DOTALL)
_LONE = {"=": "== in a comparison", "&": "&& between two tests", "|": "|| between two tests"} | dict.fromkeys(
    "+-", "a number such as 7 or -1"
)

Place = tuple[int | None, str]  # where, and what stands there
_Expected = str | Callable[[re.Match[str], str, Place], str]


def _unexpected_sign(_said: re.Match[str], path: str, place: Place) -> str:
    at, sign = place
    if sign[:1] in "'\"":
        return f"a second {sign[0]}, where the text ends"
    if sign in _LONE:
        return _LONE[sign] if "?" in path[:at] else _GOES_ON
    return "a name in quotes, as in $['a b'], where it holds such a character"


def _after_point(_said: re.Match[str], path: str, place: Place) -> str:
    before = path[: place[0]].rstrip()
    return 'a name, * or "["' if before.endswith("..") else "a name or *; an index stands in brackets, as in [0]"


def _token_name(said: re.Match[str], _path: str, _place: Place) -> str:
    return _TOKENS.get(said[1], "something else")


def _number_of_arguments(said: re.Match[str], _path: str, _place: Place) -> str:
    return f"{said[1]} argument{'' if said[1] == '1' else 's'}"


def _type_of_argument(said: re.Match[str], _path: str, _place: Place) -> str:
    return f"{_ARGUMENTS.get(said[2], 'something else')} as argument {int(said[1]) + 1}"


_COMPLAINTS: tuple[tuple[re.Pattern[str], _Expected], ...] = tuple(
    (re.compile(said), expected)
    for said, expected in (
        ("expected a shorthand selector", _after_point),
        ("unexpected end of segment", _NEXT),
        ("unexpected (?:leading |trailing )?whitespace", "no blank before and behind the path"),
        ("unexpected sign", _unexpected_sign),
        ("unexpected token '", _GOES_ON),
        ("unexpected (?:end of query|token in bracketed|trailing comma|query selector)", _SELECTOR),
        ("empty bracketed|embedded query", _SELECTOR),
        ("invalid character", r"an escape such as \n or \u0000"),
        ("escape sequence|surrogate|codepoint", _ESCAPE),
        ("non-singular query", "a path that gives one value on each side: without *, .., slices and filters"),
        ("index out of range", "a number from -9007199254740991 to 9007199254740991"),
        ("filter expression literals", "a comparison such as @.a == 5, or a path"),
        ("invalid index|leading zero|invalid integer|invalid float", _NUMBER),
        (r"requires (\d+) argument", _number_of_arguments),
        (r"argument (\d+) must be of (\w+)Type", _type_of_argument),
        ("is not defined", "one of the functions length, count, match, search and value"),
        (r"result of \w+\(\) must be compared", "a comparison of its result, as in count(@.*) > 1"),
        (r"result of \w+\(\) is not comparable", "it alone, as it is true or false by itself"),
        ("unbalanced parentheses", 'a ")" for each "("'),
        (r"expected '?TOKEN_(\w+)", _token_name),
        ("unexpected ", _VALUE),
    )
)


def of_rfc(path: str, error: Exception) -> BadPathError:
    """The words for what `jsonpath` raised."""
    if isinstance(error, RecursionError):
        return BadPathError(path, RFC, _LESS_DEEP)
    if not isinstance(error, JSONPathError):  # int() and float() within the library
        return BadPathError(path, RFC, "smaller numbers")
    message = str(error.args[0]) if error.args else ""
    token = getattr(error, "token", None)
    if token is not None and token.kind == "TOKEN_ERROR":
        message = "unexpected sign"
    at, found = _place(path, message, token)
    for pattern, expected in _COMPLAINTS:
        said = pattern.search(message)
        if said is not None:
            told = expected if isinstance(expected, str) else expected(said, path, (at, found))
            return BadPathError(path, RFC, told, at, found)
    return BadPathError(path, RFC, "something else", at, found)


def _place(path: str, message: str, token: object) -> Place:
    """The library gives the token at which it gave up; what is wrong may be behind or within that."""
    function = re.match(r"(?:result of )?(\w+)\(\)", message)
    index, value, kind = (getattr(token, name, None) for name in ("index", "value", "kind"))
    if function is not None:
        at = path.find(f"{function[1]}(") if kind != "TOKEN_FUNCTION" else index
        return at, f"{function[1]}(...)"
    if not isinstance(index, int) or not isinstance(value, str):
        return None, ""
    if index < 0:
        return len(path), ""
    if kind in _STRINGS:
        return _within_text(path, message, index, value)
    if message.startswith("unexpected leading"):
        return 0, path[0]
    if message.startswith("empty bracketed"):
        return index, path[index : path.find("]", index) + 1]
    if message.startswith("filter expression literals") and value == "?":
        literal = _LITERAL.search(path, index)
        return (index, value) if literal is None else (literal.start(), literal[0])
    if message == "unexpected sign" and value in ("'", '"'):
        return index, path[index:]
    if value.isspace():
        return index, path[index]
    return index, value


def _within_text(path: str, message: str, index: int, value: str) -> Place:
    """`index` and `value` are of what stands between the quotes."""
    if message == "invalid character":
        control = re.search(r"[\x00-\x1f]", value)
        if control is not None:
            return index + control.start(), control[0] if control[0] in _NAMES else f"\\u{ord(control[0]):04x}"
    if re.search("escape sequence|surrogate|codepoint|invalid character", message):
        near = re.search(r"at index (\d+)", message)
        wrong = re.compile(r"\\(?:u[0-9A-Fa-f]{0,4}|.?)", re.DOTALL)
        at = path.rfind("\\", index, int(near[1]) + 2) if near is not None else -1
        if at < 0:
            bad = re.search(r"\\u(?![0-9A-Fa-f]{4})|\\u00[01]", value)
            at = index + (bad.start() if bad is not None else max(0, value.find("\\")))
        escape = wrong.match(path, at)
        return at, escape[0] if escape is not None else ""
    return index - 1, path[index - 1 : index + len(value) + 1]


# --- jsonpath-ng -----------------------------------------------------------------------------------------------------

_OPERATORS = "`len`, `keys`, `path`, `sorted`, `this`, `parent`, `str()`, `split(...)` or `sub(...)`"
_FORMS = {"sub": "`sub(/regex/, text)`", "split": "`split(text, index, -1)`", "str": "`str()`"}
_SOURCE = re.compile(r"-?\d+(?:\.\d+)?|@?[A-Za-z_][\w@-]*|&&|\|\||=~|[=!<>]=?|\.\.|.", re.DOTALL)
_WORDS = (
    ("]", '"]"'), (",", '","'), (":", '":"'), (")", '")"'), ("NUMBER", "a whole number"), ("ID", "a name"),
    ("AND", '"&&"'), ("OR", '"||"'), (".", '"."'), ("[", '"["'), ("+", "an operator such as +"),
)  # fmt: skip


class _StoppedError(Exception):
    def __init__(self, token: object, wanted: frozenset[str]) -> None:
        super().__init__()
        self.token, self.wanted = token, wanted


class _Parser(ExtendedJsonPathParser):
    """Says at which token it stops, and which ones it would take there."""

    def p_error(self, t: object) -> Never:
        raise _StoppedError(t, frozenset(self.parser.action[self.parser.state]))  # type: ignore[attr-defined]


def of_ng(path: str, error: Exception) -> BadPathError:
    """The words for what `jsonpath_ng` raised."""
    message = str(error)
    named = re.match(r"Unknown named operator `(.*)` at", message, re.DOTALL)
    if named is not None:
        return _operator(path, named[1], _OPERATORS)
    if isinstance(error, DefintionInvalid):
        text = message.removesuffix(" is not valid")
        return _operator(path, text, _FORMS.get(text.partition("(")[0], _OPERATORS))
    if isinstance(error, re.error):
        wanted = f"a regular expression of Python between its slashes: {error.msg}"
        return BadPathError(path, NG, wanted, path.find("`sub("), "`sub(...)`")
    if isinstance(error, JsonPathLexerError):
        return _sign(path, message)
    if "regex operator" in message:
        return BadPathError(path, NG, "a text in quotes behind it", path.find("=~"), "=~")
    if isinstance(error, RecursionError):
        return BadPathError(path, NG, _LESS_DEEP)
    return _stopped(path)


def _operator(path: str, text: str, expected: str) -> BadPathError:
    at = path.find(f"`{text}")
    return BadPathError(path, NG, expected, at if at >= 0 else None, f"`{text}`")


def _sign(path: str, message: str) -> BadPathError:
    """A quote that is not closed, or a character that has no meaning there."""
    opened, quote = _open_quote(path)
    if quote:
        return BadPathError(path, NG, f"a second {quote}, where it ends", opened, path[opened:])
    seen = re.search(r"line (\d+), col (\d+).*Unexpected character: (.)", message, re.DOTALL)
    if seen is None:
        return BadPathError(path, NG, "something else")
    newline = -1
    for _ in range(int(seen[1]) - 1):
        newline = path.find("\n", newline + 1)
    at = path.find(seen[3], max(0, newline) + int(seen[2]))
    return BadPathError(path, NG, "a name in quotes where it holds such a character", at if at >= 0 else None, seen[3])


def _open_quote(path: str) -> tuple[int, str]:
    """Where a quote of any kind is opened and not closed, and which."""
    opened, quote, skip = 0, "", False
    for position, char in enumerate(path):
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char in "'\"`":
            opened, quote = position, char
    return opened, quote


def _stopped(path: str) -> BadPathError:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _Parser().parse(path)
    except _StoppedError as stop:
        at: int | None = getattr(stop.token, "lexpos", None)
        if at is None:
            return BadPathError(path, NG, _wanted(stop.wanted), len(path))
        if path[at] in "'\"`":  # the place of the second quote
            first = path.rfind(path[at], 0, at)
            return BadPathError(path, NG, _wanted(stop.wanted), first, path[first : at + 1])
        source = _SOURCE.match(path, at)
        return BadPathError(path, NG, _wanted(stop.wanted), at, source[0] if source is not None else "")
    except Exception:  # noqa: BLE001, S110 - it is the library's defect that is told, and it is told below
        pass
    return BadPathError(path, NG, "a path such as $.a[0] or a.b.`len`")


def _wanted(names: frozenset[str]) -> str:
    """The tokens that could follow, in words."""
    if "$" in names:
        return "a name, $, @, *, a number or an operator such as `len`" if "[" in names else _VALUE
    if "?" in names:
        return "an index, a name, a slice such as 0:2, * or a filter such as ?(@.a == 1)"
    if "$end" in names:
        return '".", "[", an operator such as +, or the end of the path'
    words = [word for name, word in _WORDS if name in names]
    return any_of(words) if words else "something else"
