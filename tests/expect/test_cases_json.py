"""The E cases on JSON and its operators: inputs from public bug reports, each with relatives of its kind."""

from __future__ import annotations

import json
import time

import pytest

from supervisor.expect import check_json_path
from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not
from supervisor.text import MISSING, cut
from tests.expect.support import failure_of, holds, js, refused


def test_e01_null_is_there_and_missing_is_not() -> None:
    """null exists and equals null; an absent member is neither, and the failure says that it is missing."""
    body = {"a": None}
    assert holds(js("$.a", Exists(True)), body)
    assert holds(js("$.a", Equals(None)), body)
    assert not holds(js("$.a", Compare("gte", 1)), body)
    for operator in (Exists(True), Equals(None), Equals("undefined"), Contains("u"), Match(""), Compare("lte", 0)):
        failure = failure_of(js("$.b", operator), body)
        assert failure is not None
        assert (failure.actual, failure.path) == (MISSING, "expect.body[0].json($.b)")
        assert "$.b is missing" in failure.message
    assert holds(js("$.b", Exists(False)), body)
    assert not holds(js("$.a", Exists(False)), body)


@pytest.mark.parametrize("path", ["$.data.name.invalid", "$.data.name[0]", "$.data.name['0']", "$.data.name.length"])
def test_e02_path_past_a_scalar_is_missing(path: str) -> None:
    """A text has no members and no elements."""
    body = {"data": {"name": "john"}}
    assert not holds(js(path, Equals("john")), body)
    assert not holds(js(path, Equals("j")), body)
    assert holds(js(path, Exists(False)), body)


def test_e02_a_document_that_is_a_text_is_not_parsed_again() -> None:
    """A JSON text that holds JSON is a text."""
    assert holds(js("$", Equals('{"a": 1}')), json.dumps('{"a": 1}'))
    assert not holds(js("$.a", Exists(True)), json.dumps('{"a": 1}'))
    assert not holds(js("$..a", Exists(True)), json.dumps('{"a": 1}'))
    assert holds(js("$", Equals("not json")), json.dumps("not json"))


def test_e03_numbers_are_never_compared_as_text() -> None:
    """Text that is wholly a number compares as this number; the failure shows that it is a text."""
    failure = failure_of(js("$.load", Compare("lt", 9)), {"load": "10"})
    assert failure is not None
    assert failure.actual == '"10"'
    assert not holds(js("$.load", Compare("lt", 9)), {"load": 10})
    assert holds(js("$.load", Compare("gt", 9)), {"load": "10"})
    assert holds(js("$.v", Compare("lt", 3)), {"v": "2.42"})
    for value in ("10 MB", "", " 10", "1_000", "0x10", "ten", "inf", "NaN", "١٠", "1e400", "1,5"):
        assert not holds(js("$.load", Compare("gte", 0)), {"load": value})
        assert not holds(js("$.load", Compare("lte", 0)), {"load": value})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1), (1, True), (False, 0), (0, False), ({"a": 1}, {"a": True}), ([1], [True]), ("1", 1), (1, "1"),
        ("true", True), (None, False), (None, ""), ([], {}), ([[0]], [[False]]), ("", None), (0, None), ("null", None),
    ],
    ids=repr,
)  # fmt: skip
def test_e05_types_differ(value: object, expected: object) -> None:
    """true is not 1, at any depth."""
    assert not holds(js("$.v", Equals(expected)), {"v": value})
    assert not holds(js("$.v", Contains(expected)), {"v": [value]})
    assert holds(js("$.v", Not((Equals(expected),))), {"v": value})


@pytest.mark.parametrize("op", ["gte", "lte", "gt", "lt"])
def test_e05_booleans_have_no_order(op: str) -> None:
    """true >= 1 does not hold, as an operator and in a filter."""
    assert not holds(js("$.v", Compare(op, 1)), {"v": True})
    sign = {"gte": ">=", "lte": "<=", "gt": ">", "lt": "<"}[op]
    assert not holds(js(f"$[?@.v {sign} 0]", Exists(True)), [{"v": True}, {"v": False}, {"v": None}, {"v": "x"}])


