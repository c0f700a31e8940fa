"""/metrics and the badges: nothing that is not known now."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from flask.testing import FlaskClient
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text

from tests.webui.fill import DAY, Fill, now

NOW_ONLY = ("probe_", "checkvisor_target_state")


def _samples(client: FlaskClient) -> dict[tuple[str, str], float]:
    found = {}
    for family in text_string_to_metric_families(client.get("/metrics").text):
        for sample in family.samples:
            extra = sample.labels.get("state") or sample.labels.get("outcome") or sample.labels.get("phase") or ""
            found[sample.name + extra, sample.labels.get("target", "")] = sample.value
    return found


def test_what_is_told(fill: Fill, client: FlaskClient) -> None:
    """The last result under blackbox_exporter's names, the state, lifetime counters."""
    fill.target("ok", timings={"dns": 1.5, "firstByte": 20}, certificate={"notAfter": 1_800_000_000_000})
    fill.target("bad", "down")
    found = _samples(client)
    assert found["probe_success", "ok"] == 1
    assert found["probe_success", "bad"] == 0
    assert found["probe_duration_seconds", "ok"] == pytest.approx(0.1073)
    assert found["probe_http_status_code", "bad"] == 503
    assert found["probe_ssl_earliest_cert_expiry", "ok"] == 1_800_000_000
    assert found["probe_http_duration_secondsresolve", "ok"] == pytest.approx(0.0015)
    assert found["probe_http_duration_secondsprocessing", "ok"] == pytest.approx(0.02)
    assert found["checkvisor_target_statedown", "bad"] == 1
    assert found["checkvisor_target_stateup", "bad"] == 0
    assert found["checkvisor_checks_totalmatched", "ok"] == 4000
    assert found["checkvisor_supervisor_stale", ""] == 0


def test_failing_is_a_failed_probe(fill: Fill, client: FlaskClient) -> None:
    """`probe_success` is the last raw result, not the damped state."""
    fill.target("t", "failing")
    assert _samples(client)["probe_success", "t"] == 0


@pytest.mark.parametrize("how", ["late", "paused", "pending", "stale", "stopped"])
def test_w18_no_sample_of_what_is_not_known(how: str, fill: Fill, client: FlaskClient) -> None:
    """A late, paused or never checked target, and any under a silent supervisor, has no sample that says how it is."""
    fields = {"late": {"at": now() - DAY}, "paused": {"enabled": False}}.get(how, {})
    fill.target("t", "pending" if how == "pending" else "up", **fields)
    if how == "stale":
        fill.heartbeat(now() - 31_000)
    if how == "stopped":
        fill.close()
    found = _samples(client)
    assert not [name for name, target in found if target and name.startswith(NOW_ONLY)]
    assert ("checkvisor_checks_totalmatched", "t") in found


def test_w18_removed_targets_are_gone(fill: Fill, client: FlaskClient) -> None:
    """W18: a removed target has no series, without a restart; no label holds an address or a message."""
    fill.target("gone", "down")
    fill.target("here")
    assert 'target="gone"' in client.get("/metrics").text
    fill.run(text("UPDATE targets SET removed_at = 1 WHERE key = 'gone'"))
    fill.change(2, last_timestamp=now())
    scrape = client.get("/metrics").text
    assert 'target="gone"' not in scrape
    assert "example.net" not in scrape
    assert "status 503" not in scrape
    assert set(re.findall(r"(\w+)=\"", scrape)) <= {"target", "type", "group", "state", "outcome", "phase", "version"}


def test_formats(fill: Fill, client: FlaskClient) -> None:
    """Text by default, OpenMetrics when asked for."""
    fill.target("t")
    assert client.get("/metrics").content_type.startswith("text/plain; version=0.0.4")
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.content_type.startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


def test_promtool(fill: Fill, client: FlaskClient) -> None:
    """`promtool check metrics` finds nothing to say."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing: apt install prometheus")
    fill.target("t", timings={"dns": 1.0}, certificate={"notAfter": now()})
    fill.target("down", "down", group='q"uote')
    done = subprocess.run(
        [promtool, "check", "metrics"], input=client.get("/metrics").data, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")


@pytest.mark.parametrize(
    ("state", "word"),
    [("up", "up"), ("down", "down"), ("failing", "failing"), ("degraded", "degraded"), ("pending", "not checked yet")],
)
def test_badges(state: str, word: str, fill: Fill, client: FlaskClient) -> None:
    """A badge says the one word, in SVG and in the JSON of shields.io, and may be kept for half a minute."""
    fill.target("t", state)
    svg, shield = client.get("/badges/t/status.svg"), client.get("/badges/t/status.json")
    assert f"t: {word}</title>" in svg.text
    assert svg.headers["Cache-Control"] == "public, max-age=30"
    assert svg.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert shield.json is not None
    assert (shield.json["schemaVersion"], shield.json["label"], shield.json["message"]) == (1, "t", word)


@pytest.mark.parametrize("kind", ["status", "uptime", "duration"])
def test_stale_badges_are_grey(kind: str, fill: Fill, client: FlaskClient) -> None:
    """Under a silent supervisor every badge is "unknown", in grey."""
    number = fill.target("t")
    fill.rollup(number, DAY, now(), 1000, 1)
    fresh = client.get(f"/badges/t/{kind}.json").json
    assert fresh is not None
    assert fresh["message"] in ("up", "99.900 %", "107 ms")
    fill.heartbeat(now() - 60_000)
    stale = client.get(f"/badges/t/{kind}.json").json
    assert stale is not None
    assert (stale["message"], stale["color"]) == ("unknown", "#5b6472")
