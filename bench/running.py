"""A supervisor as users start it, and what it costs: CPU per stored check, memory, rate, schedule error, start."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.origin import free_port
from bench.proc import cpu_s, die_with_parent, family, pss_mb
from bench.rows import Row, quantile
from supervisor.schedule import fraction
from supervisor.store.connect import FILE_NAME

WINDOWS = 3  # CPU per check is the median of so many parts of the measured time
_START_S, _STOP_S = 120.0, 30.0
_KEPT = {"results": "365d", "hourly": "365d", "daily": "3650d"}


class Supervised:
    """A supervisor over `count` targets made from one template; `data` is a data directory that exists already."""

    def __init__(
        self,
        folder: Path,
        target: dict[str, Any],
        count: int,
        interval_s: int,
        workers: int = 20,
        data: Path | None = None,
    ) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self.interval_s, self.count, self.workers = interval_s, count, workers
        self.data = data or self.folder / "data"
        self.metrics = free_port()
        # the ids of bench/generate.py: its database is continued
        self.ids = [f"target-{number:05}" for number in range(count)]
        config = {
            "runtime": {
                "dataDir": str(self.data), "maxConcurrentChecks": workers, "retention": _KEPT,
                "metricsListen": f"127.0.0.1:{self.metrics}",
            },
            "defaults": {"interval": f"{interval_s}s", "timeout": "1s"},
            "targets": [{"id": name, **target} for name in self.ids],
        }  # fmt: skip
        self.config = self.folder / "config.yaml"
        self.config.write_text(json.dumps(config))

    @contextlib.contextmanager
    def started(self) -> Iterator[int]:
        """Run it; gives its pid."""
        command = [sys.executable, "-m", "supervisor", "run", "-c", str(self.config)]
        log = self.folder / "log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(command, stderr=stderr, preexec_fn=die_with_parent)
        try:
            yield process.pid
            if process.poll() is not None:
                raise SystemExit(f"the supervisor ended: {log.read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(_STOP_S)

    # --- figures -----------------------------------------------------------------------------------------------------

    def measure(self, name: str, seconds: float, settle_s: float = 4.0) -> Row:
        """Start, wait for the first result, let it settle, watch it for `seconds`, stop."""
        begun_id = self._last_id()
        begun = time.monotonic()
        with self.started() as pid:
            self._wait(lambda: self._last_id() > begun_id)
            first_s = time.monotonic() - begun
            time.sleep(settle_s)
            parts, buckets, first_id, missed = [], self._lag_buckets(), self._last_id(), self._missed()
            for _ in range(WINDOWS):
                before, cpu, at = self._last_id(), cpu_s(pid), time.monotonic()
                time.sleep(seconds / WINDOWS)
                parts.append((self._last_id() - before, cpu_s(pid) - cpu, time.monotonic() - at))
            last_id, after, missed = self._last_id(), self._lag_buckets(), self._missed() - missed
            memory = {member: pss_mb(member) for member in family(pid)}
        if not all(stored for stored, _, _ in parts):
            raise SystemExit(f"{name}: the supervisor stored nothing for {seconds / WINDOWS:.0f} s")
        failed = "SELECT count(*) FROM check_results WHERE id > ? AND id <= ? AND NOT matched"
        if self._query(failed, first_id, last_id) > (last_id - first_id) * 0.01:
            raise SystemExit(f"{name}: checks failed, so the figures would be of something else")
        # the forkserver and the resource tracker are children too, and smaller than any worker
        others = sorted((size for member, size in memory.items() if member != pid), reverse=True)
        return {
            "name": name,
            "us": statistics.median(used / stored * 1e6 for stored, used, _ in parts),
            "per_s": sum(stored for stored, _, _ in parts) / sum(took for _, _, took in parts),
            "cores": sum(used for _, used, _ in parts) / sum(took for _, _, took in parts),
            **self._schedule_error(first_id, last_id),
            "lag_histogram_p99_ms": interpolated(buckets, after, 0.99),
            "missed": missed,
            "pss_mb": sum(memory.values()),
            "supervisor_mb": memory[pid],
            "worker_mb": statistics.median(others[: self.workers]),
            "first_s": first_s,
        }

    def measure_start(self, name: str) -> Row:
        """Seconds from the start of the program to the first stored result, and to one of every target."""
        begun = time.monotonic()
        with self.started():
            self._wait(lambda: self._last_id() > 0)
            first_s = time.monotonic() - begun
            self._wait(lambda: self._query("SELECT count(first_result_at) FROM targets") == self.count)
            return {"name": name, "first_s": first_s, "last_s": time.monotonic() - begun}

    def _wait(self, condition: Any) -> None:
        until = time.monotonic() + _START_S
        while not condition():
            if time.monotonic() > until:
                raise SystemExit(f"not there within {_START_S:g} s: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.02)

    def _rows(self, statement: str, *values: object) -> list[Any]:
        path = self.data / FILE_NAME
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
            return database.execute(statement, values).fetchall()

    def _query(self, statement: str, *values: object) -> int:
        try:
            return int(self._rows(statement, *values)[0][0])
        except sqlite3.OperationalError:  # no database or no table yet
            return 0

    def _last_id(self) -> int:
        return self._query("SELECT coalesce(max(id), 0) FROM check_results")

    def _missed(self) -> int:
        return self._query("SELECT coalesce(sum(missed_total), 0) FROM target_states")

    def _schedule_error(self, first_id: int, last_id: int) -> dict[str, float]:
        """How long after its slot each check began, from the results themselves.

        A target's slot is `fraction(id)` of its interval on the wall clock (schedule.py), and a result's timestamp is
        the start of its check, rounded down to a ms: half of one is added. What is a whole interval late looks punctual
        here, but is counted as missed.
        """
        interval_ms = self.interval_s * 1000
        slots = {name: fraction(name) * interval_ms for name in self.ids}
        found = self._rows(
            "SELECT t.key, r.timestamp FROM check_results AS r JOIN targets AS t ON t.id = r.target_id "
            "WHERE r.id > ? AND r.id <= ?", first_id, last_id,
        )  # fmt: skip
        late = [(at + 0.5 - slots[key]) % interval_ms for key, at in found]
        # a start within the same ms as its slot may come out as just before it
        late = [value - interval_ms if value > interval_ms - 1 else value for value in late]
        return {"lag_p50_ms": quantile(late, 0.5), "lag_p99_ms": quantile(late, 0.99), "lag_max_ms": max(late)}

    def _lag_buckets(self) -> list[tuple[float, float]]:
        """(upper bound in s, count so far) of the supervisor's own histogram of the schedule's lag."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.findall(r'checkvisor_schedule_lag_seconds_bucket\{le="([^"]+)"\} (\S+)', text)
        return [(float(bound), float(count)) for bound, count in found]


def interpolated(before: list[tuple[float, float]], after: list[tuple[float, float]], q: float) -> float:
    """The q-quantile in ms of what a cumulative histogram gained: linear inside the bucket it falls into. What is in
    the last, open bucket gives that bucket's lower bound."""
    gained = [(bound, count - old) for (bound, count), (_, old) in zip(after, before, strict=True)]
    wanted = gained[-1][1] * q
    lower, below = 0.0, 0.0
    for bound, count in gained:
        if count >= wanted and bound != float("inf"):
            part = (wanted - below) / (count - below) if count > below else 1.0
            return (lower + (bound - lower) * part) * 1000
        if bound != float("inf"):
            lower, below = bound, count
    return lower * 1000
