"""The F cases of public bug reports, and those of other sections as far as load decides them, named by id."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor import config
from supervisor.expect.spec import Compare, StatusRange
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
    (found,) = problems(tmp_path, http("name: '${NOPE}'"), {})
    assert found.startswith("6:11: targets[0].name: the variable NOPE is not set")
    assert found.endswith("or give a default: ${NOPE:-default}")
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
    path = RULE + "json: {\n        path: #x\n      }"
    assert "found nothing" in problems(tmp_path, http(path))[0]
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


def test_f15_json_writes_rare_characters_as_two_escapes(tmp_path: Path) -> None:
    """A configuration made by a JSON library loads; half a pair, and an escaped backslash, are what they are."""
    target = {"id": "a", "name": "\U0001f600 \\ud83d\\ude00", "type": "http", "http": {"url": "http://127.0.0.1/"}}
    text = json.dumps({"targets": [target]})
    assert "\\ud83d" in text
    assert load(tmp_path, text).targets[0].name == target["name"]
    assert "half of a surrogate pair" in problems(tmp_path, text.replace("\\ude00 ", " "))[0]
