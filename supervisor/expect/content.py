"""One body or output while it is judged: decoded, parsed once, and only when a rule needs it. Pure."""

from __future__ import annotations

from supervisor.expect import markup, strictjson
from supervisor.expect.decode import decode, find_encoding
from supervisor.expect.describe import ACTUAL_LIMIT
from supervisor.model import JsonValue

_UNREAD = object()


class Content:
    """Bytes with their text, JSON and tree."""

    __slots__ = ("_encoding", "_json", "_text", "_tree", "content", "content_type")

    def __init__(self, content: bytes, content_type: str = "", *, encoding: str | None = None) -> None:
        self.content = content
        self.content_type = content_type
        self._encoding = (encoding, 0) if encoding else None
        self._text: str | None = None
        self._json: object = _UNREAD
        self._tree: markup.Tree | Exception | None = None

    @property
    def encoding(self) -> tuple[str, int]:
        """The encoding, and the length of the byte order mark."""
        if self._encoding is None:
            self._encoding = find_encoding(self.content, self.content_type)
        return self._encoding

    @property
    def text(self) -> str:
        """The whole text."""
        if self._text is None:
            self._text = decode(self.content, *self.encoding)
        return self._text

    def beginning(self) -> str:
        """What `actual` shows of the text, without decoding the rest."""
        return (
            self.text[:ACTUAL_LIMIT] if self._text is not None else decode(self.content[:ACTUAL_LIMIT], *self.encoding)
        )

    def contains(self, needle: str) -> bool:
        """`needle in text`, on the bytes where that is the same: a valid UTF-8 sequence can't start within another, and
        U+FFFD is the only character that decoding makes of something else."""
        if self._text is None and self.encoding[0] == "utf-8" and "\ufffd" not in needle:
            try:
                return self.content.find(needle.encode(), self.encoding[1]) >= 0
            except UnicodeEncodeError:  # a lone surrogate is in no decoded text
                return False
        return needle in self.text

    def json(self) -> JsonValue:
        """The document; raises strictjson.NotJsonError."""
        if self._json is _UNREAD:
            try:
                self._json = strictjson.parse(self.text)
            except strictjson.NotJsonError as error:
                self._json = error
        if isinstance(self._json, strictjson.NotJsonError):
            raise self._json
        return self._json

    def tree(self) -> markup.Tree:
        """The tree; raises markup.MarkupMismatchError or markup.MarkupLostError."""
        if self._tree is None:
            try:
                self._tree = markup.parse(self.content, self.content_type, *self.encoding)
            except (markup.MarkupMismatchError, markup.MarkupLostError) as error:
                self._tree = error
        if isinstance(self._tree, Exception):
            raise self._tree
        return self._tree
