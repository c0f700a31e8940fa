"""What Hypothesis draws from: JSON values, operators, bodies."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not, Operator

_NEAR = [0, 1, -1, 2, 10, 0.0, 1.0, -0.0, 0.5, 1e3, 2**53, 2**53 + 1, 10**30, True, False, None]
_WORDS = [
    "",
    " ",
    "\u00a0",
    "a",
    "ab",
    "ok",
    "OK",
    "1",
    "1.0",
    "10",
    " 1",
    "1e3",
    "nan",
    "inf",
    "true",
    "null",
    "ok\n",
    "é",
]
scalars: st.SearchStrategy[Any] = (
    st.sampled_from(_NEAR)
    | st.sampled_from(_WORDS)
    | st.text(max_size=6)
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
)
json_values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
numbers = st.integers(-20, 20) | st.sampled_from([0.5, 1.0, 2**53, 10**30, 1e3])
_patterns = st.sampled_from(["", "a", "^ok$", r"\d", "(?i)ok", "x+$", r"^\s*$", "[^a]"])
_flat: st.SearchStrategy[Operator] = st.one_of(
    st.builds(Equals, json_values),
    st.builds(Contains, scalars),
    st.builds(Match, _patterns),
    st.builds(Empty, st.booleans()),
    st.builds(Exists, st.booleans()),
    st.builds(Compare, st.sampled_from(["gte", "lte", "gt", "lt"]), numbers),
    st.builds(
        lambda op, number: Count((Compare(op, number),)), st.sampled_from(["gte", "lte", "gt", "lt"]), st.integers(0, 4)
    ),
    st.builds(lambda number: Count((Equals(number),)), st.integers(0, 4)),
)
operators: st.SearchStrategy[Operator] = st.recursive(
    _flat, lambda inner: st.builds(lambda held: Not(tuple(held)), st.lists(inner, min_size=1, max_size=2)), max_leaves=3
)
content_types = st.sampled_from(
    ["", "application/json", "text/html", "text/html; charset=utf-16", "application/xml", "text/xml; charset=latin1",
     "text/plain; charset=nonsense", "text/html; charset=shift_jis", "image/svg+xml", ";;;charset=", "x" * 300]
)  # fmt: skip
_pieces = st.sampled_from(
    [b'{"a":', b"[", b"]", b"}", b'"', b"<", b">", b"</", b"<p>", b"<!--", b"-->", b"<?xml version='1.0'?>", b"&amp;",
     b"&x;", b"<!DOCTYPE a [", b"<!ENTITY x 'y'>", b"<![CDATA[", b"]]>", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\xc3",
     b"\xed\xa0\x80", b"1e999", b"9" * 5000, b"[" * 2000, b"<d>" * 300, b"\\ud800", b"\x1b[31m", b"null", b"true",
     b":", b",", b" ", b"\n", b"<meta charset=utf-7>", b"xmlns:a='b'", b"a:b", b"<script>", b"<svg>", b"\xe2\x80\xae"]
)  # fmt: skip
bodies = (
    st.binary(max_size=200)
    | st.lists(_pieces, max_size=12).map(b"".join)
    | json_values.map(lambda value: json.dumps(value).encode())
)