@pytest.mark.parametrize("path", ["$[?@.a == @.b]", "$[?@.b == @.a]", "$[?@.a == 1 && @.b == true && @.a == @.b]"])
def test_e05_filters_compare_by_type(path: str) -> None:
    """Between two queries too, and inside arrays and objects."""
    for a, b in ((True, 1), ([True], [1]), ({"x": 1}, {"x": True}), (0, False)):
        assert not holds(js(path, Exists(True)), [{"a": a, "b": b}])


def test_e06_integers_are_exact_at_any_size() -> None:
    """No integer goes through a float; one of 5,000 digits is a number like any other."""
    body = b'{"id":9007199254740993}'
    assert holds(js("$.id", Equals(9007199254740993)), body)
    assert not holds(js("$.id", Equals(9007199254740992)), body)
    assert not holds(js("$.id", Equals(9007199254740992.0)), body)
    assert holds(js("$.id", Compare("gt", 9007199254740992)), body)
    assert not holds(js("$.id", Compare("lte", 9007199254740992)), body)
    long = b'{"id":' + b"9" * 5000 + b', "s": "ok"}'
    assert holds(js("$.s", Equals("ok")), long)
    assert holds(js("$.id", Equals(10**5000 - 1)), long)
    assert not holds(js("$.id", Equals(10**5000)), long)
    assert holds(js("$.id", Compare("gt", 10**4999)), long)
    failure = failure_of(js("$.id", Equals(1)), long)
    assert failure is not None
    assert cut(failure.actual or "") == "9" * 255 + "…"
    assert "5,000" in failure.message
    assert not holds(js("$[?@.id < 5]", Exists(True)), b"[" + long + b"]")
    assert holds(js("$[?@.id > 5]", Exists(True)), b"[" + long + b"]")
    negative = b"[-" + b"8" * 300_000 + b"]"
    began = time.monotonic()
    assert holds(js("$[0]", Compare("lt", 0)), negative)
    assert time.monotonic() - began < 2


def test_e07_floats() -> None:
    """Numbers are equal by value; no tolerance."""
    for written, expected in (("1.0", 1), ("1", 1.0), ("1e3", 1000), ("-0", 0), ("-0.0", 0), ("1E+2", 100)):
        assert holds(js("$", Equals(expected)), written)
    assert not holds(js("$", Equals(0.3)), "0.30000000000000004")
    assert holds(js("$", Compare("gte", 0.3)), "0.30000000000000004")
    for op in ("gte", "lte", "gt", "lt"):  # what no float can hold is no number to compare with
        assert not holds(js("$", Compare(op, 1)), "1e400") or op in ("gte", "gt")


def test_e09_empty_absent_and_there() -> None:
    """An empty array is there and empty; a missing one is neither."""
    body = {"m": [], "o": {}, "t": " \n\u00a0", "n": None, "z": 0, "f": False}
    for name in ("m", "o", "t", "n"):
        assert holds(js(f"$.{name}", Empty(True)), body)
        assert not holds(js(f"$.{name}", Empty(False)), body)
        assert holds(js(f"$.{name}", Exists(True)), body)
    for name in ("z", "f"):
        assert not holds(js(f"$.{name}", Empty(True)), body)
        assert holds(js(f"$.{name}", Empty(False)), body)
    assert not holds(js("$.m[0]", Exists(True)), body)
    failure = failure_of(js("$.zz", Empty(True)), body)
    assert failure is not None
    assert failure.actual == MISSING
    assert not holds(js("$.zz", Empty(False)), body)
    assert not holds(js("$.m[*]", Empty(True)), body)
    assert holds(js("$.m[*]", Exists(False)), body)


