"""`${...}` inside values: what is put in, what counts as a secret, who sees the variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor import config
from tests.config.support import command, http, load, problems, target


def test_a_lone_variable_is_read_as_a_scalar(tmp_path: Path) -> None:
    """Plain and alone it may be a number or a boolean; quoted, or within a text, it is text."""
    environ = {"N": "5", "B": "false", "T": "x: y"}
    one = target(
        tmp_path,
        "failureThreshold: ${N}\nenabled: ${B}\nname: ${T}\nlabels: {a: '${N}', b: \"${B}\", c: n-$N}",
        environ,
    )
    assert (one.failure_threshold, one.enabled, one.name) == (5, False, "${T}")
    assert dict(one.labels) == {"a": "${N}", "b": "${B}", "c": "n-$N"}
    assert (
        "found a number"
        in problems(
            tmp_path,
            http(settings="headers: {X: ${N}}".replace("${N}", "${N}")).replace("{X: ${N}}", "\n        X: ${N}"),
            environ,
        )[0]
    )


def test_secrets_of_a_target(tmp_path: Path) -> None:
    """Substituted values are secrets of their target; public ones and defaults are not."""
    text = "runtime: {publicVariables: [HOST]}\n" + http(
        "name: on ${HOST}", "headers: {A: 'Bearer ${TOKEN}', B: '${X:-shown-default}', C: '${TOKEN}'}"
    )
    loaded = load(tmp_path, text, {"HOST": "example.org", "TOKEN": "hidden-value"})
    one = loaded.targets[0]
    assert [(secret.name, secret.value) for secret in one.secrets] == [("TOKEN", "hidden-value")]
    assert one.name == "on example.org"
    assert "hidden-value" not in one.config_json
    assert '"Bearer ${TOKEN}"' in one.config_json
    assert "shown-default" in one.config_json
    assert loaded.secrets == one.secrets


def test_what_everybody_sees_is_masked(tmp_path: Path) -> None:
    """Name and labels of a target go to pages and receivers: secrets in them are masked, public values stay."""
    text = "runtime: {publicVariables: [HOST]}\n" + http(
        "name: 'on ${HOST} by ${WORD}'\nlabels: {a: '${WORD}', b: '${HOST}'}", "headers: {}"
    )
    one = load(tmp_path, text, {"HOST": "example.org", "WORD": "hidden-value"}).targets[0]
    assert (one.name, dict(one.labels)) == ("on example.org by ${WORD}", {"a": "${WORD}", "b": "example.org"})


def test_the_group_and_the_page_are_masked(tmp_path: Path) -> None:
    """They stand in the database, on pages and in events. What names the group by its value still means it."""
    text = http("group: 'G ${WORD}'") + (
        "  - {id: b, group: G hidden-value, type: http, http: {url: 'http://a/'}}\n"
        "maintenance: [{groups: ['G hidden-value'], cron: 0 3 * * 0, duration: 1h}]\n"
        "page:\n  title: 'T ${WORD}'\n  links: [{name: 'L ${WORD}', url: 'http://a/${WORD}'}]\n"
        "  show: {target: '${HOW}'}\n  groups: {G hidden-value: {show: {target: none}}}\n"
    )
    loaded = load(tmp_path, text, {"WORD": "hidden-value", "HOW": "host"})
    assert [one.group for one in loaded.targets] == ["G ${WORD}", "G hidden-value"]
    assert loaded.maintenance[0].groups == ("G ${WORD}", "G hidden-value")
    page = json.loads(loaded.page_json)
    assert (page["title"], page["links"]) == ("T ${WORD}", [{"name": "L ${WORD}", "url": "http://a/${WORD}"}])
    assert page["show"]["target"] == "host"
    assert {name: show["target"] for name, show in page["groups"].items()} == {
        "G ${WORD}": "none",
        "G hidden-value": "none",
    }


def test_warnings_hold_no_secret(tmp_path: Path) -> None:
    """What is said about a value names the variables in it."""
    text = command("cwd: '/no ${WORD}'", program="'/nope/${WORD}'")
    loaded = load(tmp_path, text, {"WORD": "hidden-value"})
    assert len(loaded.warnings) == 2
    assert all("${WORD}" in warning and "hidden-value" not in warning for warning in loaded.warnings)


def test_commands_know_what_they_inherit(tmp_path: Path) -> None:
    """A command finds the variables of all targets in its environment: its output is masked for them too, but not for
    those of webhooks, which it does not get."""
    text = http("name: one", "headers: {A: '${TOKEN}'}") + (
        "  - {name: two, type: command, command: {exec: 'true', args: ['${OWN}']}}\n"
        "webhooks:\n"
        "  - {name: ops, url: 'https://example.org/${HOOK}', secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]}\n"
    )
    environ = {"TOKEN": "hidden-value", "OWN": "own-value", "HOOK": "hook-value"}
    targets = {one.id: {secret.name for secret in one.secrets} for one in load(tmp_path, text, environ).targets}
    assert targets == {"a": {"TOKEN"}, "two": {"OWN", "TOKEN"}}


def test_values_are_plain_texts(tmp_path: Path) -> None:
    """No special class of text leaves the loader: targets are pickled to workers."""
    lines = """
name: '${T}'
group: '${T}'
labels: {a: '${T}'}
expect:
  headers: {A: '${T}'}
  body: [{contains: '${T}'}, {json: {path: '$.a', equals: {b: ['${T}']}}}]
