"""What is of the kind of the F cases, and of the C cases as far as they show at load: nothing is ignored silently, and
each sentence says how to put it right."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from supervisor import config
from supervisor.errors import ConfigError
from tests.config.support import command, http, load, problems


def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        config.load(path, environ={})
    return str(caught.value)


@pytest.mark.parametrize(("word", "value"), [("08", "8"), ("-09", "-9"), ("019", "19")])
def test_f05_a_number_that_is_not_octal_is_written_without_its_zero(tmp_path: Path, word: str, value: str) -> None:
    """0o8 is no number at all."""
    [warning] = load(tmp_path, http(f"expect: {{body: [{{json: {{path: $.a, equals: {word}}}}}]}}")).warnings
    assert warning.endswith(f"{word} is read as {value}: write {value} or quote it")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("5 min", "the units are y, w, d, h, m, s and ms"),
        ("30sec", "the units are y, w, d, h, m, s and ms"),
        ("1M", "the units are y, w, d, h, m, s and ms"),
        ("00:00:30", "the units are y, w, d, h, m, s and ms"),
        ("30s1m", "the larger unit stands first, as in 1m30s"),
        ("1m 30s", "write it without spaces"),
    ],
)
def test_f09_a_duration_is_put_right(tmp_path: Path, word: str, hint: str) -> None:
    """By what is wrong with it."""
    [problem] = problems(tmp_path, http(f"interval: '{word}'"))
    assert problem.endswith(f'found "{word}": {hint}')


@pytest.mark.parametrize("where", ["headers: {'X-${TOKEN}': x}", "json: {'${TOKEN}': x}", "form: {'${HOST}': x}"])
def test_f10_a_variable_in_a_key_is_a_warning(tmp_path: Path, where: str) -> None:
    """Keys stay as they are: that must not pass in silence."""
    text = http(settings=f"method: POST\n{where}")
    try:
        said = "\n".join(load(tmp_path, text).warnings)
    except ConfigError as exc:
        said = str(exc)
    assert "a key" in said or "not a header name" in said


def test_f10_a_variable_in_a_name_of_env_is_a_warning(tmp_path: Path) -> None:
    """The command would get a variable of that very name."""
    [warning] = load(tmp_path, command("env: {'${TOKEN}': x}")).warnings
    assert "variables are put into values only: this key stays as it is" in warning


def test_f11_what_is_not_closed_and_what_is_nested(tmp_path: Path) -> None:
    """Each has its own sentence."""
    [problem] = problems(tmp_path, http("group: 'a ${TOKEN'"))
    assert "${ has no } behind it: close it, or write $${ for a plain ${" in problem
    [problem] = problems(tmp_path, http("group: '${file:${TOKEN}}'"))
    assert "the path of ${file:...} holds another ${" in problem


def test_f11_a_byte_order_mark_is_no_part_of_a_secret(tmp_path: Path) -> None:
    """Editors on Windows write it, and a login with it fails."""
    (tmp_path / "token").write_bytes(b"\xef\xbb\xbffilesecret\r\n")
    [one] = load(tmp_path, http(settings="headers: {A: '${file:token}'}"), {}).targets
    assert dict(one.settings.headers)["A"] == "filesecret"


def test_f13_an_empty_list_of_links_asks_for_a_list(tmp_path: Path) -> None:
    """Not for a mapping."""
    [problem] = problems(tmp_path, http() + "page: {links: }\n")
    assert problem.endswith("page.links: is empty: expected a list, each item a mapping")


def test_f13_a_group_of_the_page_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    """What was meant to be hidden would be shown."""
    text = http("group: Shop") + "page: {groups: {shop: {show: {target: none}}, Shop: {show: {failure: none}}}}\n"
    [warning] = load(tmp_path, text).warnings
    assert warning.endswith('7:17: page.groups.shop: there is no group "shop" now: did you mean Shop?')


@pytest.mark.parametrize(
    ("written", "found"), [("5", "the number 5"), ("{a: b}", "a mapping"), ("", "nothing"), ("[[x]]", "a list")]
)
def test_f13_include_says_what_was_found(tmp_path: Path, written: str, found: str) -> None:
    """As every other key does."""
    [problem] = problems(tmp_path, http() + f"include: {written}\n")
    assert problem.endswith(f"expected a file name or a pattern such as conf.d/*.yaml, found {found}")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32"])
def test_f15_other_encodings_are_named(tmp_path: Path, encoding: str) -> None:
    """UTF-16 without a byte order mark looks like text full of U+0000."""
    [problem] = problems(tmp_path, http().encode(encoding))
    assert problem.endswith("the file looks like UTF-16 or UTF-32: save it in UTF-8")


@pytest.mark.parametrize("content", [bytes(range(256)), b"targets:\0 []", b"\0", b"ab\0"])
def test_f15_a_nul_is_no_encoding(tmp_path: Path, content: bytes) -> None:
    """A binary file, or one with a stray NUL, is told as such."""
    [problem] = problems(tmp_path, content)
    assert "UTF-16" not in problem


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (http() + "\ufeffwebhooks: []\n", "a byte order mark (U+FEFF)"),
        (http("interval:\u30005s"), "an ideographic space (U+3000)"),
        (http("interval\uff1a5s"), "a fullwidth colon (U+FF1A)"),
        (http().replace("    type", "\u00a0\u00a0\u00a0\u00a0type"), "a no-break space (U+00A0)"),
        (http() + "    group: a\u2028b\n", "a line separator (U+2028)"),
        (http("interval:\u200b5s"), "a zero width space (U+200B)"),
    ],
)
def test_f15_characters_that_only_look_right_are_named(tmp_path: Path, text: str, name: str) -> None:
    """What comes from web pages and chats; nobody sees what is wrong there."""
    [problem] = problems(tmp_path, text)
    assert f"the line holds {name}" in problem


@pytest.mark.parametrize(
    ("lines", "place"),
    [("interval:5s", "6:5"), ("interval 5s\ngroup: x", "6:5"), ("group: x\ninterval:5s\nname: y", "7:5"), ("x", "6:5")],
)
def test_f21_a_colon_without_a_space_is_told_where_it_stands(tmp_path: Path, lines: str, place: str) -> None:
    """Not in the line below, where libyaml notices."""
    [problem] = problems(tmp_path, http(lines))
    assert problem == f"{place}: targets[0]: a key needs a colon and a space behind it, as in key: value"


@pytest.mark.parametrize("path", ["C:\\Users", "C:\\xyz", "\\\\srv\\up"])
def test_f21_backslashes_in_double_quotes(tmp_path: Path, path: str) -> None:
    """Those that begin an escape with digits too."""
    [problem] = problems(tmp_path, command(f'cwd: "{path}"'))
    assert "write the value in single quotes, where a backslash is a backslash" in problem


def test_f19_every_circle_is_told(tmp_path: Path) -> None:
    """Two that share a target too."""
    text = "targets:\n"
    for name, on in (("a", "[b, c]"), ("b", "[a]"), ("c", "[a]"), ("d", "[d, a]")):
        text += f"  - {{id: {name}, dependsOn: {on}, type: http, http: {{url: 'http://h/'}}}}\n"
    found = "\n".join(problems(tmp_path, text))
    assert [circle for circle in ("a -> b -> a", "a -> c -> a", "d -> d") if circle not in found] == []


def test_f23_a_link_to_nowhere_is_an_error(tmp_path: Path) -> None:
    """The targets behind it would be gone without a word."""
    folder = tmp_path / "sites-enabled"
    folder.mkdir()
    (folder / "a.yaml").write_text(http())
    (folder / "b.yaml").symlink_to("../sites-available/b.yaml")
    assert "b.yaml:1:1: the file can't be read: No such file or directory" in refused(folder)
    (tmp_path / "c.yaml").write_text("include: [sites-enabled]\n")
    assert "b.yaml:1:1: the file can't be read: No such file or directory" in refused(tmp_path / "c.yaml")


def test_f23_a_directory_that_everybody_may_write(tmp_path: Path) -> None:
    """Whoever puts a file there may run commands."""
    folder = tmp_path / "conf.d"
    folder.mkdir()
    (folder / "a.yaml").write_text(command())
    folder.chmod(0o1777)
    assert f"{folder}:1:1: every user may put files into this directory" in refused(folder)
    (tmp_path / "c.yaml").write_text("include: [conf.d]\n")
    assert f"{folder}:1:1: every user may put files into this directory" in refused(tmp_path / "c.yaml")
    folder.chmod(0o755)
    assert len(config.load(folder, environ={}).targets) == 1


@pytest.mark.parametrize(
    ("settings", "program", "sentence"),
    [
        ("", "' true'", 'write it without blanks at its ends: "true"'),
        ("", "'true '", 'write it without blanks at its ends: "true"'),
        ("", "/etc", "/etc is a directory, not a program"),
        ("", "$HOME/x", "$HOME is not expanded, there is no shell: write ${HOME}"),
        ("cwd: '~/x'", "/bin/true", "~ is not expanded, there is no shell: write the whole path"),
        ("cwd: $HOME", "/bin/true", "$HOME is not expanded, there is no shell: write ${HOME}"),
        ("cwd: /etc/passwd", "/bin/true", "/etc/passwd is not a directory"),
    ],
)
def test_c34_what_a_shell_would_do(tmp_path: Path, settings: str, program: str, sentence: str) -> None:
    """Nothing does it here; the warning says what to write."""
    assert sentence in "\n".join(load(tmp_path, command(settings, program=program)).warnings)


@pytest.mark.parametrize(("word", "number"), [("SIGKILL", -9), ("'sigterm'", -15), ("HUP", -1), ("'-9'", -9)])
def test_c15_signals_are_negative_numbers(tmp_path: Path, word: str, number: int) -> None:
    """The names are what people write first."""
    [problem] = problems(tmp_path, command(lines=f"expect: {{exitCode: {word}}}"))
    assert problem.endswith(f": write {number}")


@pytest.mark.parametrize("offset", ["+25:00", "-24:00", "+99:99"])
def test_maintenance_offsets_have_no_python_in_their_sentence(tmp_path: Path, offset: str) -> None:
    """datetime speaks of timedeltas."""
    text = http() + f"maintenance: [{{start: '2026-01-01T22:00{offset}', end: '2026-01-03T22:00Z'}}]\n"
    [problem] = problems(tmp_path, text)
    assert "timedelta" not in problem
    assert problem.endswith("the offset must be less than 24 hours")
    assert os.linesep not in problem


@pytest.mark.parametrize("where", ["/proc/1/root/nope", "/" + "x" * 300, "/etc/passwd/x"])
def test_c21_a_directory_that_can_not_be_looked_at_is_a_warning(tmp_path: Path, where: str) -> None:
    """Whoever validates may not be who runs the check; a name may be too long for the system."""
    assert "targets[0].command.cwd: the directory" in "\n".join(load(tmp_path, command(f"cwd: {where}")).warnings)
    said = "\n".join(load(tmp_path, command(program=f"'{where}/a b'")).warnings)
    assert "targets[0].command.exec" in said


def test_a_window_that_a_change_of_the_clock_turns_round_says_so(tmp_path: Path) -> None:
    """02:30 is 03:30 on that day, after 03:15."""
    text = http() + "maintenance: [{start: 2026-03-29 02:30, end: 2026-03-29 03:15, timezone: Europe/Berlin}]\n"
    [problem] = problems(tmp_path, text)
    assert problem.endswith("the end must come after the start: in Europe/Berlin the clock is set forward between them")


def test_f_a_suffix_in_capitals_is_one_too(tmp_path: Path) -> None:
    """As cameras and Windows write it: its targets would be missed in silence."""
    for name in ("a.YAML", "b.Yml"):
        (tmp_path / name).write_text(f"targets:\n  - {{id: {name[0]}, type: command, command: {{exec: 'true'}}}}\n")
    assert [target.id for target in config.load(tmp_path, environ={}).targets] == ["a", "b"]


@pytest.mark.parametrize("value", ["[.inf]", "{a: {b: [1, -.inf]}}", "[[.nan]]"])
def test_e_nothing_equals_infinity_however_deep(tmp_path: Path, value: str) -> None:
    """Such an expectation could never hold."""
    [problem] = problems(tmp_path, http(f"expect: {{body: [{{json: {{path: $.a, equals: {value}}}}}]}}"))
    assert "nothing equals .nan or .inf" in problem


def test_f_a_quoted_status_that_is_none_is_not_told_to_lose_its_quotes(tmp_path: Path) -> None:
    """1000 without quotes is no status either."""
    [problem] = problems(tmp_path, http('expect: {status: ["1000"]}'))
    assert problem.endswith('or a range such as 200-299, found "1000"')
