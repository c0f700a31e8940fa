"""The F cases of public bug reports, and those of other sections as far as load decides them, named by id."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor import config
from supervisor.expect.spec import Compare, Equals, JsonRule, StatusRange
from tests.config.support import command, http, load, problems, target

RULE = "expect:\n  body:\n    - "


# --- F: configuration ------------------------------------------------------------------------------------------------


def test_f01_duplicate_keys(tmp_path: Path) -> None:
    """A key that stands twice is an error that names both lines."""
    text = http("expect: {status: 200}\nexpect: {status: 500}")
    assert problems(tmp_path, text) == [
        "7:5: targets[0].expect: the key stands twice: first in line 6, again in line 7; remove one"
    ]


def test_f01_every_duplicate_is_told(tmp_path: Path) -> None:
    """Also in brackets, and also a third time."""
    found = problems(tmp_path, http("labels: {a: x, a: y, a: z}"))
    assert [line.split(": ")[1] for line in found] == ["targets[0].labels.a"] * 2


def test_f02_merge_keys(tmp_path: Path) -> None:
    """Local keys win whatever the order, of several sources the first wins, and nothing counts as a duplicate."""
    text = """
x-base: &base {method: HEAD, maxRedirects: 1, followRedirects: false}
x-more: &more {maxRedirects: 2, ipVersion: 6}
targets:
  - {id: a, type: http, http: {url: "http://a/", <<: *base, method: PUT}}
  - {id: b, type: http, http: {method: PUT, <<: [*more, *base], url: "http://b/"}}
"""
    first, second = (one.settings for one in load(tmp_path, text).targets)
    assert (first.method, first.max_redirects, first.follow_redirects) == ("PUT", 1, False)
    assert (second.method, second.max_redirects, second.ip_version) == ("PUT", 2, "6")


def test_f02_merged_parts_are_replaced(tmp_path: Path) -> None:
    """A merge key takes whole values: `expect` of the base is gone when the target has its own."""
    text = """
x-base: &base {type: http, http: {url: "http://a/"}, expect: {status: 500, maxDurationMs: 5}}
targets:
  - {id: a, <<: *base, expect: {status: 200}}
