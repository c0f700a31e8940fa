"""Where values come from, what may be shown of them, and how they merge."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from supervisor import config
from supervisor.config.masking import masked_url
from tests.config.support import command, http, load, problems

TWO_LEVELS = """defaults:
  interval: 10s
  retryInterval: 5s
  labels: {a: "1", b: "1"}
  http:
    method: HEAD
    headers: {X-One: "1", Accept: "*/*"}
    tls: {verify: false}
  command: {env: {A: "1", B: "1"}, maxOutputBytes: 1KB}
targets:
  - id: a
    type: http
    labels: {b: "2"}
    http:
      url: https://127.0.0.1/
      headers: {x-one: "2"}
      tls: {serverName: b}
  - id: b
    type: command
    timeout: 1s
    command: {exec: /bin/true, env: {B: "2"}}
"""


def test_target_over_defaults_over_built_in(tmp_path: Path) -> None:
    """Mappings merge by key, header names without regard to case; each type takes its own section only."""
    first, second = load(tmp_path, TWO_LEVELS).targets
    assert (first.interval_s, first.timeout_s, first.failure_threshold) == (10.0, 10.0, 3)
    assert first.settings.method == "HEAD"
    assert dict(first.settings.headers) == {"Accept": "*/*", "x-one": "2"}
    assert (first.settings.tls.verify, first.settings.tls.server_name) == (False, "b")
    assert first.labels == (("a", "1"), ("b", "2"))
    assert second.timeout_s == 1.0
    assert second.settings.env == (("A", "1"), ("B", "2"))
    assert second.settings.max_output_bytes == 1024


def test_each_value_has_its_origin(tmp_path: Path) -> None:
    """Built-in, `defaults` with its line, or the target with its line."""
    file = tmp_path / "config.yaml"
    file.write_text(TWO_LEVELS)
    loaded = config.load_all(file, environ={})
    origins = {line.path: line.origin.replace(str(tmp_path) + "/", "") for line in config.explain(loaded, "a")}
    assert origins["interval"] == "defaults at config.yaml:2"
    assert origins["timeout"] == "built-in"
    assert origins["http.url"] == "target at config.yaml:15"
    assert origins["http.method"] == "defaults at config.yaml:6"
    assert origins["http.headers.Accept"] == "defaults at config.yaml:7"
    assert origins["http.headers.x-one"] == "target at config.yaml:16"
    assert origins["http.tls.verify"] == "defaults at config.yaml:8"
    assert origins["http.tls.serverName"] == "target at config.yaml:17"
    assert origins["http.maxRedirects"] == "built-in"
    assert origins["labels.a"] == "defaults at config.yaml:4"
    assert origins["labels.b"] == "target at config.yaml:13"
    assert origins["name"] == "built-in"
    assert origins["expect.status"] == "built-in, when the check is judged"
    assert "http.headers.X-One" not in origins
    with pytest.raises(KeyError):
        config.explain(loaded, "nope")


def test_chosen_targets_come_with_what_they_need(tmp_path: Path) -> None:
    """`explain --yaml ID` prints the target, those it depends on, and the webhooks, and loads."""
    text = """runtime: {publicVariables: [HOST], maxConcurrentChecks: 3}
webhooks: [{name: ops, url: "http://127.0.0.1/", default: true}]
targets:
  - {id: a, type: http, dependsOn: [b], http: {url: "http://${HOST}/"}}
  - {id: b, type: http, http: {url: "http://127.0.0.1/"}}
  - {id: c, type: http, http: {url: "http://127.0.0.1/"}}
"""
    file = tmp_path / "config.yaml"
    file.write_text(text)
    loaded = config.load_all(file, environ={"HOST": "example.org"})
    file.write_text(config.explain_yaml(loaded, ["a"]))
    again = config.load(file, environ={"HOST": "example.org"})
    assert again.targets == loaded.config.targets[:2]


def test_the_stored_configuration_has_no_secret(tmp_path: Path) -> None:
    """Substituted values and values of sensitive names are hidden, also in URLs, bodies and arguments."""
    settings = """method: POST
headers: {Authorization: Bearer clear-1, X-Api-Key: clear-2, Cookie: clear-3, Accept: shown}
json: {user: shown, password: clear-4, deep: [{token: clear-5}]}
proxy: http://user:clear-6@proxy:3128"""
    text = http("", settings).replace(
        "http://127.0.0.1:8080/", "https://u:clear-7@h/p?token=clear-8&page=shown&sig=clear-9#f"
    )
    one = load(tmp_path, text.replace("Authorization: Bearer clear-1, ", "")).targets[0]
    assert "clear-" not in one.config_json
    assert one.config_json.count("shown") == 3
    assert one.summary.startswith("https://h/p?token=")
    assert "page=shown" in one.summary
    assert "clear-" not in one.summary
    assert one.settings.auth.password == "clear-7"
    assert "clear-1" not in load(tmp_path, http("", settings)).targets[0].config_json


def test_the_stored_configuration_is_the_resolved_one(tmp_path: Path) -> None:
    """With built-in values, absolute paths, and nothing of the defaults' shape."""
    stored = json.loads(load(tmp_path, command()).targets[0].config_json)
    expected = {"exec": "/bin/true", "args": [], "cwd": str(tmp_path), "env": {}, "maxOutputBytes": "100MB"}
    assert stored["command"] == expected
    assert stored["interval"] == "30s"
    assert stored["retryInterval"] == "30s"


