"""YAML text -> nodes with positions, under limits. Works on libyaml's events, without recursion, so that a hostile file
ends at the first limit it passes and not in memory or on the stack."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

from supervisor.config import scalars, syntax
from supervisor.config.nodes import Document, Entry, Mapping, Node, Scalar, Sequence, join
from supervisor.config.problems import Problems
from supervisor.text import cut

MAX_FILE_BYTES = 16 * 1024 * 1024
MAX_DEPTH = 50
MAX_NODES = 1_000_000
MAX_ALIASES = 20_000

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ud800-\udfff\ufffe\uffff]")
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "null": (type(None),),
    "str": (str,),
    "map": (dict,),
    "seq": (list,),
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_UTF_32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
_PAIR = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_VARIABLE = re.compile(r"(?<!\$)\$\{(file:[^}]+|[A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?)\}")


class _Stop(Exception):  # noqa: N818 - it ends the reading of one file, it is no error of ours
    """The file can't be read further: line, column, path and what is wrong."""

    def __init__(self, line: int, column: int, message: str, path: str = "") -> None:
        super().__init__(message)
        self.line, self.column, self.path = line, column, path


@dataclass(slots=True)
class _Frame:
    """A collection being read. `key` is the key whose value comes next, with its place."""

    node: Mapping | Sequence
    anchor: str | None
    key: tuple[str, int, int] | None = None
    merges: list[tuple[Node, int, int]] | None = None