"""
    text = http(lines, "headers: {A: '${T}'}\nmethod: POST\njson: {a: ['${T}']}")
    one = load(tmp_path, text, {"T": "text-text"}).targets[0]

    def texts(value: object) -> list[str]:
        if isinstance(value, str):
            return [value]
        if isinstance(value, tuple | list):
            return [text for item in value for text in texts(item)]
        if isinstance(value, dict):
            return [text for item in value.items() for text in texts(item)]
        names = getattr(type(value), "__dataclass_fields__", {})
        return [text for name in names for text in texts(getattr(value, name))]

    assert all(type(text) is str for text in texts(one))


def test_short_secrets_are_a_warning(tmp_path: Path) -> None:
    """They can't be masked in messages, and that is said."""
    assert "fewer than 6 characters" in load(tmp_path, http("name: a${S}"), {"S": "abc"}).warnings[0]
    assert not load(tmp_path, http("name: a${S}"), {"S": ""}).warnings


def test_files(tmp_path: Path) -> None:
    """One trailing line end is removed; what can't be read is a sentence."""
    (tmp_path / "s").write_text("two\nlines\n\n")
    assert load(tmp_path, http(settings="method: POST\nbody: '${file:s}'")).targets[0].settings.body == b"two\nlines\n"
    (tmp_path / "s").write_bytes(b"\xff")
    assert "is not UTF-8" in problems(tmp_path, http("name: '${file:s}'"))[0]
    (tmp_path / "s").write_text("x" * 70_000)
    assert "larger than 65,536 bytes" in problems(tmp_path, http("name: '${file:s}'"))[0]
    assert "Is a directory" in problems(tmp_path, http("name: '${file:.}'"))[0]
    assert "can't be read" in problems(tmp_path, http('name: "${file:a\\0b}"'))[0]


@pytest.mark.parametrize(
    "text", ["${", "a ${b c}", "${1}", "${}", "${file:}", "${A-x}", "${A:?x}", "${a.b}", "$${ ${x y}"]
)
def test_other_forms_are_errors(tmp_path: Path, text: str) -> None:
    """What begins like a variable and is none names the way out."""
    assert "write $${ for a plain ${" in problems(tmp_path, http(f"name: '{text}'"))[0]


@pytest.mark.parametrize(
    ("text", "value"), [("$$", "$"), ("$${A}", "${A}"), ("a$", "a$"), ("$A", "$A"), ("$$$${", "$${"), ("$(x)", "$(x)")]
)
def test_dollars(tmp_path: Path, text: str, value: str) -> None:
    """`$$` is `$`; a lone dollar is a dollar."""
    assert target(tmp_path, f"name: '{text}'").name == value


def test_a_default_steps_in_for_unset_and_empty(tmp_path: Path) -> None:
    """As in a shell; it may be empty, and may hold a colon."""
    one = target(tmp_path, "name: '${A:-http://x:1/}'\nlabels: {a: '${A:-}', b: '${E:-x}'}", {"E": ""})
    assert (one.name, dict(one.labels)) == ("http://x:1/", {"a": "", "b": "x"})


def test_variables_of_webhooks_only(tmp_path: Path) -> None:
    """They are named, so that no command inherits them."""
    text = command("env: {A: '${SHARED}'}") + (
        "webhooks:\n  - {name: ops, url: '${HOOK}', secrets: [], headers: {A: '${SHARED}', B: '${GONE:-x}'}}\n"
    )
    loaded = load(tmp_path, text, {"HOOK": "http://127.0.0.1/hook", "SHARED": "shared-value"})
    assert loaded.targets[0].settings.drop_env == ("GONE", "HOOK")
    assert {secret.name for secret in loaded.webhooks[0].mask} == {"HOOK", "SHARED"}


def test_a_shared_anchor_is_substituted_once(tmp_path: Path) -> None:
    """An alias sees the same value."""
    text = "x-a: &a '${T}'\nruntime: {publicVariables: [T]}\n"
    text += "targets:\n  - {id: a, name: *a, group: *a, type: http, http: {url: 'http://a/'}}\n"
    assert load(tmp_path, text, {"T": "text-text"}).targets[0].group == "text-text"


def test_keys_are_not_substituted(tmp_path: Path) -> None:
    """A variable in a key stays as it is, and is refused where keys have an alphabet."""
    assert "labels" in problems(tmp_path, http("labels: {'${T}': x}"), {"T": "team"})[0]


def test_an_error_never_shows_a_secret(tmp_path: Path) -> None:
    """Whatever its type, and wherever it stands."""
    lines = "interval: ${A}\nname: '${B}'\nenabled: ${C}\nexpect: {status: ['${A}'], maxDurationMs: ${B}}"
    settings = "proxy: '${B}'\nmaxBodyBytes: ${C}\nauth: ${A}\nheaders: {A: '${C}'}"
    environ = {"A": "987654", "B": "top\tsecret", "C": "3.14159"}
    with pytest.raises(config.ConfigError) as caught:
        load(tmp_path, http(lines, settings), environ)
    for value in environ.values():
        assert value not in str(caught.value)
        assert repr(value)[1:-1] not in str(caught.value)


def test_a_bad_path_shows_no_part_of_a_secret(tmp_path: Path) -> None:
    """What stands at the wrong place may be a piece of it: only the masked path is shown."""
    rules = "{json: {path: '$[?@.key == ${A}]'}}, {json: {path: '${A} x', dialect: jsonpath-ng}}"
    told = "\n".join(problems(tmp_path, http(f"expect: {{body: [{rules}]}}"), {"A": "hunter2 and more"}))
    assert told.count(" is not a ") == 2
    assert "$[?@.key == ${A}] is not a JSONPath of RFC 9535 at character 13: expected a value" in told
    for word in ("hunter2", "and more"):
        assert word not in told