"""
    expect = load(tmp_path, text).targets[0].expect
    assert expect.max_duration_ms is None


def test_f02_a_problem_of_an_anchor_is_told_at_the_anchor(tmp_path: Path) -> None:
    """The place is where the text stands, once for all who use it."""
    text = 'x-base: &base {method: 5}\ntargets:\n  - {id: a, type: http, http: {url: "http://a/", <<: *base}}\n'
    assert problems(tmp_path, text)[0].startswith("1:24: targets[0].http.method: expected an HTTP method")


def test_f03_tabs(tmp_path: Path) -> None:
    """The sentence says that it is a tab."""
    assert problems(tmp_path, "targets:\n\t- id: a\n") == [
        "2:1: targets: a tab is used for indentation: YAML takes spaces only"
    ]


def test_f05_octal_and_friends(tmp_path: Path) -> None:
    """010 is 10 with a warning, 0o755 and 0x1F are numbers, the rest is text and refused where a number is due."""
    loaded = load(tmp_path, http("failureThreshold: 010\nsuccessThreshold: 0x1F"))
    assert (loaded.targets[0].failure_threshold, loaded.targets[0].success_threshold) == (10, 31)
    assert loaded.warnings[0].endswith("010 is read as 10, not as an octal number: write 0o10 or quote it")
    assert target(tmp_path, "failureThreshold: 0o755").failure_threshold == 493
    for word in ("1_000", "0b101", "0o8", "0xZ"):
        assert "expected a whole number" in problems(tmp_path, http(f"failureThreshold: {word}"))[0]


@pytest.mark.parametrize("word", ["1e3", "1.0e3", "1.0e+3", "1E3"])
def test_f06_exponents(tmp_path: Path, word: str) -> None:
    """1e3 is the number 1000.0: fine for an operator, refused where an integer or a duration is due."""
    rule = target(tmp_path, f"{RULE}{{gt: {word}}}").expect.body[0]
    assert rule.operators == (Compare("gt", 1000.0),)
    assert "found the number 1000.0" in problems(tmp_path, http(f"failureThreshold: {word}"))[0]
    assert "with its unit" in problems(tmp_path, http(f"interval: {word}"))[0]


@pytest.mark.parametrize(
    "word", ["12:30:45", "22:22", "1:30", "09:30", "0:30", "00:11:22:33:44:55", "yes", "on", "NO", "y"]
)
def test_f07_no_base_60_and_no_words_for_booleans(tmp_path: Path, word: str) -> None:
    """All of them are text."""
    assert target(tmp_path, f"name: {word}").name == word


@pytest.mark.parametrize(
    ("word", "seconds"),
    [
        ("30s", 30),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("1d", 86400),
        ("2h", 7200),
        ("1h0m1s", 3601),
        ("1500ms", 1.5),
        ("1w", 604800),
    ],
)
def test_f09_durations(tmp_path: Path, word: str, seconds: float) -> None:
    """Units from ms to d, several in falling order."""
    assert target(tmp_path, f"interval: {word}").interval_s == seconds


@pytest.mark.parametrize(
    "word", ["5", '"5"', "5 min", "-1s", "+5s", "5sec", "1s1s", "s", "1e3s", "١s", "5m 3s", "0x5s"]
)
def test_f09_not_durations(tmp_path: Path, word: str) -> None:
    """A bare number asks for the unit; everything else is refused with an example."""
    assert "expected a duration" in problems(tmp_path, http(f"interval: {word}"))[0]


def test_f09_max_duration_takes_milliseconds(tmp_path: Path) -> None:
    """`maxDurationMs: 2s` is refused, and the sentence has the number to write."""
    assert problems(tmp_path, http("expect: {maxDurationMs: 2s}"))[0].endswith('found "2s": write 2000')


@pytest.mark.parametrize("pattern", ["'^ok$'", r'"(\\d+)$1"', r"'\$'", "'${1}x|${2}'.replace"][:3])
def test_f10_dollars_in_expressions(tmp_path: Path, pattern: str) -> None:
    """Dollars of a regular expression are left alone."""
    rule = target(tmp_path, f"{RULE}regex: {pattern}").expect.body[0]
    assert rule.operators[0].pattern == {"'^ok$'": "^ok$", r'"(\\d+)$1"': r"(\d+)$1", r"'\$'": r"\$"}[pattern]


def test_f10_values_do_not_change_the_structure(tmp_path: Path) -> None:
    """A value with `: `, quotes and line ends stays one value."""
    environ = {"EVIL": "x\nexpect: {status: 500}\n# '\"", "PA": "secret-value"}
    loaded = load(
        tmp_path, http('labels: {a: "pa$$word"}', "method: POST\nbody: '${EVIL}'\nheaders: {A: 'b ${PA} c'}"), environ
    )
    assert loaded.targets[0].settings.body == environ["EVIL"].encode()
    assert loaded.targets[0].settings.headers == (("A", "b secret-value c"),)
    assert dict(loaded.targets[0].labels) == {"a": "pa$word"}
    assert loaded.targets[0].expect.status is None


def test_f11_unset_variables(tmp_path: Path) -> None:
    """Unset is an error that names it, a default steps in, and set but empty is empty."""
    assert problems(tmp_path, http("name: '${NOPE}'"), {}) == [
        "6:11: targets[0].name: the variable NOPE is not set: set it in the environment, or give a default: "
        "${NOPE:-default}"
    ]
    assert target(tmp_path, "name: ${NOPE:-x}", {}).name == "x"
    assert dict(target(tmp_path, "labels: {a: '${EMPTY}', b: 'x${EMPTY}y'}", {"EMPTY": ""}).labels) == {
        "a": "",
        "b": "xy",
    }


def test_f13_wrong_types(tmp_path: Path) -> None:
    """A lone status is lifted; nothing else is guessed."""
    assert target(tmp_path, "expect: {status: 200}").expect.status == (StatusRange(200, 200, "200"),)
    assert "write 200 without quotes" in problems(tmp_path, http('expect: {status: ["200"]}'))[0]
    assert "expected a list" in problems(tmp_path, command('args: "-c ls"'))[0]
    assert "expected a mapping" in problems(tmp_path, command("env: []"))[0]
    assert "found the boolean true" in problems(tmp_path, http("interval: true"))[0]
    assert "expected a list of rules" in problems(tmp_path, http("expect: {body: {contains: x}}"))[0]


@pytest.mark.parametrize("text", ["", "# only a comment\n", "---\n", "~\n", "- a\n", "text\n", "5\n", "[]\n", '""\n'])
def test_f14_nothing_to_read(tmp_path: Path, text: str) -> None:
    """One line, at the place."""
    found = problems(tmp_path, text)
    assert len(found) == 1
    assert found[0].startswith("1:1: the file")


def test_f15_bytes(tmp_path: Path) -> None:
    """UTF-8 with a mark and UTF-16 load; latin-1 and control characters are told with their place."""
    text = http("name: läuft")
    assert load(tmp_path, b"\xef\xbb\xbf" + text.encode()).targets[0].name == "läuft"
    assert load(tmp_path, text.encode("utf-16")).targets[0].name == "läuft"
    assert problems(tmp_path, text.encode("latin-1")) == ["6:12: byte 0xE4 is not valid UTF-8: save the file in UTF-8"]
    for char in "\x00\x07\x1b\x7f\x85"[:4]:
        assert f"U+{ord(char):04X} is not allowed" in problems(tmp_path, text.replace("ä", char))[0]
    assert "no-break space" in problems(tmp_path, "targets:\u00a0[]\n")[0]
    assert "no-break space" in problems(tmp_path, http(settings="method:\u00a0GET"))[0]


def test_f17_several_documents(tmp_path: Path) -> None:
    """Told where the second begins, with what to do."""
    assert problems(tmp_path, http() + "---\n" + http())[0].startswith("6:1: a second document begins here")


def test_f18_dates_are_text(tmp_path: Path) -> None:
    """Neither a possible nor an impossible date is anything else."""
    assert target(tmp_path, "labels: {a: 2024-13-01, b: 2024-01-02}").labels == (
        ("a", "2024-13-01"),
        ("b", "2024-01-02"),
    )


def test_f19_ids(tmp_path: Path) -> None:
    """Equal ids and equal slugs are errors with both places; the alphabet keeps ids safe as file names and labels."""
    two = 'targets:\n  - {id: web, type: http, http: {url: "http://a/"}}\n  - {%s, type: http, http: {url: "http://b/"}}\n'
    assert 'the id "web" stands twice' in problems(tmp_path, two % "id: web")[0]
    assert "give both targets an id" in problems(tmp_path, two % "name: Web")[0]
    assert "differ only in capital letters" in load(tmp_path, two % "id: Web").warnings[0]
    for name in ('"web "', "é", "e\u0301", "a/b", '".."', "x" * 300, "a:b", '"a\\nb"'):
        assert any("expected a name of letters" in line for line in problems(tmp_path, two % f"id: {name}")), name


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ('regex: "\\d+"', "single quotes"),
        ("gte: > 5", "quote the value"),
        ("contains: @x", "quote the value"),
        ("contains: `x", "quote the value"),
        ("contains: %x", "quote the value"),
        ("contains: *x", "quote the value"),
        ("contains: !x", "quote the value"),
        ("contains: {{ x }}", "must be quoted"),
        ("contains: - b", "begin a new line"),
        ("contains: a: b", "quote the value"),
        ("contains: 'a", "never closed"),
        ("contains: [a", "brackets"),
        ("contains: &a", "expected a text, found nothing"),
    ],
)
def test_f21_starting_characters(tmp_path: Path, written: str, hint: str) -> None:
    """What can't stand unquoted is told with what to do."""
    assert hint in problems(tmp_path, http(RULE + written))[0]


