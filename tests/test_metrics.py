"""The supervisor's own listener, on a real socket."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from supervisor.loop import LAG_BOUNDS_S, LoopStats
from supervisor.metrics import Listener, Snapshot
from supervisor.pool import PoolStats
from supervisor.store.write import WriterStats
from supervisor.webhook.hooks import EndpointStats, WebhookStats
from supervisor.webhook.outbox import Durations
from tests.net.ports import free_port


def snapshot() -> Snapshot:
    endpoint = EndpointStats("ops", "open", 3, 12.5, 1, Durations())
    return Snapshot(
        LoopStats(scheduled=7, results=5, missed=2),
        tuple(range(len(LAG_BOUNDS_S) + 1)),
        PoolStats(20, busy=3, idle=17),
        WriterStats(1, 1_700_000_000_000, "database is locked", 4, 1.5, 4096, 2, 0, 50.0),
        WebhookStats({"accepted": 9}, {("ops", "retry"): 2}, (endpoint,), 1, 2, 0, 0.5),
        {"up": 3, "down": 1},
        {'a"b\\c': 1_700_000_000_000},
        reload_ok=False,
        reload_time_s=1_700_000_000.0,
    )


@pytest.fixture
def listening():
    started = []

    def start(take=snapshot, alive=lambda: True) -> str:
        port = free_port()
        listener = Listener(f"127.0.0.1:{port}", take, alive)
        listener.start()
        started.append(listener)
        return f"http://127.0.0.1:{port}"

    yield start
    for listener in started:
        listener.stop()


def fetch(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_scrape_has_what_the_snapshot_says(listening):
    """Values, labels and escaping survive a parser's round trip."""
    status, text = fetch(f"{listening()}/metrics")
    assert status == 200
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples[("checkvisor_slots_missed_total", ())] == 2
    assert samples[("checkvisor_store_degraded", ())] == 1
    assert samples[("checkvisor_config_last_reload_successful", ())] == 0
    assert samples[("checkvisor_targets", (("state", "down"),))] == 1
    assert samples[("checkvisor_last_run_timestamp_seconds", (("target", 'a"b\\c'),))] == 1_700_000_000
    assert samples[("checkvisor_webhook_endpoint_state", (("endpoint", "ops"), ("state", "open")))] == 1
    assert samples[("checkvisor_schedule_lag_seconds_bucket", (("le", "+Inf"),))] == sum(range(len(LAG_BOUNDS_S) + 1))


def test_every_metric_of_our_own_begins_with_checkvisor(listening):
    """No other name gets in."""
    _status, text = fetch(f"{listening()}/metrics")
    names = {family.name for family in text_string_to_metric_families(text)}
    assert names
    assert all(name.startswith("checkvisor_") for name in names)


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs Debian's package prometheus (promtool)")
def test_promtool_has_nothing_to_say(listening):
    """`promtool check metrics` passes."""
    _status, text = fetch(f"{listening()}/metrics")
    checked = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, b"")


def test_health_follows_the_loop(listening):
    """/healthz is 200 while the loop turns, else 503; a scrape of a loop that does not turn is 503, not a hang."""
    assert fetch(f"{listening()}/healthz")[0] == 200

    def stuck() -> Snapshot:
        raise TimeoutError

    url = listening(stuck, lambda: False)
    assert fetch(f"{url}/healthz")[0] == 503
    assert fetch(f"{url}/metrics")[0] == 503
    assert fetch(f"{url}/other")[0] == 404


def test_a_busy_port_is_an_error_in_the_log(listening, caplog):
    """The start goes on; the log names the address and the cause."""
    url = listening()
    second = Listener(url.removeprefix("http://"), snapshot, lambda: True)
    second.start()
    second.stop()
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["metrics.failed"]
