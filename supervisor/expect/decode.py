"""From the bytes of a body to text: which encoding they are in (design section 4.1). Pure.

Order: byte order mark, charset of the header, declaration in the document (XML declaration, HTML meta), UTF-8. What
does not decode becomes U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

_BOMS = (  # the longer marks first: UTF-32 LE begins like UTF-16 LE
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CHARSET = re.compile(r"""(?:^|;)\s*charset\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s;"']+))""", re.IGNORECASE)
_XML_DECLARATION = re.compile(rb"""<\?xml\s[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_META = re.compile(rb"""<meta\s[^>]{0,400}?charset\s*=\s*["']?\s*([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_META_WINDOW = 4096
_WIDE = ("utf-16", "utf-32", "utf_16", "utf_32")
# Codecs of Python that are no charsets of the web, or that can't replace what does not decode.
_REFUSED = frozenset({"idna", "punycode", "unicode_escape", "raw_unicode_escape", "undefined", "utf_7", "mbcs", "oem"})
# What servers name and what they send, as every browser reads it (WHATWG Encoding, 4.2): the larger charset.
_MEANT = {
    "utf-8-sig": "utf-8",
    "ascii": "utf-8",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
}


@lru_cache(maxsize=256)
def known_encoding(name: str) -> str | None:
    """Python's name of the charset, or None for one it does not know."""
    try:
        info = codecs.lookup(name.strip())
        if info.name.replace("-", "_") not in _REFUSED:
            b"a".decode(info.name, "replace")  # refuses codecs that are no text encodings, such as hex and zip
    except (LookupError, ValueError):
        return None
    if info.name.replace("-", "_") in _REFUSED:
        return None
    return _MEANT.get(info.name, info.name)


@lru_cache(maxsize=256)
def header_encoding(content_type: str) -> str | None:
    """The charset that a Content-Type names, if there is one and it is known."""
    found = _CHARSET.search(content_type)
    if not found:
        return None
    name = known_encoding(found.group(1) or found.group(2) or found.group(3) or "")
    return {"utf-16": "utf-16-be", "utf-32": "utf-32-be"}.get(name, name) if name else None  # no mark: RFC 2781, 4.3


def find_encoding(content: bytes, content_type: str) -> tuple[str, int]:
    """The encoding, and the length of the mark that is not part of the text."""
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            return encoding, len(mark)
    return header_encoding(content_type) or _declared_encoding(content) or "utf-8", 0


def _declared_encoding(content: bytes) -> str | None:
    if not content[:256].lstrip().startswith(b"<"):
        return None
    head = content[:_META_WINDOW]
    found = _XML_DECLARATION.match(head) or _META.search(_COMMENT.sub(b"", head))
    if not found:
        return None
    name = known_encoding(found.group(1).decode("ascii"))
    # A declaration that could be read as ASCII is not in UTF-16, whatever it says (WHATWG HTML, 13.2.3.2).
    return "utf-8" if name and name.startswith(_WIDE) else name


def decode(content: bytes, encoding: str, skip: int = 0) -> str:
    """The text; what does not decode is U+FFFD."""
    return (content[skip:] if skip else content).decode(encoding, "replace")


def header_text(value: str) -> str:
    """A header's value as its sender meant it: UTF-8 where its bytes are that, else latin-1 (RFC 9110, 5.5 leaves it
    open). `value` is latin-1 text."""
    if value.isascii():
        return value
    try:
        return value.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return value
