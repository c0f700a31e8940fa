"""What the loader asks: `check_*` raises ValueError for expressions that can't work, `lint_*` lists doubts. Pure."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping

from jsonpath_ng.ext.parser import parse as parse_ng
from lxml import etree

from supervisor.expect import iregexp
from supervisor.expect.badpath import BadPathError
from supervisor.expect.operators import compiled_regex
from supervisor.expect.paths import SelectError, compiled_json
from supervisor.expect.select import compiled_css, compiled_xpath, evaluate

_EMPTY_HTML = etree.fromstring(b"<html/>")
_MAX_LENGTH = 10_000

_REGEX_HINTS = (
    ("global flags not at the start", "write flags such as (?i) at the very start, or (?i:...) around a part"),
    ("unknown extension ?<", "Python writes a named group as (?P<name>...)"),
    (r"bad escape \h", r"Python has no \h: write [ \t]"),
    (r"bad escape \p", r"Python has no \p{...}: write the characters in [...], or use \w and \d"),
    (r"bad escape \P", r"Python has no \P{...}: write the characters in [^...]"),
    (r"bad escape \z", r"Python writes the end of the text as \Z"),
    (r"bad escape \K", r"Python has no \K: use a look-behind, (?<=...)"),
    (r"bad escape \R", r"Python has no \R: write \r?\n"),
    ("nothing to repeat", "* and + repeat what stands before them: any text is .*, a star itself is \\*"),
    ("look-behind requires", "a look-behind needs parts of one length"),
    ("unterminated character set", "a [ as such is written \\["),
    ("missing ), unterminated", "a ( as such is written \\("),
    ("unbalanced parenthesis", "a ) as such is written \\)"),
)
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_CALL = re.compile(r"(?<![\w.-])((?:[\w.-]+:)?(?![\d.-])[\w.-]+)\s*\(")
_PREFIX = re.compile(r"(?<![\w.:-])([\w.-]+):(?!:)")
_NO_FUNCTIONS = frozenset({"node", "text", "comment", "processing-instruction", "and", "or", "div", "mod"})
_XPATH2 = ("lower-case", "upper-case", "matches", "ends-with", "replace", "tokenize", "exists", "empty", "string-join")


def check_regex(pattern: str) -> None:
    """Raise ValueError if the pattern does not compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled_regex(pattern)
    except re.error as error:
        where = f" at character {error.pos + 1}" if error.pos is not None else ""
        hint = next((f": {text}" for start, text in _REGEX_HINTS if error.msg.startswith(start)), "")
        raise ValueError(f"not a regular expression of Python: {error.msg}{where}{hint}") from error
    except (RecursionError, OverflowError) as error:
        raise ValueError("not a regular expression of Python: it is too large or nested too deeply") from error


def check_json_path(path: str, dialect: str = "rfc9535", shown: str | None = None) -> None:
    """Raise ValueError if the path does not compile in its dialect, or fails on an empty document. `shown` is how a
    path with secrets may be displayed."""
    if len(path) > _MAX_LENGTH:
        raise ValueError(f"the path has {len(path):,} characters, at most {_MAX_LENGTH:,} are allowed")
    try:
        select = compiled_json(path, dialect)
    except ValueError as error:
        sentence = error.told(shown) if isinstance(error, BadPathError) else str(error)
        raise ValueError(f"{sentence}{_json_hint(path, dialect, shown)}") from error
    if dialect == "rfc9535":
        try:
            select({})
        except SelectError as error:
            raise ValueError(str(error)) from error


def _json_hint(path: str, dialect: str, shown: str | None) -> str:
    if dialect != "rfc9535":
        return ""
    if path.startswith(("$.", "$[")) and "=~" in path:
        return ": RFC 9535 writes a regular expression as match(@.name, '...') or search(@.name, '...')"
    if "`" in path or re.search(r"\$\S*\s+[-+*/]\s", path):
        return ": this looks like jsonpath-ng, which `dialect: jsonpath-ng` selects"
    if re.search(r"[=<>]\s*(True|False|None)\b", path):
        return ": JSON writes true, false and null"
    if re.search(r"\s(and|or)\s", path):
        return ": RFC 9535 writes && and ||"
    if re.search(r"[=<>]\s*(?!true\b|false\b|null\b)[A-Za-z_]", path) or re.search(r"\[[A-Za-z_][\w-]*\]", path):
        return ": text stands in quotes, as in [?@.state == 'up'] or ['name']"
    if path and not path.startswith("$"):
        plain = shown is None and re.fullmatch(r"[\w.\[\]]+", path)
        return f": a path begins with $, as in $.{path}" if plain else ": a path begins with $"
    return ""


def check_css(selector: str) -> None:
    """Raise ValueError if the selector does not compile or can't be evaluated."""
    if not selector.strip():
        raise ValueError("the selector is empty")
    if len(selector) > _MAX_LENGTH:
        raise ValueError(f"the selector has {len(selector):,} characters, at most {_MAX_LENGTH:,} are allowed")
    hint = ""
    if "::" in selector:
        hint = ": text is taken from the elements themselves, an attribute through `attribute:`"
    elif "|" in selector:
        hint = ": namespaces need an xpath rule with `namespaces:`"
    try:
        for is_xml in (False, True):
            compiled = compiled_css(selector, is_xml)
            evaluate(compiled, _EMPTY_HTML)
            _check_names(compiled.path, ())
    except (SelectError, ValueError) as error:
        raise ValueError(f"{error}{hint}") from error


