"""Every file in data/config/valid loads, and loads the same from what `explain --yaml` prints of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from supervisor import config
from tests.config.support import DATA, ENVIRONMENT

FILES = sorted((DATA / "valid").glob("*.yaml"))
ROOT = DATA.parent.parent.parent


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_explained_yaml_loads_to_the_same(file: Path, tmp_path: Path) -> None:
    """Without defaults, anchors and includes the same targets, webhooks and windows come out."""
    loaded = config.load_all(file, environ=ENVIRONMENT)
    again = tmp_path / "again.yaml"
    again.write_text(config.explain_yaml(loaded))
    second = config.load_all(again, environ=ENVIRONMENT)
    assert second.config.targets == loaded.config.targets
    assert second.config.webhooks == loaded.config.webhooks
    assert second.config.maintenance == loaded.config.maintenance
    assert second.config.page_json == loaded.config.page_json
    assert config.explain_yaml(second) == again.read_text()


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_no_secret_leaves_the_loader(file: Path) -> None:
    """Neither summaries, nor stored configurations, nor explanations, nor reprs hold a secret's value."""
    loaded = config.load_all(file, environ=ENVIRONMENT)
    told = [config.explain_yaml(loaded), repr(loaded.config), *loaded.config.warnings]
    for target in loaded.config.targets:
        told += [target.summary, target.config_json, repr(config.explain(loaded, target.id))]
    for secret in loaded.config.secrets:
        if len(secret.value) >= 6:
            assert not any(secret.value in text for text in told), secret.name


def test_the_sample_loads_without_a_warning_and_without_internet() -> None:
    """config.yaml at the root is clean, and every URL in it is loopback."""
    loaded = config.load(ROOT / "config.yaml", environ={})
    assert not [warning for warning in loaded.warnings if "group" not in warning]
    assert {target.type for target in loaded.targets} == {"http", "command"}
    for target in loaded.targets:
        assert target.type == "command" or target.settings.url.startswith("http://127.0.0.1:8080/")


def test_everything_is_read() -> None:
    """A file with every key gives every field a value that is not the built-in one."""
    loaded = config.load(DATA / "valid" / "everything.yaml", environ=ENVIRONMENT)
    first = loaded.targets[0]
    assert (first.interval_s, first.timeout_s, first.retry_interval_s) == (30.0, 2.5, 5.0)
    assert (first.failure_threshold, first.success_threshold) == (4, 3)
    assert first.labels == (("site", "here"), ("team", "shop"))
    assert first.notify == ("ops", "chat")
    assert first.settings.url == "https://shop.example.org:8443/health"
    assert dict(first.settings.headers) == {"User-Agent": "probe", "x-shared": "2", "Accept": "*/*"}
    assert first.settings.auth.token == "tok-en-123456"
    assert first.settings.connect_to == ("::1", 8443)
    assert first.settings.tls.verify is False
    assert first.settings.tls.min_version == "1.3"
    assert first.settings.max_body_bytes == 10 * 1024 * 1024
    assert first.settings.content_type == "application/json"
    webhook = loaded.webhooks[0]
    assert webhook.retries_s == (0.0, 10.0, 60.0)
    assert "reminder" in webhook.events
    assert loaded.webhooks[1].format == "template"
    assert loaded.webhooks[2].format == "apprise"
    assert loaded.runtime.retention.events_s == 36 * 3600
    assert loaded.runtime.max_concurrent_checks == 5
    assert loaded.maintenance[1].start_ms == 1_772_402_400_000


def test_scalars_are_those_of_yaml_1_2() -> None:
    """Words and times of YAML 1.1 are text; octal, hexadecimal and decimal numbers are what they say."""
    target = config.load(DATA / "valid" / "scalars.yaml", environ=ENVIRONMENT).targets[0]
    assert (target.id, target.name, target.group) == ("on", "12:30", "yes")
    assert dict(target.labels)["d"] == "1_000"
    assert (target.failure_threshold, target.success_threshold) == (10, 31)
    assert target.settings.args == ("010", "on", "1:30", "", "$x", "a$b", "")
    assert target.expect.exit_code == (15,)
    assert target.expect.stdout[0].operators[0].value == 1000.0
    assert target.expect.stdout[4].operators[0].pattern == r"\${2}"
