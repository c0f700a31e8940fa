"""The cases about URLs, headers, times, expressions and statuses (H, S, E, C) that load decides, by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor.expect.spec import Equals, JsonRule
from tests.config.support import command, http, load, problems, target

RULE = "expect:\n  body:\n    - "


# --- H: URLs and headers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://nas:8080/", "http://my_app:8080/", "http://bücher.invalid/", "HTTP://h/", "http://h/a b", "http://h/%zz",
        "http://h/é?q=ü#f", "http://[::1]:80/", "http://[fe80::1%25lo]:80/", "http://h.", "https://h:65535", "http://127.1/",
        "http://xn--bcher-kva.invalid/", "http://user:pa%20ss@h/", "http://h/?a=b:c@d",
    ],
)  # fmt: skip
def test_h45_urls_that_load(tmp_path: Path, url: str) -> None:
    """Names without dots, underscores, IDNA, IPv6 and what the sender normalises are fine."""
    text = http().replace("http://127.0.0.1:8080/", f'"{url}"')
    assert load(tmp_path, text).targets[0].settings.url


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080", "localhost:8080/x", "http://127.0.0.1:0/", "http://h:99999/", "http://h:-1/", "http://::1:80/",
        "http://[::1/", "http://a..b/", "http://", "http:///x", "//h/", "h", "ftp://h/", "file:///etc/passwd",
        "javascript:alert(1)", "http://h:8o/", "http://a b/", "http://[::1]x/", "http://-/", "ws://h/", "http://h\\\\@evil/",
    ],
)  # fmt: skip
def test_h45_urls_that_do_not(tmp_path: Path, url: str) -> None:
    """The sentence says what is wrong and shows an example."""
    found = problems(tmp_path, http().replace("http://127.0.0.1:8080/", f'"{url}"'))
    assert len(found) == 1
    assert "expected a URL such as https://example.org/health" in found[0]


def test_h45_user_info(tmp_path: Path) -> None:
    """User and password become basic authentication; a user alone sends nothing, which is said."""
    loaded = load(tmp_path, http().replace("http://127.0.0.1:8080/", "http://user:p%40ss@h/x"))
    settings = loaded.targets[0].settings
    assert (settings.url, settings.auth.username, settings.auth.password) == ("http://h/x", "user", "p@ss")
    assert loaded.targets[0].summary == "http://h/x"
    assert "p%40ss" not in loaded.targets[0].config_json
    alone = load(tmp_path, http().replace("http://127.0.0.1:8080/", "http://user@h/"))
    assert alone.targets[0].settings.auth is None
    assert "no Authorization is sent" in alone.warnings[0]


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ("X: 1", "found a number: quote it"),
        ("X: 1.5", "found a number: quote it"),
        ("X: true", "found a boolean: quote it"),
        ("X: ", "found nothing"),
        ("X: [a]", "found a list"),
        ("X: ключ", "a character that a header can't carry"),
        ('X: "a\\nb"', "holds a line end"),
        ('X: "a\\rb"', "holds a line end"),
        ('"X Y": a', "not a header name"),
        ('"": a', "not a header name"),
        ('"X:": a', "not a header name"),
        ('"Ü": a', "not a header name"),
        ('"X\\n": a', "not a header name"),
        ("Transfer-Encoding: chunked", "set by Checkvisor itself"),
    ],
)
def test_h46_header_values(tmp_path: Path, header: str, sentence: str) -> None:
    """What can't be sent as it stands is refused; the sentence names the key and never the value."""
    found = problems(tmp_path, http(settings=f"headers:\n  {header}"))
    assert sentence in found[0]
    assert "ключ" not in found[0]


def test_h46_header_values_that_can_be_sent(tmp_path: Path) -> None:
    """Visible ASCII, latin-1, inner blanks and tabs; outer blanks do not count."""
    headers = (
        load(tmp_path, http(settings='headers: {A: "é x\\ty", B: "", C: "  v  ", Host: virtual.example}'))
        .targets[0]
        .settings.headers
    )
    assert headers == (("A", "é x\ty"), ("B", ""), ("C", "v"), ("Host", "virtual.example"))


# --- S21 and E: values and expressions -------------------------------------------------------------------------------


def test_s21_timeout_and_interval(tmp_path: Path) -> None:
    """A timeout above the interval is a warning; zero, negative, NaN, infinite and huge ones are errors."""
    loaded = load(tmp_path, http("interval: 1s\ntimeout: 10s"))
    assert "the timeout 10s is longer than the interval 1s" in loaded.warnings[0]
    for word in ("0s", "0", "-1s", ".nan", ".inf", "1e12", "-5", "99999999d", "1000000000000s", "0.0001ms"):
        assert problems(tmp_path, http(f"timeout: {word}")), word
        assert problems(tmp_path, http(f"interval: {word}")), word