def check_xpath(path: str, namespaces: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
    """Raise ValueError if the expression is no XPath 1.0 or fails on an empty document."""
    if len(path) > _MAX_LENGTH:
        raise ValueError(f"the expression has {len(path):,} characters, at most {_MAX_LENGTH:,} are allowed")
    pairs = tuple(namespaces.items()) if isinstance(namespaces, Mapping) else tuple(namespaces)
    if any(not prefix for prefix, _uri in pairs):
        raise ValueError("XPath 1.0 has no default namespace: give it a prefix, and write it before each name")
    try:
        evaluate(compiled_xpath(path, pairs), _EMPTY_HTML)
        _check_names(path, pairs)
    except (SelectError, ValueError) as error:
        raise ValueError(f"{error}{_xpath_hint(path, str(error))}") from error


def _check_names(path: str, pairs: tuple[tuple[str, str], ...]) -> None:
    """Raise ValueError for names that nothing in an empty document looks up, such as those in predicates."""
    bare = _LITERAL.sub("''", path)
    if "$" in bare:
        raise ValueError("the expression has a variable")
    known = {"re", "xml", *(prefix for prefix, _uri in pairs)}
    for prefix in _PREFIX.findall(bare):
        if prefix not in known:
            raise ValueError(f"the namespace prefix {prefix} is not declared")
    for name in dict.fromkeys(_CALL.findall(bare)):
        if name not in _NO_FUNCTIONS and not _is_function(name, pairs):
            raise ValueError(f"there is no function {name}()")


def _is_function(name: str, pairs: tuple[tuple[str, str], ...]) -> bool:
    try:
        evaluate(compiled_xpath(f"{name}()", pairs), _EMPTY_HTML)
    except (SelectError, ValueError) as error:
        return "Unregistered function" not in str(error)
    return True


def _xpath_hint(path: str, message: str) -> str:
    if "prefix" in message:
        return ": declare the prefix under `namespaces:`"
    if "variable" in message:
        return ": variables can't be given; text stands in quotes"
    if "function" in message:
        known = next((name for name in _XPATH2 if f"{name}(" in path), None)
        if known == "matches":
            return ": matches() is XPath 2; write re:test(., 'regex', 'i')"
        if known:
            return f": {known}() is XPath 2, this is XPath 1.0"
    return ""


# --- doubts ----------------------------------------------------------------------------------------------------------

_NEVER = re.compile(r":(hover|active|focus|focus-within|focus-visible|target|visited)\b")


def lint_regex(pattern: str) -> list[str]:
    """Sentences about a pattern that compiles and hardly does what is meant."""
    found: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _compile_afresh(pattern)
    if re.search(r"\[\[:\^?\w+:\]", pattern):
        found.append("POSIX classes such as [[:digit:]] mean something else in Python: write [0-9] or \\d")
    elif any(issubclass(warning.category, FutureWarning) for warning in caught):
        found.append("a [ or a doubled --, &&, ~~ or || within [...] may change its meaning: escape it with \\")
    if re.search(r"\\\\[dDwWsSbB.]", pattern):
        found.append(r"\\ matches a backslash: in single quotes and plain YAML a class is written with one, as in \d")
    if re.fullmatch(r"/.+/[a-z]*", pattern):
        found.append("the slashes are part of the pattern: write it without them, and flags as (?i)")
    if re.search(r"\((?:\?:)?(?:\\?.|\[[^\]]*\])[+*]\)[+*]", pattern):
        found.append("a repeated group that repeats within can run away on text that almost matches, until the timeout")
    if _never_matches(pattern):
        found.append(
            "$ stands before more text: it matches at the end, or at line ends with (?m), so this never matches"
        )
    return found


def _compile_afresh(pattern: str) -> None:
    """Compile past the cache, which would swallow the warning the second time."""
    re.purge()
    re.compile(pattern)


def _never_matches(pattern: str) -> bool:
    if "|" in pattern or re.match(r"\(\?[a-z]*[mx]", pattern):
        return False
    outside = re.sub(r"\\.|\[(?:[^\]\\]|\\.)*\]", "", pattern)
    return re.search(r"\$[A-Za-z0-9]", outside) is not None


def lint_json_path(path: str, dialect: str = "rfc9535") -> list[str]:
    """Sentences about a path that compiles and hardly does what is meant."""
    if dialect == "jsonpath-ng":
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            parse_ng(path)
        return [f"jsonpath-ng warns: {warning.message}" for warning in caught]
    found: list[str] = []
    for _quote, literal in re.findall(r"(?:match|search)\([^'\"]*(['\"])(.*?)\1\s*\)", path):
        if iregexp.compiled(literal.replace("\\\\", "\\")) is None:
            found.append(f"the pattern {literal} in the path is not a regular expression: it never matches")
    return found


def lint_css(selector: str) -> list[str]:
    """Sentences about a selector that compiles and never selects anything."""
    found = [
        f":{name} depends on a user before a browser: it never matches here"
        for name in dict.fromkeys(_NEVER.findall(selector))
    ]
    if re.search(r"table\b[^,]*>\s*(?:tbody\b[^,]*>\s*)?tr\b", selector) and "tbody" in selector:
        found.append("browsers add tbody to tables, the server may not send it: write `table tr` to match both")
    return found


def lint_xpath(path: str) -> list[str]:
    """Sentences about an expression that compiles and hardly selects what is meant."""
    found: list[str] = []
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "''", path)
    if re.search(r"(?:/|::)[A-Z][A-Z0-9]*\b(?![:(-])", unquoted):
        found.append("names of HTML elements are lower-case here: //td, not //TD")
    if "tbody" in unquoted:
        found.append("browsers add tbody to tables, the server may not send it: write //table//tr to match both")
    if unquoted.strip() and not re.match(r"\s*(?:[/(.@*$]|[\w-]+\s*\(|[\w-]+::|'|[0-9-])", unquoted):
        found.append("the path starts at the root element: begin with // to look everywhere")
    return found
