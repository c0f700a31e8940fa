"""The supervisor's own /metrics and /healthz: what only it knows (queue, lag, pool, store, reload, webhooks).

`probe_*` and target states are the web app's to tell: it reads them from the database. No metric has a label per target
but the time of its last run, and none has text that comes from outside.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from supervisor import __version__
from supervisor.logs import event
from supervisor.loop import LAG_BOUNDS_S, LoopStats
from supervisor.pool import PoolStats
from supervisor.store.write import WriterStats
from supervisor.webhook.hooks import WebhookStats
from supervisor.webhook.outbox import Durations

log = logging.getLogger(__name__)

ALIVE_S = 30.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the metrics are made of, taken in the main thread between two turns."""

    loop: LoopStats
    lag_counts: tuple[int, ...]
    pool: PoolStats
    store: WriterStats
    webhooks: WebhookStats
    states: dict[str, int]
    last_results_ms: dict[str, int]
    reload_ok: bool
    reload_time_s: float
    heartbeat_failures: int = 0


class SupervisorCollector(Collector):
    """Takes one snapshot for each scrape."""

    def __init__(self, snapshot: Callable[[], Snapshot]) -> None:
        self._snapshot = snapshot

    def describe(self) -> Iterator[Metric]:
        """Nothing ahead of a scrape: registering must not ask the loop, which may not turn yet."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        now = self._snapshot()
        build = GaugeMetricFamily("checkvisor_build_info", "The version that runs.", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield from _loop_metrics(now)
        yield from _pool_metrics(now.pool)
        yield from _store_metrics(now.store)
        yield from _webhook_metrics(now.webhooks)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"checkvisor_{name}", text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(f"checkvisor_{name}", text, value=value)


def _loop_metrics(now: Snapshot) -> Iterator[Metric]:
    yield _counter("checks_scheduled", "Checks that became due, missed ones too.", now.loop.scheduled)
    yield _counter("checks_finished", "Checks that gave a result.", now.loop.results)
    yield _counter("slots_missed", "Regular slots at which no check started.", now.loop.missed)
    yield _counter("checks_cancelled", "Checks ended without a result: reload, stop.", now.loop.cancelled)
    yield _gauge("checks_queued", "Checks that are due and wait for a worker.", now.loop.queued)
    yield _gauge("checks_running", "Checks that are with a worker.", now.loop.running)
    yield _gauge("results_held", "Results that wait for room for their event.", now.loop.held)
    yield _counter("loop_errors", "Turns of the loop that ended with an error of the program.", now.loop.errors)
    total = 0
    buckets = []
    for bound, count in zip((*(str(bound) for bound in LAG_BOUNDS_S), "+Inf"), now.lag_counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    lag = HistogramMetricFamily("checkvisor_schedule_lag_seconds", "From when a check was due until it started.")
    lag.add_metric([], buckets=buckets, sum_value=now.loop.lag_sum_s)
    yield lag
    yield _gauge("schedule_lag_max_seconds", "The largest lag since the start.", now.loop.lag_max_s)
    states = GaugeMetricFamily("checkvisor_targets", "Targets by state.", labels=["state"])
    for name, count in sorted(now.states.items()):
        states.add_metric([name], count)
    yield states
    ran = GaugeMetricFamily(
        "checkvisor_last_run_timestamp_seconds", "When a target was last checked.", labels=["target"]
    )
    for target_id, timestamp_ms in now.last_results_ms.items():
        ran.add_metric([target_id], timestamp_ms / 1000)
    yield ran
    yield _gauge("config_last_reload_successful", "1 if the last load of the configuration worked.", now.reload_ok)
    yield _gauge("config_last_reload_timestamp_seconds", "When it was last loaded.", now.reload_time_s)
    yield _counter("heartbeat_failures", "Pings of runtime.heartbeatUrl that failed.", now.heartbeat_failures)


def _pool_metrics(pool: PoolStats) -> Iterator[Metric]:
    yield _gauge("pool_workers", "Worker processes that are asked for.", pool.size)
    yield _gauge("pool_busy", "Workers that run a check.", pool.busy)
    yield _gauge("pool_idle", "Workers that wait for one.", pool.idle)
    yield _counter("pool_restarts", "Workers that died and were replaced.", pool.restarts)
    yield _counter("pool_recycled", "Workers replaced after many checks or for their memory.", pool.recycled)
    yield _counter("pool_start_failures", "Workers that could not be started.", pool.start_failures)
    yield _gauge("pool_stuck_commands", "Processes of commands that could not be ended.", len(pool.stuck))


def _store_metrics(store: WriterStats) -> Iterator[Metric]:
    yield _gauge("store_degraded", "1 while the database can't be written.", store.degraded_since is not None)
    yield _counter("store_errors", "Attempts to write that failed.", store.store_errors)
    yield _counter("store_lost_results", "Results that overflowed the memory during a fault.", store.lost)
    yield _counter("store_poisoned", "Results that the database refused and that were replaced.", store.poisoned)
    yield _gauge("store_queue", "Items that wait for the writer.", store.queued)
    yield _gauge("store_commit_seconds", "How long the last commit took.", store.commit_ms / 1000)
    yield _gauge("store_wal_bytes", "Size of the write-ahead log.", store.wal_bytes)


def _webhook_metrics(hooks: WebhookStats) -> Iterator[Metric]:
    events = CounterMetricFamily("checkvisor_webhook_events", "Events by what became of them.", labels=["outcome"])
    for outcome, count in sorted(hooks.events.items()):
        events.add_metric([outcome], count)
    yield events
    sent = CounterMetricFamily(
        "checkvisor_webhook_deliveries", "Outcomes of deliveries, and retries.", labels=["endpoint", "outcome"]
    )
    for (name, outcome), count in sorted(hooks.deliveries.items()):
        sent.add_metric([name, outcome], count)
    yield sent
    state = GaugeMetricFamily("checkvisor_webhook_endpoint_state", "1 for its state.", labels=["endpoint", "state"])
    pending = GaugeMetricFamily("checkvisor_webhook_pending_events", "Events that wait.", labels=["endpoint"])
    oldest = GaugeMetricFamily(
        "checkvisor_webhook_oldest_pending_seconds", "Age of the oldest event that waits.", labels=["endpoint"]
    )
    took = HistogramMetricFamily(
        "checkvisor_webhook_delivery_duration_seconds", "How long attempts took.", labels=["endpoint"]
    )
    for endpoint in hooks.endpoints:
        for possible in ("closed", "open", "disabled", "paused"):
            state.add_metric([endpoint.name, possible], endpoint.state == possible)
        pending.add_metric([endpoint.name], endpoint.pending)
        oldest.add_metric([endpoint.name], endpoint.oldest_pending_s)
        took.add_metric([endpoint.name], buckets=_buckets(endpoint.durations), sum_value=endpoint.durations.total_s)
    yield from (state, pending, oldest, took)
    yield _gauge("webhook_degraded_streams", "Streams with events only in memory.", hooks.degraded_streams)
    yield _gauge("webhook_memory_events", "Events that are only in memory.", hooks.memory_events)
    yield _gauge("webhook_waiting_streams", "Targets that wait for room for an event.", hooks.waiting_streams)
    yield _counter("webhook_waited_seconds", "How long targets have waited for room.", hooks.waited_s)


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    total = 0
    found = []
    for bound, count in zip((*(str(bound) for bound in durations.bounds_s), "+Inf"), durations.counts, strict=True):
        total += count
        found.append((bound, float(total)))
    return found


class Listener:
    """The HTTP listener for both. A port that can't be used is an error in the log, not the end of the start."""

    def __init__(self, listen: str, snapshot: Callable[[], Snapshot], alive: Callable[[], bool]) -> None:
        self._listen = listen
        self._alive = alive
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(SupervisorCollector(snapshot))
        self._server: ThreadingHTTPServer | None = None

    def start(self) -> None:
        """Listen, in a thread."""
        if not self._listen:
            return
        host, _, port = self._listen.rpartition(":")
        listener = self

        class Handler(BaseHTTPRequestHandler):
            timeout = 10
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                listener._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                return

        try:
            self._server = ThreadingHTTPServer((host.strip("[]"), int(port)), Handler)
        except OSError as error:
            event(log, "metrics.failed", level=logging.ERROR, listen=self._listen, error=str(error))
            return
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), name="metrics", daemon=True).start()
        event(log, "metrics.listening", url=f"http://{self._listen}/metrics")

    def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        status, kind, body = 404, "text/plain; charset=utf-8", b"there are /metrics and /healthz\n"
        path = request.path.partition("?")[0]
        try:
            if path == "/metrics":
                status, kind, body = 200, CONTENT_TYPE_LATEST, generate_latest(self._registry)
            elif path == "/healthz":
                alive = self._alive()
                status, body = (200, b"ok\n") if alive else (503, b"the loop does not turn\n")
        except TimeoutError:
            status, body = 503, b"the loop does not turn\n"
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)