def test_e10_many_nodes() -> None:
    """Every value must hold and there must be one; `some` asks for one."""
    body = [{"r": []}, {"e": ""}]
    assert holds(js("$[*].r", Empty(True)), body)
    assert holds(js("$[*].r", Count((Equals(1),))), body)
    values = [{"ok": True}, {"ok": False}, {}]
    assert not holds(js("$[*].ok", Equals(True)), values)
    assert holds(js("$[*].ok", Equals(True), some=True), values)
    assert not holds(js("$[*].ok", Equals("x"), some=True), values)
    assert not holds(js("$[*].nope", Equals(True)), values)
    assert not holds(js("$[*].nope", Equals(True), some=True), values)
    assert holds(js("$[*].nope", Count((Equals(0),))), values)
    assert holds(js("$[*].ok", Count((Compare("gte", 2), Compare("lt", 3)))), values)
    failure = failure_of(js("$[*].ok", Equals(True)), values)
    assert failure is not None
    assert "value 2 of 2" in failure.message
    assert failure.actual == "false"


def test_e11_filters_on_booleans_and_null() -> None:
    """`@.ok==true` selects true only."""
    body = {"items": [{"name": "db", "ok": True}, {"name": "q", "ok": False}, {"name": "c", "ok": None}, {"name": "d"}]}
    assert holds(js("$.items[?(@.ok==true)].name", Equals("db"), Count((Equals(1),))), body)
    assert holds(js("$.items[?@.ok==null].name", Equals("c"), Count((Equals(1),))), body)
    assert holds(js("$.items[?!@.ok].name", Equals("d")), body)
    assert holds(js("$.items[?(@.ok==true)].name", Equals("db"), dialect="jsonpath-ng"), body)


@pytest.mark.parametrize("path", ["$[?(@.state==up)]", "$[?@.a==True]", "$.items[abc]", "$.a[?@.b=='x]", "$[?@.a=1]"])
def test_e13_unquoted_or_mistyped_literals_are_refused(path: str) -> None:
    """They never select anything, so they are an error at load."""
    assert "RFC 9535" in refused(check_json_path, path)


def test_e14_functions_of_rfc_9535() -> None:
    """length, count, match, search and value; others are refused."""
    body = {"items": [{"name": "db"}, {"name": "cache"}, {"name": "日本語"}]}
    assert holds(js("$.items[?length(@.name)>2].name", Count((Equals(2),)), Not((Equals("db"),))), body)
    assert holds(js("$.items[?match(@.name,'c.*e')].name", Equals("cache")), body)
    assert holds(js("$.items[?search(@.name,'^d')].name", Equals("db")), body)
    assert holds(js("$[?count(@.*)==3]", Exists(True)), body)
    assert refused(check_json_path, "$.items[?lower(@.name)=='x']")
    assert refused(check_json_path, "$.items[?length(@.name)]")
    assert refused(check_json_path, "$.items.`len`").endswith("which `dialect: jsonpath-ng` selects")
    assert holds(js("$.items.`len`", Equals(3), dialect="jsonpath-ng"), body)


@pytest.mark.parametrize("dialect", ["rfc9535", "jsonpath-ng"])
@pytest.mark.parametrize("path", ["$.", "$[", "", "$.a[?(@.x==]", "$.a[", "$$", "$.a]"])
def test_e15_bad_paths_are_refused_at_load(path: str, dialect: str) -> None:
    """With a sentence, never with the library's own trouble."""
    assert refused(check_json_path, path, dialect)


@pytest.mark.parametrize("path", ["$..a", "$..[?@.a==1]", "$", "$[0]", "$[*]"])
@pytest.mark.parametrize("depth", [800, 985, 1000, 5000, 100_000])
def test_e17_deep_json_is_no_crash(path: str, depth: int) -> None:
    """It is read, or it is not JSON; no rule on it is ever green by accident."""
    for content in ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth, "[" * depth):
        assert not holds(js(path, Equals("x")), content)
        assert not holds(js(path, Contains("x")), content)
    failure = failure_of(js("$.a", Exists(True)), "[" * depth)
    assert failure is not None
    assert "not JSON" in failure.message