class Reader:
    """Reads the files of one load; the node limit holds for all of them together."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems
        self._nodes = 0

    def read(self, content: bytes, file: str) -> Document | None:
        """The document, or None when a problem made it unreadable (which is noted then)."""
        try:
            text = _decode(content)
            parse = _Parse(text, file, self._problems, self._nodes)
            document = parse.run()
            self._nodes = parse.nodes
        except _Stop as stop:
            self._problems.error_at(file, stop.line, stop.column, stop.path, str(stop))
            return None
        return document


def _decode(content: bytes) -> str:
    if len(content) > MAX_FILE_BYTES:
        raise _Stop(1, 1, f"the file has {len(content):,} bytes; at most {MAX_FILE_BYTES:,} are read: split it")
    wide = (b"\0\0", b"\0") if len(content) > 1 else ()  # every other byte of the first characters
    if content[:4] in _UTF_32 or (content[:2] not in _UTF_16 and (content[:4:2] in wide or content[1:4:2] in wide)):
        raise _Stop(1, 1, "the file looks like UTF-16 or UTF-32: save it in UTF-8")
    encoding = "utf-16" if content[:2] in _UTF_16 else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as exc:
        before = content[: exc.start]
        line = before.count(b"\n") + 1
        column = len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        byte = content[exc.start] if exc.start < len(content) else 0
        raise _Stop(
            line, column, f"byte 0x{byte:02X} is not valid {encoding[:6].upper().rstrip('-')}: save the file in UTF-8"
        ) from exc
    found = _FORBIDDEN.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        column = found.start() - text.rfind("\n", 0, found.start())
        raise _Stop(
            line,
            column,
            f"the character U+{ord(found.group()):04X} is not allowed in YAML: "
            "remove it, or write it as an escape in double quotes",
        )
    if text.lstrip()[:1] == "{":  # JSON, which writes a character beyond U+FFFF as two escapes; YAML has none such
        return _PAIR.sub(_joined, text)
    return text


def _joined(found: re.Match[str]) -> str:
    high, low = int(found[2], 16), int(found[3], 16)
    return f"{found[1]}\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"


class _Parse:
    """One pass over the events of one file."""

    def __init__(self, text: str, file: str, problems: Problems, nodes: int) -> None:
        self.text, self.file, self.problems, self.nodes = text, file, problems, nodes
        self.root: Node | None = None
        self.document = Document(file, Mapping({}, file, 1, 1))
        self.stack: list[_Frame] = []
        self.anchors: dict[str, Node] = {}
        self.aliases = 0
        self.documents = 0

    def run(self) -> Document | None:
        loader = _Loader(self.text)
        try:
            while True:
                event = loader.get_event()
                if event is None:
                    break
                self._event(event)
        except yaml.MarkedYAMLError as exc:
            raise self._syntax(exc) from exc
        except yaml.YAMLError as exc:
            raise _Stop(1, 1, f"the file is not YAML: {exc}") from exc
        finally:
            loader.dispose()
        root = self.root
        if root is None or (isinstance(root, Scalar) and root.value is None):
            raise _Stop(1, 1, "the file is empty: it needs at least `targets:`")
        if not isinstance(root, Mapping):
            what = "a list" if isinstance(root, Sequence) else "a text"
            odd = syntax.odd(self.text)
            hint = f", and {odd[1]}" if odd is not None else ""
            raise _Stop(root.line, root.column, f"the file holds {what}, expected sections such as `targets:`{hint}")
        self.document.root = root
        return self.document

    def _event(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            self._scalar(event)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            self._open(event)
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self._close()
        elif kind is yaml.AliasEvent:
            self._alias(event)
        elif kind is yaml.DocumentStartEvent:
            self.documents += 1
            if self.documents > 1:
                mark = event.start_mark
                raise _Stop(
                    mark.line + 1,
                    mark.column + 1,
                    "a second document begins here (`---`): "
                    "put each document in a file of its own and give the directory",
                )

    # --- nodes

    def _scalar(self, event: Any) -> None:
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        frame = self.stack[-1] if self.stack else None
        is_plain = not event.style and event.implicit[0]
        if frame is not None and frame.key is None and isinstance(frame.node, Mapping):
            self._key(frame, event.value, is_plain, line, column)
            return
        if event.tag is not None and event.tag != "!":
            self._check_tag(event.tag, line, column)
        value: Any = event.value
        if is_plain or (event.tag and event.tag != "!" and not event.tag.endswith(":str")):
            value = scalars.resolve(event.value)
            self._check_type(event.tag, value, line, column)
        node = Scalar(value, self.file, line, column, event.value, is_plain)
        if is_plain and type(value) is int and scalars.looks_octal(event.value):
            octal = f"0o{event.value.lstrip('+-0')}"
            message = f"{event.value} is read as {value}, not as an octal number: write {octal} or quote it"
            if "8" in octal or "9" in octal:
                message = f"{event.value} is read as {value}: write {value} or quote it"
            self.problems.warning(node, self._path(), message)
        if "$" in event.value:
            key = frame.key[0] if frame is not None and frame.key else ""
            self.document.dollars.append((node, key, self._steps()))
        self._count(1, node)
        self._attach(node, event.anchor)

    def _open(self, event: Any) -> None:
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        if self.stack and self.stack[-1].key is None and isinstance(self.stack[-1].node, Mapping):
            raise _Stop(
                line, column, "a key must be a text; a value that begins with { or [ must be quoted", self._path()
            )
        if len(self.stack) >= MAX_DEPTH:
            raise _Stop(line, column, f"nested more than {MAX_DEPTH} levels deep", "")
        if event.tag is not None and event.tag != "!":
            self._check_tag(event.tag, line, column)
            self._check_type(event.tag, {} if type(event) is yaml.MappingStartEvent else [], line, column)
        node: Mapping | Sequence
        if type(event) is yaml.MappingStartEvent:
            node = Mapping({}, self.file, line, column)
        else:
            node = Sequence([], self.file, line, column)
        self._count(1, node)
        self.stack.append(_Frame(node, event.anchor))

    def _close(self) -> None:
        frame = self.stack.pop()
        if frame.merges:
            self._merge(frame)
        node = frame.node
        children = [entry.node for entry in node.entries.values()] if isinstance(node, Mapping) else node.items
        node.size = 1 + sum(inner.size for inner in children)
        self._attach(node, frame.anchor)

    def _alias(self, event: Any) -> None:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        name = event.anchor
        if any(frame.anchor == name for frame in self.stack):
            raise _Stop(line, column, f"the alias *{name} stands inside its own anchor &{name}", self._path())
        node = self.anchors.get(name)
        if node is None:
            raise _Stop(
                line,
                column,
                f"*{name} is an alias, and no anchor &{name} stands above it: quote the value if it is a text",
                self._path(),
            )
        frame = self.stack[-1]
        if frame.key is None and isinstance(frame.node, Mapping):
            raise _Stop(line, column, "an alias can't be a key: write the key out", self._path())
        self.aliases += 1
        if self.aliases > MAX_ALIASES:
            raise _Stop(line, column, f"more than {MAX_ALIASES:,} aliases in one file", self._path())
        self._count(node.size, None, line, column)
        self._attach(node, None)

    def _key(self, frame: _Frame, text: str, is_plain: bool, line: int, column: int) -> None:
        assert isinstance(frame.node, Mapping)
        if text == "<<" and is_plain:
            frame.key = ("<<", line, column)
            if frame.merges is None:
                frame.merges = []
            elif frame.merges:
                first = frame.merges[0]
                self.problems.error_at(
                    self.file,
                    line,
                    column,
                    self._path(),
                    f"<< stands twice, first in line {first[1]}: write one, with a list: <<: [*a, *b]",
                )
            return
        earlier = frame.node.entries.get(text)
        if earlier is not None:
            message = f"the key stands twice: first in line {earlier.line}, again in line {line}; remove one"
            self.problems.error_at(self.file, line, column, join(self._path(), text), message)
        frame.key = (text, line, column)
        if "${" in text and (found := _VARIABLE.search(text)):
            message = f"{cut(found.group(), 60)} in a key: variables are put into values only: this key stays as it is"
            self.problems.warning(Scalar(text, self.file, line, column), self._path(), message)

    def _attach(self, node: Node, anchor: str | None) -> None:
        if anchor:
            self.anchors[anchor] = node
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        if isinstance(frame.node, Sequence):
            frame.node.items.append(node)
            return
        assert frame.key is not None
        key, line, column = frame.key
        frame.key = None
        if key == "<<" and frame.merges is not None and "<<" not in frame.node.entries:
            frame.merges.append((node, line, column))
        elif key not in frame.node.entries:
            frame.node.entries[key] = Entry(self.file, line, column, node)

    def _merge(self, frame: _Frame) -> None:
        """`<<`: what the mapping says itself wins whatever the order; of several sources the first wins."""
        assert isinstance(frame.node, Mapping)
        assert frame.merges
        source, line, column = frame.merges[0]
        sources = source.items if isinstance(source, Sequence) else [source]
        for inner in sources:
            if not isinstance(inner, Mapping):
                self.problems.error_at(
                    self.file,
                    line,
                    column,
                    join(self._path(), "<<"),
                    "<< takes a mapping or a list of mappings, such as <<: *base",
                )
                continue
            for key, entry in inner.entries.items():
                frame.node.entries.setdefault(key, entry)

    def _count(self, size: int, node: Node | None, line: int = 0, column: int = 0) -> None:
        self.nodes += size
        if self.nodes > MAX_NODES:
            place = (node.line, node.column) if node is not None else (line, column)
            raise _Stop(
                *place, f"more than {MAX_NODES:,} values once aliases are put in: this file is too big to be meant"
            )

    def _check_tag(self, tag: str, line: int, column: int) -> None:
        if tag not in _TAGS:
            shown = cut(tag.replace("tag:yaml.org,2002:", "!!"), 40)
            raise _Stop(line, column, f"the tag {shown} is not known: quote the value if it is a text", self._path())

    def _check_type(self, tag: str | None, value: Any, line: int, column: int) -> None:
        types = _TYPES.get(tag.rpartition(":")[2]) if tag else None
        if types is not None and type(value) not in types:
            name = str(tag).rpartition(":")[2]
            raise _Stop(line, column, f"the value is no {name}, as its tag !!{name} says: remove the tag", self._path())

    # --- places

    def _steps(self) -> tuple[str | int, ...]:
        steps: list[str | int] = []
        for frame in self.stack:
            if isinstance(frame.node, Sequence):
                steps.append(len(frame.node.items))
            elif frame.key is not None:
                steps.append(frame.key[0])
        return tuple(steps)

    def _path(self) -> str:
        path = ""
        for step in self._steps():
            path = join(path, step)
        return path

    def _syntax(self, exc: yaml.MarkedYAMLError) -> _Stop:
        line, column, message, below = syntax.told(exc, self.text, MAX_DEPTH)
        rows = self.text.split("\n")
        is_tab = rows[min(line, len(rows)) - 1][column - 1 : column] == "\t"
        while self.stack and not is_tab:  # libyaml ends a block only after an error to the left of it
            node = self.stack[-1].node
            if node.column <= column or rows[min(node.line, len(rows)) - 1][node.column - 1 : node.column] in (
                "{",
                "[",
            ):
                break
            self.stack.pop()
            if self.stack and self.stack[-1].key is not None:
                self.stack[-1].key = None
        return _Stop(line, column, message, self._path() if below else "")
