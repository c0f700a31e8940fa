"""From a body to a tree of elements, as XML or HTML, without losing any of it silently. Pure: no network, no files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lxml import etree

from supervisor.expect.decode import decode
from supervisor.text import count

LIMIT_BYTES = 10_000_000  # libxml2's own limit for a buffer, and for a text
_FATAL = etree.ErrorLevels.FATAL


class MarkupMismatchError(Exception):
    """No document to select from; a mismatch of the rule."""


class MarkupLostError(Exception):
    """The document can't be judged whole; an error of the check."""


@dataclass(slots=True)
class Tree:
    root: Any
    is_xml: bool


def media_type(content_type: str) -> str:
    """`text/html` of `Text/HTML; charset=utf-8`."""
    return content_type.partition(";")[0].strip().lower()


def is_json_type(content_type: str) -> bool:
    """Whether the header says that this is JSON."""
    name = media_type(content_type)
    return name in ("application/json", "text/json") or name.endswith("+json")


def _is_xml(content: bytes, content_type: str) -> bool:
    name = media_type(content_type)
    if name in ("text/html", "application/xhtml+xml"):
        return False
    if name in ("application/xml", "text/xml", "application/xml-dtd") or name.endswith("+xml"):
        return True
    head = content[:1024].lstrip().lower()
    return head.startswith(b"<?xml") and b"<html" not in head


def parse(content: bytes, content_type: str, encoding: str, skip: int) -> Tree:
    """The tree; raises MarkupMismatchError or MarkupLostError with a sentence."""
    if len(content) > LIMIT_BYTES:
        raise MarkupLostError(
            f"the document has {count(len(content))} bytes, css and xpath read at most {count(LIMIT_BYTES)} (10 MB):"
            " use regex or contains, or a smaller page"
        )
    if is_json_type(content_type):
        raise MarkupMismatchError(f"the answer is {media_type(content_type)}: use a json rule instead of css or xpath")
    data = content[skip:] if skip else content
    if encoding != "utf-8":  # libxml2 knows fewer encodings than we do
        data = decode(content, encoding, skip).encode("utf-8", "replace")
    if not data.strip():
        raise MarkupMismatchError("the document is empty")
    is_xml = _is_xml(data, content_type)
    return Tree(_parse_xml(data) if is_xml else _parse_html(data), is_xml)


def _parse_html(data: bytes) -> Any:
    parser = etree.HTMLParser(encoding="utf-8", no_network=True, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise MarkupMismatchError(f"not HTML: {error}") from error
    for entry in parser.error_log:  # libxml2 stops at its limits (depth 255, text of 10 MB) and says so here only
        if entry.level == _FATAL:
            message = entry.message.strip().partition(", use XML_")[0].partition(", try XML_")[0]
            raise MarkupLostError(f"the HTML parser gave up at line {entry.line} and lost what follows: {message}")
    if root is None:
        raise MarkupMismatchError("the document is empty")
    return root


def _parse_xml(data: bytes) -> Any:
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, dtd_validation=False, huge_tree=False
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        if "XML_PARSE_HUGE" in error.msg:  # a limit of libxml2, such as depth 255: the document may be well-formed
            limit = error.msg.partition(", ")[0]
            raise MarkupLostError(f"the XML parser gave up at line {error.lineno}: {limit}") from error
        hint = " (white space before the XML declaration)" if data[:1].isspace() and b"<?xml" in data[:256] else ""
        raise MarkupMismatchError(f"not well-formed XML: {error.msg}{hint}") from error
    _refuse_entities(root, parser, data)
    return root


def _refuse_entities(root: Any, parser: Any, data: bytes) -> None:
    """Entities of a document are not expanded: eight lines can stand for gigabytes, or for a file of ours. But libxml2
    expands some of them in string() and drops others there, so a document that uses them can't be judged."""
    internal = root.getroottree().docinfo.internalDTD
    if internal is None:
        return
    used = next((entity.text for entity in root.iter(etree.Entity)), None)
    if used is None:  # in an attribute
        names = (f"&{entity.name};" for entity in internal.iterentities())
        used = next((name for name in names if name.encode() in data), None)
    if used is None and any(entry.type_name.endswith("UNDECLARED_ENTITY") for entry in parser.error_log):
        used = "that it does not declare itself"
    if used is not None:
        raise MarkupMismatchError(f"the document uses an entity, {used}, and entities are not expanded here")
