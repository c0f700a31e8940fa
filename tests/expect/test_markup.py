"""HTML and XML: which parser, which names, and nothing from outside the document."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from supervisor.expect.spec import Compare, Contains, Count, Empty, Equals, Exists, Not
from tests.expect.support import css, failure_of, holds, xp

ATOM = '<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom"><entry><title>A</title></entry><entry><title>B</title></entry></feed>'
A = "http://www.w3.org/2005/Atom"


def test_css_names_match_in_any_namespace_of_xml() -> None:
    """As CSS has it; XPath asks for the prefix."""
    assert holds(css("feed > entry title", Count((Equals(2),))), ATOM)
    assert holds(css("entry:nth-child(2) title", Equals("B")), ATOM)
    assert not holds(xp("//entry", Exists(True)), ATOM)
    assert holds(xp("//a:entry/a:title", Equals("A"), some=True, a=A), ATOM)
    assert holds(xp("count(//a:entry)", Equals(2), a=A), ATOM, "application/atom+xml")
    assert not holds(css("Entry", Exists(True)), ATOM)


@pytest.mark.parametrize(
    ("content", "content_type", "is_xml"),
    [
        ("<Big>x</Big>", "text/html", False), ("<Big>x</Big>", "", False), ("<Big>x</Big>", "text/plain", False),
        ("<Big>x</Big>", "application/xhtml+xml", False), ("<Big>x</Big>", "text/xml; charset=utf-8", True),
        ("<Big>x</Big>", "image/svg+xml", True), ('<?xml version="1.0"?><Big>x</Big>', "", True),
        ('\ufeff<?xml version="1.0"?><Big>x</Big>', "application/octet-stream", True),
        ('<?xml version="1.0"?><html><Big>x</Big></html>', "", False),
        ('<?xml version="1.0"?><Big>x</Big>', "TEXT/HTML", False),
    ],
    ids=repr,
)  # fmt: skip
def test_the_header_decides_between_html_and_xml(content: str, content_type: str, is_xml: bool) -> None:
    """Then the XML declaration; HTML has lower-case names."""
    assert holds(xp("//Big", Exists(True)), content, content_type) == is_xml
    assert holds(xp("//big", Equals("x")), content, content_type) != is_xml


def test_attributes_are_values_and_may_be_absent() -> None:
    """A node without the attribute is an absent value."""
    body = '<a href="/1">x</a><a HREF=" /2 ">y</a><a>z</a>'
    assert not holds(css("a", Exists(True), attribute="href"), body)
    assert holds(css("a", Exists(True), attribute="href", some=True), body)
    assert holds(css("a", Equals("/2"), attribute="href", some=True), body)
    assert not holds(css("a", Not((Equals("/9"),)), attribute="href"), body)
    assert holds(css("a[href]", Not((Equals("/9"),)), attribute="Href"), body)
    assert holds(css("a", Exists(False), attribute="title"), body)
    assert not holds(css("a", Exists(False), attribute="href"), body)
    assert holds(xp("//a/@href", Contains("/"), Count((Equals(2),))), body)
    failure = failure_of(css("a", Exists(True), attribute="href"), body)
    assert failure is not None
    assert failure.message == "value 3 of 3 of href of a is missing"
    assert failure.path == "expect.body[0].css(a)@href"


def test_text_sources_compare_numbers() -> None:
    """The text of nodes is text: numbers are compared by value where the expected is one."""
    body = "<b> 42 </b><i></i><u>4,2</u>"
    assert holds(css("b", Equals(42), Compare("gte", 42)), body)
    assert holds(css("i", Empty(True), Exists(True)), body)
    assert not holds(css("u", Compare("gte", 0)), body)
    assert holds(xp("//b/text()", Equals("42")), body)
    assert holds(xp("//comment()", Equals("c")), "<p><!-- c --></p>")
    assert holds(xp("//p", Equals("ac")), "<p>a<!-- b -->c</p>")


_LEVELS = [("x0", "ha")] + [(f"x{level}", f"&x{level - 1};" * 10) for level in range(1, 12)]
BILLION = (
    "<!DOCTYPE a [" + "".join(f'<!ENTITY {name} "{value}">' for name, value in _LEVELS) + "]><a b='&x11;'>&x11;</a>"
)


@pytest.mark.parametrize("content_type", ["text/xml", "text/html"])
def test_entities_are_not_expanded(content_type: str) -> None:
    """A billion laughs costs nothing and matches nothing."""
    began = time.monotonic()
    for path in ("//a", "//a/@b", "string(/)", "string-length(/)", "count(//a)"):
        assert not holds(xp(path, Contains("haha")), BILLION, content_type)
        assert not holds(xp(path, Compare("gt", 100)), BILLION, content_type)
    assert time.monotonic() - began < 2


def test_files_are_not_read(tmp_path: Path) -> None:
    """Neither by an external entity nor by an external DTD."""
    secret = tmp_path / "secret"
    secret.write_text("<!ENTITY nbsp 'canary'>canary")
    for content in (
        f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}">]><a>&x;</a>',
        f'<!DOCTYPE a SYSTEM "file://{secret}"><a>[&nbsp;]</a>',
        f'<!DOCTYPE a [<!ENTITY % p SYSTEM "file://{secret}"> %p;]><a>&nbsp;</a>',
        f'<a xmlns:xi="http://www.w3.org/2001/XInclude"><xi:include href="file://{secret}" parse="text"/></a>',
    ):
        for rule in (
            xp("//a", Contains("canary")),
            xp("string(/)", Contains("canary")),
            xp("document('x')", Exists(True)),
        ):
            failure = failure_of(rule, content, "text/xml")
            assert failure is not None
            assert failure.kind == "mismatch"
            assert "canary" not in f"{failure.message}{failure.actual}".replace('contain "canary"', "")


def test_a_document_with_entities_of_its_own_says_so() -> None:
    """Not expanded means that its text can't be judged."""
    failure = failure_of(xp("//a", Exists(True)), '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>', "text/xml")
    assert failure is not None
    assert "entity, &x;," in failure.message
    for content in ("<!DOCTYPE a SYSTEM 'x'><a b='[&nbsp;]'/>", "<!DOCTYPE a SYSTEM 'x'><a>[&nbsp;]</a>"):
        assert not holds(xp("//a", Exists(True)), content, "text/xml")
    assert holds(xp("//a", Equals("z")), '<!DOCTYPE a [<!ENTITY x "y">]><a>z</a>', "text/xml")
    assert holds(xp("//a", Equals("<é>")), "<!DOCTYPE a><a>&lt;&#233;&gt;</a>", "text/xml")
