"""The E cases on HTML and XML: inputs from public bug reports, each with relatives of its kind."""

from __future__ import annotations

import pytest

from supervisor.expect import check_css, check_xpath, lint_css, lint_xpath
from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Match, Not
from tests.expect.support import css, failure_of, has, holds, refused, rx, text, xp


def test_e26_entities_and_white_space() -> None:
    """The raw body has entities; the text of nodes has characters and single blanks."""
    body = "<p>All&nbsp;systems\n operational &amp; fine&lt;</p>"
    assert not holds(has("operational & fine"), body)
    for rule in (css("p", Contains("operational & fine")), css("p", Equals("All systems operational & fine<"))):
        assert holds(rule, body)
    assert holds(xp("//p", Match("^All systems operational")), body)
    assert holds(css("p", Equals("a b c d")), "<p> a\u2003b <b>\u00a0c</b>\u3000\n d </p>")


def test_e27_selector_copied_from_a_browser() -> None:
    """Browsers invent tbody; the loader warns."""
    body = "<table><tr><td>1</td></tr></table>"
    assert not holds(css("table > tbody > tr", Exists(True)), body)
    assert lint_css("table > tbody > tr")
    assert lint_xpath("//table/tbody/tr")
    assert lint_xpath("//TD")
    assert not holds(xp("//TD", Exists(True)), body)
    assert holds(css("TABLE TD", Exists(True)), body)
    assert not holds(css("P.A", Exists(True)), "<p class=a>")
    assert lint_css("table tr") == []
    assert lint_xpath("//td[. = 'TD/TD']") == []


@pytest.mark.parametrize("noise", ["", "</x>" * 300])
@pytest.mark.parametrize("depth", [255, 300, 3000])
def test_e29_html_that_lost_content_is_an_error(depth: int, noise: str) -> None:
    """libxml2 stops at depth 255 without an exception: what follows can't be judged, in neither direction."""
    body = noise + "<div>" * depth + "<b>deep</b>" + "</div>" * depth + "<p>tail</p>"
    for rule in (
        css("p", Exists(False)),
        css("h1", Not((Equals("x"),))),
        xp("//b", Exists(True)),
        xp("count(//p)", Equals(0)),
    ):
        failure = failure_of(rule, body)
        assert failure is not None
        assert failure.kind == "error"
        assert failure.path.startswith("expect.body[0].")
        assert "lost" in failure.message


@pytest.mark.parametrize("before", ["<p>", "<p title='", "<script>", "<!--"])
def test_e29_html_with_a_huge_text_is_an_error(before: str) -> None:
    """libxml2 drops texts above 10,000,000 bytes and stops."""
    failure = failure_of(css("b", Exists(False)), before.encode() + b"x" * 10_100_000 + b"<b>tail</b>")
    assert failure is not None
    assert failure.kind == "error"


def test_e30_large_documents_are_an_error() -> None:
    """css and xpath read at most 10 MB; the text rules read all."""
    limit = 10_000_000
    body = b"<p>ok</p>" + b"<i>" + b"</i><i>".join([b"x" * 50_000] * 210) + b"</i>"
    for rule in (css("p", Equals("ok")), xp("//p", Equals("ok")), css("p", Not((Equals("x"),)))):
        failure = failure_of(rule, body)
        assert failure is not None
        assert (failure.kind, failure.phase) == ("error", "body")
        assert "10 MB" in failure.message
    assert holds(has("<p>ok"), body)
    assert len(body) > limit
    assert holds(css("p", Equals("ok")), body[:limit])


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        ('<?xml version="1.0" encoding="utf-8"?><a>é</a>'.encode(), ""),
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>é</a>'.encode("latin-1"), "text/xml"),
        ('<?xml version="1.0" encoding="utf-16"?><a>é</a>'.encode("utf-16"), "application/xml"),
        ('<?xml version="1.0" encoding="utf-16"?><a>é</a>'.encode(), "application/xml"),
        ('<?xml version="1.0" encoding="ascii"?><a>é</a>'.encode("cp1252"), "text/xml; charset=windows-1252"),
        ("<a>é</a>".encode(), "application/x+xml"),
        ("\ufeff<a>é</a>".encode(), "application/xml"),
        ("<html><a>é".encode(), "text/html"),
        ("<html><a>é".encode("latin-1"), "text/html; charset=ISO-8859-1"),
        ("<html><meta charset=windows-1252><a>é".encode("cp1252"), "text/html"),
        ('<meta http-equiv=x content="text/html; charset=koi8-r"><a>é'.encode(), "text/html; charset=utf-8"),
    ],
    ids=repr,
)  # fmt: skip
def test_e31_declared_encodings(content: bytes, content_type: str) -> None:
    """Mark, header, declaration, UTF-8: for text, css and xpath alike."""
    assert holds(xp("//a", Equals("é")), content, content_type)
    assert holds(css("a", Equals("é")), content, content_type)
    assert holds(has("é</a>") if b"</a>" in content and b"\x00" not in content else rx("é"), content, content_type)


def test_e31_xml_that_is_not_well_formed_is_a_mismatch() -> None:
    """White space before the declaration is such a case, and the message says so."""
    failure = failure_of(xp("//a", Exists(True)), '\n<?xml version="1.0"?><a/>', "text/xml")
    assert failure is not None
    assert failure.kind == "mismatch"
    assert "white space before the XML declaration" in failure.message
    for content in ("<a>", "<a><b></a>", "<a/><b/>", "x", "<a>&nope;</a>", "<a b=1/>", "<!-- c -->"):
        assert not holds(xp("//c", Exists(False)), content, "text/xml")


