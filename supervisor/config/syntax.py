"""What libyaml says of a text that is no YAML, told with its place, its probable cause and what to do. Pure."""

from __future__ import annotations

import re

import yaml

_BREAK = re.compile("\r\n|[\n\r\u0085\u2028\u2029]")  # what libyaml counts as the end of a line
# characters that look like a space, a colon or a line end, or like nothing, and are none
_ODD = {
    "\u00a0": ("a no-break space", "a plain space"),
    "\u2007": ("a figure space", "a plain space"),
    "\u202f": ("a narrow no-break space", "a plain space"),
    "\u3000": ("an ideographic space", "a plain space"),
    "\uff1a": ("a fullwidth colon", "a plain colon and a space"),
    "\u200b": ("a zero width space", ""),
    "\u2060": ("a word joiner", ""),
    "\ufeff": ("a byte order mark", ""),
    "\u0085": ("a next line character", "a plain line end"),
    "\u2028": ("a line separator", "a plain line end"),
    "\u2029": ("a paragraph separator", "a plain line end"),
}
_ODD_ONE = re.compile(f"[{''.join(_ODD)}]")


def odd(text: str) -> tuple[int, str] | None:
    """Where the first character stands that only looks right, and a sentence about it; None if there is none."""
    found = _ODD_ONE.search(text)
    if found is None:
        return None
    name, instead = _ODD[found.group()]
    how = f"replace it by {instead}" if instead else "remove it"
    return found.start(), f"{name} (U+{ord(found.group()):04X}): {how}"


def told(exc: yaml.MarkedYAMLError, text: str, most_levels: int) -> tuple[int, int, str, bool]:
    """Line and column (from 1), the sentence, and whether the path read so far belongs to it."""
    mark = exc.problem_mark or exc.context_mark
    problem = str(exc.problem)
    if "nesting depth" in problem and mark is not None:
        return mark.line + 1, mark.column + 1, f"nested more than {most_levels} levels deep", False
    begun = exc.context_mark
    if "quoted scalar" in str(exc.context) and "end of stream" in problem and begun is not None:
        return begun.line + 1, begun.column + 1, "the quote that opens here is never closed", True
    line, column = (mark.line + 1, mark.column + 1) if mark is not None else (1, 1)
    starts = [0, *(found.end() for found in _BREAK.finditer(text)), len(text) + 1]
    ends = [*(found.end() for found in _BREAK.finditer(text)), len(text)]
    first = min(begun.line if begun is not None else line - 1, line - 1)
    if "found a tab" not in problem:
        for index in range(max(line - 3, 0), min(line, len(ends))):
            row_text = text[starts[index] : ends[index]]
            strange = odd(row_text)
            # above the place that libyaml names, one in quotes is part of a text
            if strange is None or (index < first and row_text[: strange[0]].count('"') % 2):
                continue
            at = starts[index] + strange[0]
            row = text.count("\n", 0, at) + 1
            return row, at - text.rfind("\n", 0, at), f"{problem}: the line holds {strange[1]}", True
    if "could not find expected ':'" in problem and begun is not None:
        # libyaml notices in a line below; the key that it waits for begins here
        message = "a key needs a colon and a space behind it, as in key: value"
        return begun.line + 1, begun.column + 1, message, True
    source = text[starts[line - 1] : ends[line - 1]].rstrip("\r\n") if line <= len(ends) else ""
    return line, column, _sentence(exc.problem or str(exc), source, column), True


def _sentence(problem: str, source: str, column: int) -> str:
    """What libyaml says, with what most probably caused it and how to put it right."""
    rest = source[column - 1 :]
    if rest.startswith("\t") or (source[: column - 1].strip(" \t") == "" and "\t" in source[:column]):
        return "a tab is used for indentation: YAML takes spaces only"
    if "unknown escape" in problem or "hexdecimal" in problem:
        return (
            "an unknown escape in double quotes: write the value in single quotes, where a backslash is a backslash, "
            "or double the backslash"
        )
    if "invalid Unicode" in problem:
        return "an escape that is no character (half of a surrogate pair): write the character itself"
    if rest[:1] in ("@", "`", "%"):
        return f"a value can't begin with {rest[0]}: quote the value"
    if "comment or line break" in problem:
        return "text follows > or | in one line: quote the value if it begins with one of them"
    if "sequence entries are not allowed" in problem:
        return "a list can't begin behind a key: begin a new line for `- `, or write the list in brackets"
    if "undefined tag handle" in problem or rest[:1] == "!":
        return "a value that begins with ! is a tag: quote the value"
    if "expected ',' or" in problem:
        return f"{problem} in brackets: quote a value that holds one of , [ ] {{ }}, and close the brackets"
    if "mapping values are not allowed" in problem:
        return "a second `: ` in one line: quote the value, or begin a new line"
    if "anchor" in problem or "alias" in problem:
        return f"{problem}: quote the value if the text begins with & or *"
    if "document start" in problem or "%" in source[:1]:
        return f"{problem}: quote the value, or check the indentation"
    return f"{problem}: quote the value, or check brackets and indentation here and in the line above"