def test_e17_a_deep_document_can_be_compared_and_shown() -> None:
    """What the parser could read is no trouble later."""
    deep: object = []
    for _ in range(700):
        deep = [deep]
    content = "[" * 701 + "]" * 701
    assert holds(js("$", Equals(deep)), content)
    assert not holds(js("$", Equals([deep])), content)


@pytest.mark.parametrize(
    "content", ['{"s":"down","s":"up"}', '{"a":{"s":1,"s":1},"s":"up"}', '[{"s":"up"},{"s":1,"\\u0073":2}]']
)
def test_e18_duplicate_keys_are_not_json(content: str) -> None:
    """A monitor must not guess which one is meant."""
    for operator in (Equals("up"), Exists(True), Exists(False), Not((Equals("down"),)), Count((Compare("gte", 0),))):
        failure = failure_of(js("$..s", operator), content)
        assert failure is not None
        assert failure.kind == "mismatch"
        assert "not JSON" in failure.message
        assert '"s" stands twice' in failure.message


@pytest.mark.parametrize(
    "content",
    ["", "  ", "<html>down</html>", '{"a":1}{"b":2}', '{"a":1,}', "[1,]", "{'a':1}", "NaN", '{"a":NaN}', "-Infinity",
     '{"a":1} x', '"a\nb"', "01", "nul", '{"a":1e}', "\ufeff\ufeff1", "1 2", "{a:1}", "// c\n1",
     '"\\x"', "+1", ".5", "\u00a01"],
    ids=repr,
)  # fmt: skip
def test_e19_not_json(content: str) -> None:
    """A mismatch of the rule that shows how the body begins; under `not` and `exists: false` too."""
    for operator in (Exists(True), Exists(False), Equals(1), Not((Equals("x"),)), Count((Equals(0),)), Empty(True)):
        failure = failure_of(js("$.a", operator), content)
        assert failure is not None
        assert (failure.kind, failure.phase) == ("mismatch", "body")
        assert "not JSON" in failure.message
        assert (failure.actual or "") == (content.removeprefix("\ufeff") or "(empty)")


def test_e19_white_space_around_is_json() -> None:
    """Line ends after the document are part of it, and a byte order mark is not."""
    assert holds(js("$.a", Equals(1)), '{"a":1}\n\n')
    assert holds(js("$.a", Equals(1)), b"\xef\xbb\xbf \t\r\n" + b'{"a":1}')
    assert holds(js("$.a", Equals("é")), '{"a":"é"}'.encode("utf-16"))
    long = "<p>" + "x" * 1000
    failure = failure_of(js("$.a", Exists(True)), long)
    assert failure is not None
    assert cut(failure.actual or "") == long[:255] + "…"


@pytest.mark.parametrize("value", [[], {}, None, True, False, [5], {"a": 5}, "x", "", "5x"])
@pytest.mark.parametrize("operator", [Compare("gte", 1), Compare("lt", 1), Match("5"), Contains("z"), Contains(1)])
def test_e41_operators_on_other_types_do_not_hold(value: object, operator: Compare | Match | Contains) -> None:
    """No TypeError, no match."""
    if operator == Match("5") and value == "5x":
        assert holds(js("$.v", operator), {"v": value})
    else:
        assert not holds(js("$.v", operator), {"v": value})


def test_e06_numbers_too_large_equal_nothing_at_any_depth() -> None:
    """1e400 is not known exactly: not even two of them are equal."""
    infinite = float("inf")
    for path, wanted in (("$", [infinite]), ("$[0]", infinite)):
        assert not holds(js(path, Equals(wanted)), b"[1e400]")
    assert not holds(js("$", Contains(infinite)), b"[1e400]")
    assert holds(js("$", Equals([1.5])), b"[1.5]")