@pytest.mark.parametrize(
    ("args", "summary"),
    [
        ("[-x, nginx]", "/bin/true -x nginx"),
        ("['a b', \"it's\", '']", "/bin/true 'a b' 'it'\\''s' ''"),
        ("[--password, hunter2hunter2, -H, h]", "/bin/true --password (hidden) -H h"),
        ("[--token=hunter2hunter2]", "/bin/true --token=(hidden)"),
        ("['-k', 'Authorization: Bearer hunter2hunter2']", "/bin/true -k 'Authorization: (hidden)'"),
        ("['${TOKEN}', '-p${TOKEN}']", "/bin/true ${TOKEN} -p${TOKEN}"),
        ("['postgres://u:hunter2hunter2@h/db']", "/bin/true postgres://h/db"),
        ('["a\\tb\\u202ec"]', "/bin/true 'a\\tb\\u202ec'"),
    ],
)
def test_summary_of_a_command(tmp_path: Path, args: str, summary: str) -> None:
    """The command line, quoted where it must be, without secrets."""
    assert load(tmp_path, command(f"args: {args}")).targets[0].summary == summary


def test_masked_urls() -> None:
    """User info goes, secret query values are hidden, substituted ones stay as names."""
    assert masked_url("https://u:p@h:8443/a?b=c") == "https://h:8443/a?b=c"
    assert masked_url("${URL}") == "${URL}"
    assert masked_url("https://${USER}:${PASSWORD}@h/${PATH}?key=${KEY}") == "https://h/${PATH}?key=${KEY}"
    assert "x" not in masked_url("https://h/?API_KEY=x&access%5Ftoken=x").removeprefix("https://h/?API_KEY=").replace(
        "access", ""
    )


def test_page_json(tmp_path: Path) -> None:
    """Groups inherit what they do not say."""
    text = "page: {title: T, show: {failure: message}, groups: {Shop: {show: {target: none}}}}\n" + http()
    assert json.loads(load(tmp_path, text).page_json) == {
        "title": "T",
        "links": [],
        "show": {"target": "full", "failure": "message"},
        "groups": {"Shop": {"target": "none", "failure": "message"}},
    }


def test_maintenance_takes_local_times_of_its_zone(tmp_path: Path) -> None:
    """22:00 in Berlin in summer is 20:00 UTC."""
    text = http() + "maintenance: [{start: '2026-07-01 22:00', end: '2026-07-01 23:00:30', timezone: Europe/Berlin}]\n"
    (window,) = load(tmp_path, text).maintenance
    assert (window.start_ms, window.end_ms) == (1_782_936_000_000, 1_782_939_630_000)


def test_webhook_warnings(tmp_path: Path) -> None:
    """No secret, and reminders that are never sent, are told; a template needs no signature."""
    hook = "webhooks: [{name: ops, url: 'http://127.0.0.1/', events: [down, reminder]}]\n"
    warnings = load(tmp_path, hook + http()).warnings
    assert "there is no signing secret" in warnings[0]
    assert "set reminderInterval" in warnings[1]
    assert not load(tmp_path, "webhooks: [{name: c, url: 'http://127.0.0.1/', template: {a: b}}]\n" + http()).warnings


@pytest.mark.parametrize(
    ("lines", "settings", "warning"),
    [
        ("expect: {maxDurationMs: 10000}", "", "the check ends before this limit"),
        ("expect: {maxDurationMs: 5}\nwarn: {maxDurationMs: 9}", "", "this never warns"),
        ("expect: {certificate: {minDaysLeft: 1}}", "", "only https has a certificate"),
        ("", "body: x", "set method: POST"),
    ],
)
def test_lints_of_http(tmp_path: Path, lines: str, settings: str, warning: str) -> None:
    """What loads and hardly does what is meant is a warning."""
    assert any(warning in told for told in load(tmp_path, http(lines, settings)).warnings)


@pytest.mark.parametrize(
    ("program", "settings", "warning"),
    [
        ("no-such-program-here", "", "no program no-such-program-here is found in PATH"),
        ("/no/such/file", "", "there is no program /no/such/file now"),
        ("~/check", "", "~ is not expanded"),
        ("/bin/true", "cwd: /no/such/directory", "the directory /no/such/directory does not exist now"),
        ("/bin/true", 'args: [a, "|", b]', "there is no shell"),
        ("/bin/true", 'args: ["-w 5"]', "make two items of them"),
        ("config.yaml/../x y", "", "this looks like a whole command line"),
    ],
)
def test_lints_of_commands(tmp_path: Path, program: str, settings: str, warning: str) -> None:
    """A command that can't work as written is a warning: it may be installed later."""
    assert any(warning in told for told in load(tmp_path, command(settings, program=program)).warnings)


def test_a_program_that_everybody_may_change(tmp_path: Path) -> None:
    """It is told; the configuration loads."""
    program = tmp_path / "check"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o757)
    assert "every user may change" in load(tmp_path, command(program="./check")).warnings[0]


def test_dependencies_may_be_deep(tmp_path: Path) -> None:
    """A chain of thousands is no cycle and no recursion."""
    lines = [f"  - {{id: t{n}, dependsOn: [t{n + 1}], type: http, http: {{url: 'http://a/'}}}}" for n in range(3000)]
    text = "targets:\n" + "\n".join(lines) + "\n  - {id: t3000, type: http, http: {url: 'http://a/'}}\n"
    assert len(load(tmp_path, text).targets) == 3001
    assert "in a circle" in problems(tmp_path, text.replace("id: t3000,", "id: t3000, dependsOn: [t0],"))[0]