@pytest.mark.parametrize(
    "path",
    [
        "$.a[?(@.state==up)]",
        "$.a[?@.b==True]",
        "$.items[abc]",
        "$.",
        "$[",
        "",
        "$.a[?(@.x==]",
        "status",
        "$.a.length()",
    ],
)
def test_e13_e15_json_paths_that_can_not_work(tmp_path: Path, path: str) -> None:
    """Unquoted words, half expressions and other dialects are refused at load, at the path."""
    found = problems(tmp_path, http(f"{RULE}json: {{path: '{path}'}}"))
    assert len(found) == 1
    assert ": targets[0].expect.body[0].json.path: " in found[0]


def test_e14_functions(tmp_path: Path) -> None:
    """The functions of RFC 9535 load; jsonpath-ng's own language loads where it is asked for."""
    for path in ("$.a[?length(@.n)>2]", "$.a[?match(@.n, 'x.*')]", "$.a[?search(@.n, 'x')]", "$[?count(@.*)>1]"):
        rule = target(tmp_path, f'{RULE}json: {{path: "{path}"}}').expect.body[0]
        assert isinstance(rule, JsonRule)
    assert (
        target(tmp_path, f"{RULE}json: {{path: '$.a.`len`', dialect: jsonpath-ng, gt: 1}}").expect.body[0].dialect
        == "jsonpath-ng"
    )
    assert problems(tmp_path, http(f"{RULE}json: {{path: '$.a.`len`'}}"))


@pytest.mark.parametrize("pattern", [r"\h", "(?<n>x)", "a(?i)b", "[", "(", "*", "(?P<a>x)(?P<a>y)", r"\p{L}"])
def test_e23_regex_of_other_dialects(tmp_path: Path, pattern: str) -> None:
    """What Python does not compile is refused at load."""
    assert "not a regular expression of Python" in problems(tmp_path, http(f"{RULE}regex: '{pattern}'"))[0]


@pytest.mark.parametrize("pattern", ["[[:digit:]]", r"\\d", "/ok/i", "(a+)+", "ok$x"])
def test_e23_regex_that_hardly_does_what_is_meant(tmp_path: Path, pattern: str) -> None:
    """It loads, with a warning at its place."""
    warnings = load(tmp_path, http(f"{RULE}regex: '{pattern}'")).warnings
    assert len(warnings) == 1
    assert ":8:18: targets[0].expect.body[0].regex: " in warnings[0]


@pytest.mark.parametrize(
    "selector", ["p:not(.a, .c)", "p:nth-child(2 of .a)", "p::text", "::before", "svg|rect", "", "p >"]
)
def test_e34_selectors_that_are_not_known(tmp_path: Path, selector: str) -> None:
    """Refused at load."""
    assert problems(tmp_path, http(f"{RULE}css: {{selector: '{selector}'}}"))[0].startswith("8:2")


@pytest.mark.parametrize("selector", ["a:hover", "a:focus", "a:visited", "table > tbody > tr"])
def test_e34_selectors_that_never_match(tmp_path: Path, selector: str) -> None:
    """They load, with a warning."""
    assert len(load(tmp_path, http(f"{RULE}css: {{selector: '{selector}'}}")).warnings) == 1


@pytest.mark.parametrize(
    ("written", "ranges"),
    [
        ("[200, 2xx]", [(200, 200), (200, 299)]),
        ('"200-299"', [(200, 299)]),
        ("200", [(200, 200)]),
        ("[999]", [(999, 999)]),
        ("5XX", [(500, 599)]),
    ],
)
def test_e39_status_lists(tmp_path: Path, written: str, ranges: list[tuple[int, int]]) -> None:
    """Numbers, classes and ranges."""
    assert [(one.low, one.high) for one in target(tmp_path, f"expect: {{status: {written}}}").expect.status] == ranges


@pytest.mark.parametrize(
    "written",
    ['"200"', "[]", "1000", "99", "099", "[2x]", '"299-200"', "2.5", "true", "{}", "[[200]]", "xxx", '"200,201"'],
)
def test_e39_not_a_status(tmp_path: Path, written: str) -> None:
    """Anything else is refused."""
    assert ": targets[0].expect.status" in problems(tmp_path, http(f"expect: {{status: {written}}}"))[0]


def test_c34_a_whole_command_line(tmp_path: Path) -> None:
    """It loads, because it could be a name with a space, and the warning says how to write it."""
    assert "write exec: echo and args: [hi]" in load(tmp_path, command(program='"echo hi"')).warnings[0]


def test_a_text_equals_a_number_or_a_text(tmp_path: Path) -> None:
    """A header matcher may be a plain text or number."""
    rules = target(tmp_path, "expect: {headers: {A: x, B: 5}}").expect.headers
    assert [rule.operators for rule in rules] == [(Equals("x"),), (Equals(5),)]