def test_e33_xpath_scalars_are_typed_values() -> None:
    """Numbers, booleans and texts are compared as JSON; they can't be absent; NaN never holds."""
    body = "<ul><li>a<li>b</ul>"
    assert holds(xp("count(//li)", Equals(2)), body)
    assert holds(xp("count(//li)", Compare("gte", 2)), body)
    assert holds(xp("boolean(//x)", Equals(False)), body)
    assert not holds(xp("boolean(//x)", Equals(0)), body)
    assert holds(xp("string(//nope)", Empty(True)), body)
    assert holds(xp("string(//li)", Equals("a")), body)
    assert not holds(xp("string(//li)", Equals(1)), body)
    for operator in (
        Equals(0),
        Compare("gte", 0),
        Compare("lt", 0),
        Not((Equals(5),)),
        Not((Compare("gt", 1),)),
        Empty(False),
    ):
        assert not holds(xp("number(//nope)", operator), body)
        assert not holds(xp("1 div 0", operator), body)
    for wanted in (True, False):
        failure = failure_of(xp("boolean(//x)", Exists(wanted)), body)
        assert failure is not None
        assert "equals" in failure.message
    assert holds(xp("//li[re:test(., '^A', 'i')]", Equals("a")), body)
    for path in (
        "lower-case(//x)",
        "matches(//x, 'y')",
        "//x[",
        "$v",
        "//p:x",
        "ends-with(., 'x')",
        "//a/text()[",
        "re:test(., '[')",
    ):
        assert refused(check_xpath, path, {})


@pytest.mark.parametrize(
    "path",
    ["//a[matches(., 'x')]", "//a[@b and lower-case(.)='c']", "//a[b[ends-with(., 'x')]]", "count(//a[foo()])",
     "//a[$v]", "//a[. = $v]", "//a[p:b]", "//a/b[@p:c]", "//a[p:test(.)]", "//a/@p:b"],
)  # fmt: skip
def test_e33_names_in_predicates_are_looked_up_at_load(path: str) -> None:
    """An empty document never reaches them, so evaluating there is not enough."""
    assert refused(check_xpath, path, {})


@pytest.mark.parametrize(
    "path",
    ["//a[text()='x: $5 f(x)']", "//a[@b=\"c:d(\"]", "self::node()", "ancestor-or-self::a", "//a[not (b) and (c)]",
     "//a[b div (2) > 1]", "//processing-instruction('x')", "//p:a[p:b]/@p:c", "//a[re:test(., 'x', 'i')]",
     "//*[local-name()='a'][last()]", "//a[@xml:lang='de']", "//a[.//comment()]"],
)  # fmt: skip
def test_e33_names_that_exist_are_found(path: str) -> None:
    """Axes, node types, operators and quoted texts only look like calls, prefixes and variables."""
    check_xpath(path, {"p": "urn:p"})


def test_e29_xml_past_a_limit_is_an_error() -> None:
    """Deep XML may be well-formed; it was not read whole, so nothing is judged."""
    for rule in (xp("//z", Exists(False)), css("a", Exists(True))):
        failure = failure_of(rule, "<a>" * 300 + "</a>" * 300, "text/xml")
        assert failure is not None
        assert failure.kind == "error"
        assert "XML_PARSE" not in failure.message


@pytest.mark.parametrize(
    "selector",
    ["p:not(.a, .c)", "p:nth-child(2 of .a)", "a::text", "p::before", "svg|rect", "p > svg|rect", "p >", "", " ", "p[",
     "a:unknown", "*:nth-of-type(1)"],
    ids=repr,
)  # fmt: skip
def test_e34_selectors_that_are_not_supported_are_refused(selector: str) -> None:
    """At load, with a sentence."""
    assert refused(check_css, selector)


@pytest.mark.parametrize("selector", ["a:hover", "input:focus", "a:visited", "p :active", "a:target"])
def test_e34_selectors_that_never_match_are_a_warning(selector: str) -> None:
    """They depend on a browser with a user before it."""
    check_css(selector)
    assert lint_css(selector)


@pytest.mark.parametrize("content", ["", "   ", "\r\n", "<!-- x -->"])
@pytest.mark.parametrize("content_type", ["", "text/html", "application/xml"])
def test_e35_empty_documents(content: str, content_type: str) -> None:
    """No document to look into: a mismatch, whatever the operator says."""
    for rule in (
        css("p", Exists(False)),
        xp("//p", Exists(False)),
        css("p", Count((Equals(0),))),
        xp("count(//p)", Equals(0)),
    ):
        assert not holds(rule, content, content_type)
    assert holds(text("empty", Empty(True)), content) == (content.strip() == "")
    assert not holds(has("x"), "")


def test_e42_css_on_what_is_no_html() -> None:
    """Plain text is a document of its text; JSON is a mismatch with a hint; NUL is U+FFFD."""
    assert not holds(css("h1", Exists(True)), "hello", "text/plain")
    assert holds(css("body", Equals("hello")), "hello", "text/plain")
    failure = failure_of(css("h1", Exists(False)), '{"a":1}', "application/problem+json; charset=utf-8")
    assert failure is not None
    assert failure.kind == "mismatch"
    assert "json rule" in failure.message
    assert holds(css("p", Equals("a\ufffdb")), b"<p>a\0b")
    assert holds(css("b", Equals("after")), b"<p>\0</p><b>after</b>")
