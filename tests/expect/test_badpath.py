"""What the loader says of a path that it refuses: the path, the place, what stands there, what was expected."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.expect import check_json_path
from tests.expect.support import refusal, refused

_SELECTOR = "a name in quotes, an index, a slice such as 0:2, * or a filter such as ?@.a == 1"
_VALUE = "a value or a path, such as 5, 'text', true or @.name"
_NAME = "a name or *; an index stands in brackets, as in [0]"
_ESCAPE = r"one of the escapes \b \f \n \r \t \/ \\ and \uXXXX, or a \ before the quote that opened the text"
_OPERATOR = "`len`, `keys`, `path`, `sorted`, `this`, `parent`, `str()`, `split(...)` or `sub(...)`"
_START = "a name, $, @, *, a number or an operator such as `len`"
_OF_THE_LIBRARIES = re.compile(r"TOKEN|\b[A-Z]{3,}\b(?! of the)|\bnear token\b|shorthand|singular|Parse error|lexing")
_OURS = re.compile(r"JSONPath|RFC")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("$.", f" at its end: expected {_NAME}"),
        ("$..", ' at its end: expected a name, * or "["'),
        ("$.1", f' at character 3: found "1", expected {_NAME}'),
        ("$[", f" at its end: expected {_SELECTOR}"),
        ("$[]", f' at character 2: found "[]", expected {_SELECTOR}'),
        ("$[0,]", f' at character 5: found "]", expected {_SELECTOR}'),
        ("$['a'", ' at its end: expected "," or "]"'),
        ("$['a' 'b']", ' at character 7: found "\'b\'", expected "," or "]"'),
        ("$['a", " at character 3: found \"'a\", expected a second ', where the text ends"),
        ("$[01]", ' at character 3: found "01", expected a number without a leading zero, such as 7 or -1'),
        (" $", " at character 1: found a blank, expected no blank before and behind the path: a path begins with $"),
        ("$ ", " at character 2: found a blank, expected no blank before and behind the path"),
        ("$.a b", ' at character 5: found "b", expected ".", "[" or the end of the path'),
        ("$.a | $.b", ' at character 5: found "|", expected ".", "[" or the end of the path'),
        ("$.a[?(@.x==]", f' at character 12: found "]", expected {_VALUE}'),
        ("$[?@.a ==", f" at its end: expected {_VALUE}"),
        ("$[?@.x = 1]", ' at character 8: found "=", expected == in a comparison'),
        ("$[?(@.a == 1]", ' at character 4: found "(", expected a ")" for each "("'),
        ("$[?true]", ' at character 4: found "true", expected a comparison such as @.a == 5, or a path'),
        ("$[?length()==1]", " at character 4: found length(...), expected 1 argument"),
        ("$[?count(1)>2]", " at character 4: found count(...), expected a path such as @.* as argument 1"),
        ("$[?match(@.a,'b')==1]",
         " at character 4: found match(...), expected it alone, as it is true or false by itself"),
        ("$[?lower(@)==1]",
         ' at character 4: found "lower", expected one of the functions length, count, match, search and value'),
        ("$['\\x']", f' at character 4: found "\\x", expected {_ESCAPE}'),
        ("$['\t']", " at character 4: found a tab, expected an escape such as \\n or \\u0000"),
        ("$[?@.a == 1e400]", ": expected smaller numbers"),
    ],
)  # fmt: skip
def test_rfc_9535(path: str, told: str) -> None:
    """The words are ours, the library's are of its tokens."""
    assert refused(check_json_path, path) == f"{path} is not a JSONPath of RFC 9535{told}"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("$.", f" at its end: expected {_START}"),
        ("$.a[", " at its end: expected an index, a name, a slice such as 0:2, * or a filter such as ?(@.a == 1)"),
        ("$.a[0", ' at its end: expected "]", "," or ":"'),
        ("a.b)", ' at character 4: found ")", expected ".", "[", an operator such as +, or the end of the path'),
        ("$.a[?(@.x==]", f' at character 12: found "]", expected {_VALUE}'),
        ("$.a[?(@.x==1]", ' at character 13: found "]", expected ")" or "||"'),
        ("$.a[0,'b']", ' at character 7: found "\'b\'", expected a whole number'),
        ("$.a['b", " at character 5: found \"'b\", expected a second ', where it ends"),
        ("$.\n#", ' at character 4: found "#", expected a name in quotes where it holds such a character'),
        ("$.`foo`", f' at character 3: found "`foo`", expected {_OPERATOR}'),
        ("$.`sub(x)`", " at character 3: found `sub(x)`, expected `sub(/regex/, text)`"),
        ("$.a[?(@.x=~@.y)]", ' at character 10: found "=~", expected a text in quotes behind it'),
    ],
)  # fmt: skip
def test_jsonpath_ng(path: str, told: str) -> None:
    """The same form for the other dialect."""
    assert refused(check_json_path, path, "jsonpath-ng") == f"{path} is not a path of jsonpath-ng{told}"


@pytest.mark.parametrize("dialect", ["rfc9535", "jsonpath-ng"])
@given(tail=st.text(st.sampled_from("$@.*[]()?'\"`\\,:=!<>&|~+-/0a e\u00e9\n#"), max_size=12))
def test_no_word_of_the_libraries_gets_out(dialect: str, tail: str) -> None:
    """Whatever is wrong is said in words, with what was expected; the place lies in the path."""
    problem = refusal(check_json_path, f"$.x{tail}", dialect)
    if problem is None:
        return
    path, _, told = problem.partition(" is not a ")
    assert path == f"$.x{tail}"
    assert ": expected " in told or ", expected " in told, problem
    assert not _OF_THE_LIBRARIES.search(_OURS.sub("", told)), problem
    place = re.search(r" at character (\d+): found ", told)
    assert place is None or 1 <= int(place[1]) <= len(path)


def test_long_paths_and_paths_with_secrets_are_not_quoted() -> None:
    """A long one is told by its size; of one that holds a secret only what may be displayed is."""
    long = "$" + ".abc" * 60
    assert refused(check_json_path, f"{long}[").startswith("the path of 242 characters is not a JSONPath of RFC 9535")
    told = refused(check_json_path, "$.a[?@.k == hunter2]", "rfc9535", "$.a[?@.k == ${KEY}]")
    assert told.startswith("$.a[?@.k == ${KEY}] is not a JSONPath of RFC 9535 at character 13: expected a value")
    assert "hunter2" not in told
    for dialect in ("rfc9535", "jsonpath-ng"):
        assert "hunter2" not in refused(check_json_path, "hunter2[", dialect, "${KEY}[")
