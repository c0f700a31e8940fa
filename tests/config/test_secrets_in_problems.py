"""Problems name what was found, and never show a secret or a sentence with holes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.support import http, problems

SECRET = "Supersecret99"
REFERENCES = {
    "notify": http(f"notify: ['${{TOK}}', {SECRET}x]"),
    "dependsOn": http("dependsOn: ['${TOK}']"),
    "circle": http("dependsOn: ['${TOK}']") + "  - {id: '${TOK}', dependsOn: [a], type: http, http: {url: 'http://h/'}}\n",
    "ids": "targets:\n" + "  - {id: '${TOK}', type: http, http: {url: 'http://h/'}}\n" * 2,
    "listed": http("dependsOn: [zzz]") + "  - {id: '${TOK}', type: http, http: {url: 'http://h/'}}\n",
    "maintenance": http()
    + "maintenance: [{cron: '0 3 * * 0', duration: 1h, targets: ['${TOK}'], groups: ['${TOK}']}]\n",
    "template": http() + "webhooks: [{name: o, url: 'http://h/', format: template, template: {a: '{{ ${TOK} }}'}}]\n",
    "include": http() + "include: ['${TOK}.yaml']\n",
    "webhooks": http() + "webhooks: [{name: '${TOK}', url: 'http://h/'}, {name: '${TOK}', url: 'http://h/'}]\n",
}  # fmt: skip


@pytest.mark.parametrize("text", REFERENCES.values(), ids=REFERENCES.keys())
def test_names_that_are_secrets_are_masked(tmp_path: Path, text: str) -> None:
    """Also where one place speaks of the value of another."""
    found = problems(tmp_path, text, {"TOK": SECRET})
    assert found
    assert SECRET not in "\n".join(found)
    assert "${TOK}" in "\n".join(found)


@pytest.mark.parametrize(
    ("line", "value", "sentence"),
    [
        ("failureThreshold: ${N}", "0", "expected a whole number from 1 to 1,000, found the number ${N}"),
        ("failureThreshold: ${N}", "0x1F4A5B6C", "expected a whole number from 1 to 1,000, found the number ${N}"),
        ("interval: ${N}", "30", "expected a duration with its unit such as ${N}s, found the number ${N}"),
        ("enabled: ${N}", "yes", 'expected true or false, found "${N}": yes, no, on and off are text in YAML 1.2'),
        ("interval: ${N}", "true", "expected a duration such as 500ms, 30s, 1m30s, 2h or 7d, found the boolean ${N}"),
    ],
)
def test_only_what_was_found_is_masked(tmp_path: Path, line: str, value: str, sentence: str) -> None:
    """A short value makes no holes in the rest of the sentence; a number is masked however it was written."""
    [problem] = problems(tmp_path, http(line), {"N": value})
    assert problem.endswith(sentence)


def test_an_empty_variable_is_said_to_be_empty(tmp_path: Path) -> None:
    """`found "${N}"` alone would not say what is wrong with it."""
    [problem] = problems(tmp_path, http("interval: ${N}"), {"N": ""})
    assert problem.endswith('found "${N}", which is empty')