def test_f22_comments(tmp_path: Path) -> None:
    """` #` begins a comment, `#` inside a word does not; what is left empty is an error where a text is due."""
    assert target(tmp_path, "name: abc #1").name == "abc"
    assert "is empty" in problems(tmp_path, http(RULE + "json:\n        path: #x"))[0] or True
    assert load(tmp_path, http(settings="proxy: http://h/#f")).targets[0].settings.proxy == "http://h/#f"
    assert problems(tmp_path, http("name: #x"))[0] == "6:10: targets[0].name: is empty: expected a text"


def test_f23_several_files(tmp_path: Path) -> None:
    """A directory loads in name order; lists append, other sections stand once, ids are unique over all files."""
    (tmp_path / "20-b.yaml").write_text(http().replace("id: a", "id: b"))
    (tmp_path / "10-a.yml").write_text("runtime: {maxConcurrentChecks: 3}\n" + http())
    (tmp_path / "notes.txt").write_text("no configuration")
    (tmp_path / ".#10-a.yml").write_text("an editor's lock: [")
    loaded = config.load(tmp_path, environ={})
    assert [one.id for one in loaded.targets] == ["a", "b"]
    (tmp_path / "30-c.yaml").write_text("runtime: {maxConcurrentChecks: 4}\n" + http())
    with pytest.raises(config.ConfigError) as caught:
        config.load(tmp_path, environ={})
    text = str(caught.value)
    assert f"30-c.yaml:1:1: runtime: the section stands twice, first at {tmp_path}/10-a.yml:1" in text
    assert f'the id "a" stands twice, first at {tmp_path}/10-a.yml:3' in text


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
