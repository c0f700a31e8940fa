"""`checkvisor run`: builds the supervisor's parts, wires them, and takes them down in order."""

from __future__ import annotations

import json
import logging
import os
import resource
import selectors
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import FrameType

from supervisor import __version__, logs
from supervisor import config as configuration
from supervisor.control import Control, socket_path
from supervisor.errors import CheckvisorError, ConfigError, StartError
from supervisor.logs import Formatter, event
from supervisor.loop import Loop, boottime
from supervisor.mailbox import Mailbox
from supervisor.metrics import ALIVE_S, Listener, Snapshot
from supervisor.model import Config, RuntimeSettings
from supervisor.notify import Notifier
from supervisor.pool import Pool, PoolStats
from supervisor.record import Recorder
from supervisor.reload import Reloader
from supervisor.schedule import Schedule
from supervisor.store.connect import Reader
from supervisor.store.lock import DirectoryLock
from supervisor.store.write import Writer
from supervisor.webhook.heartbeat import Heartbeat
from supervisor.webhook.hooks import Webhooks

log = logging.getLogger(__name__)

_POOL_GRACE_S = 1.0
_HOOKS_GRACE_S = 2.0
_FLUSH_S = 2.0
_STOP_S = 9.0  # for all of it; what is left when the checks are over is shared by receivers and database
_LEAST_S = 0.5
_LOOK_S = 5.0


class _StoppedEarly(BaseException):
    """A signal came before there was a loop to act on it."""


def _stop_early(_number: int, _frame: FrameType | None) -> None:
    raise _StoppedEarly


def run(path: Path, *, insecure: bool, watch: bool, environ: Mapping[str, str]) -> int:
    """Run the supervisor until it is told to stop; returns the exit status."""
    formatter = logs.setup()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop_early)
    try:
        return _run(path, formatter, insecure=insecure, watch=watch, environ=environ)
    except _StoppedEarly:
        event(log, "supervisor.stopped", results=0, during="start")
        return 0


def _run(path: Path, formatter: Formatter, *, insecure: bool, watch: bool, environ: Mapping[str, str]) -> int:
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow the symlinks that --watch must see
    try:
        config = configuration.load(path, environ=environ, insecure=insecure)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_status
    logs.set_secrets(formatter, config.secrets)
    for warning in config.warnings:
        event(log, "config.warning", level=logging.WARNING, warning=warning)
    try:
        with ExitStack() as stack:
            supervisor = Supervisor(path, config, formatter, stack, insecure=insecure, watch=watch, environ=environ)
            supervisor.run()
    except CheckvisorError as error:
        event(log, "supervisor.failed", level=logging.ERROR, error=str(error))
        return error.exit_status
    return 0


class Supervisor:
    """All parts of one running supervisor. What `stack` takes is taken down even if the start fails half-way."""

    def __init__(
        self,
        path: Path,
        config: Config,
        formatter: Formatter,
        stack: ExitStack,
        *,
        insecure: bool,
        watch: bool,
        environ: Mapping[str, str],
    ) -> None:
        self._config = config
        self._formatter = formatter
        self._stack = stack
        self._notifier = Notifier(dict(environ))
        self._reload_ok, self._reload_time_s = True, time.time()
        self._trouble, self._look_at = "", 0.0
        data_dir = _data_dir(config.runtime)
        lock = DirectoryLock(data_dir)
        lock.acquire()
        stack.callback(lock.release)
        runtime_dir = environ.get("RUNTIME_DIRECTORY")
        _raise_descriptor_limit()
        os.chdir("/")  # a supervisor must not keep a directory busy, nor run commands in one that is gone
        self._mailbox = Mailbox()
        stack.callback(self._mailbox.close)
        selector = stack.enter_context(selectors.DefaultSelector())
        self._writer = Writer(
            data_dir, retention=config.runtime.retention, committed=lambda item: self._hooks.committed(item)
        )
        loaded = self._writer.open()
        self._flushed = False
        stack.callback(lambda: self._writer.flush_and_stop(0.0 if self._flushed else _FLUSH_S))
        self._reader = Reader(self._writer.path)
        stack.callback(self._reader.close)
        self._hooks = Webhooks(
            config.webhooks,
            self._writer,
            self._reader,
            loaded,
            data_dir=data_dir,
            runtime_dir=Path(runtime_dir) if runtime_dir else None,
        )
        self._schedule = Schedule(time.time() - boottime())
        self._recorder = Recorder(self._writer, self._hooks, loaded, lambda name: self._loop.next_due_ms(name))
        self._pool = Pool(config.runtime.max_concurrent_checks, selector)
        self._loop = Loop(
            selector=selector,
            mailbox=self._mailbox,
            pool=self._pool,
            schedule=self._schedule,
            recorder=self._recorder,
            writer=self._writer,
            notifier=self._notifier,
            on_hangup=self._on_hangup,
            on_beat=self._on_beat,
        )
        self._reloader = Reloader(path, environ, config.fingerprint, self._loaded_again, insecure=insecure, watch=watch)
        self._control = Control(
            socket_path(data_dir, runtime_dir),
            self._hooks,
            lambda name: self._mailbox.ask(lambda: next((t for t in self._config.targets if t.id == name), None)),
        )
        self._listener = Listener(
            config.runtime.metrics_listen, lambda: self._mailbox.ask(self._snapshot), self._loop_is_alive
        )
        self._heartbeat = _heartbeat(config.runtime)

    # --- life --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Start everything, turn until the stop, take everything down."""
        self._loop.handle_signals()
        self._notifier.status("starting workers")
        self._pool.start()
        self._stack.callback(self._pool.stop, _POOL_GRACE_S)
        self._writer.start()
        self._hooks.start()
        self._stack.callback(self._hooks.stop, 0.0)
        if self._heartbeat is not None:
            self._heartbeat.start()
        now_ms = time.time_ns() // 1_000_000
        self._writer.put_meta("started_at", str(now_ms))
        self._writer.put_meta("stopped_at", "")
        self._writer.put_meta("reload_error", "")
        self._put_about()
        self._writer.put_heartbeat(now_ms)
        self._loop.set_config(self._config)
        targets, webhooks = len(self._config.targets), len(self._config.webhooks)
        data = {"version": __version__, "targets": targets, "webhooks": webhooks}
        self._recorder.supervisor_item(self._hooks.supervisor_event("supervisor.started", data))
        self._control.start()
        self._listener.start()
        self._reloader.start()
        event(
            log,
            "supervisor.started",
            version=__version__,
            targets=targets,
            webhooks=webhooks,
            workers=self._config.runtime.max_concurrent_checks,
            database=self._writer.path,
        )
        self._notifier.send("READY=1")
        self._loop.run()
        self._stop()

    def _stop(self) -> None:
        started = time.monotonic()
        self._notifier.send("STOPPING=1")
        self._reloader.stop()
        self._control.stop()
        self._loop.drain()
        self._pool.stop(0.0 if self._loop.hurried else _POOL_GRACE_S)
        self._writer.put_meta("stopped_at", str(time.time_ns() // 1_000_000))  # the page need not wait for a heartbeat
        data = {"version": __version__, "results": self._loop.stats.results, "cancelled": self._loop.stats.cancelled}
        self._recorder.supervisor_item(self._hooks.supervisor_event("supervisor.stopped", data))
        if self._heartbeat is not None:
            self._heartbeat.stop()
        self._listener.stop()
        until = started + _STOP_S
        self._hooks.stop(0.0 if self._loop.hurried else _at_most(_HOOKS_GRACE_S, until - _LEAST_S))
        left = self._writer.flush_and_stop(_at_most(_FLUSH_S, until))
        self._flushed = True
        dropped = self._hooks.close()
        event(
            log,
            "supervisor.stopped",
            level=logging.ERROR if left or dropped else logging.INFO,
            scheduled=self._loop.stats.scheduled,
            results=self._loop.stats.results,
            missed=self._loop.stats.missed,
            cancelled=self._loop.stats.cancelled,
            lost=self._writer.stats().lost,
            unwritten=len(left),
            dropped_events=dropped,
            seconds=time.monotonic() - started,
        )

    def _on_beat(self) -> None:
        if not self._writer.alive():
            raise StartError("the thread that writes the database has ended by an error of the program, see the log")
        if self._heartbeat is not None:
            self._heartbeat.beat()
        now = time.monotonic()
        if now >= self._look_at:
            self._look_at = now + _LOOK_S
            self._tell_trouble()

    def _tell_trouble(self) -> None:
        """What the page can't see in the results: it is stored when it changes. A store that can't be written shows
        itself, by a heartbeat that stays out."""
        trouble = trouble_of(self._pool.stats(), self._loop.stats.held)
        if trouble != self._trouble:
            self._trouble = trouble
            event(
                log, "supervisor.trouble", level=logging.ERROR if trouble else logging.INFO, trouble=trouble or "over"
            )
            self._put_about()

    def _loop_is_alive(self) -> bool:
        return time.monotonic() - self._loop.stats.last_turn < ALIVE_S

    def _put_about(self) -> None:
        self._writer.put_meta("page", self._config.page_json)
        workers = self._config.runtime.max_concurrent_checks
        about = {"version": __version__, "pid": os.getpid(), "workers": workers, "degraded": self._trouble}
        self._writer.put_meta("supervisor", json.dumps(about, sort_keys=True))

    # --- reload ------------------------------------------------------------------------------------------------------

    def _on_hangup(self) -> None:
        self._notifier.reloading()
        self._reloader.request()

    def _loaded_again(self, config: Config | None, error: str | None) -> None:
        """Called by the reloader's thread."""
        self._mailbox.post(lambda: self._swap(config, error))

    def _swap(self, config: Config | None, error: str | None) -> None:
        """In the main thread: put the new configuration in the place of the old one, or tell why not."""
        self._reload_time_s = time.time()
        self._reload_ok = config is not None
        self._writer.put_meta("reload_error", error or "")
        if config is None:
            assert error is not None
            first = error.partition("\n")[0]
            data = {"version": __version__, "problems": error.count("\n") + 1}
            self._recorder.supervisor_item(self._hooks.supervisor_event("supervisor.reloadFailed", data, first))
        else:
            self._use(config)
        self._notifier.send("READY=1")

    def _use(self, config: Config) -> None:
        kept = _only_at_start(self._config.runtime, config.runtime)
        logs.set_secrets(self._formatter, (*config.secrets, *self._config.secrets))
        self._config = replace(config, runtime=kept)
        self._hooks.reload(config.webhooks)
        self._writer.set_retention(kept.retention)
        self._loop.set_config(self._config)
        self._put_about()
        event(log, "reload.done", targets=len(config.targets), webhooks=len(config.webhooks))

    # --- metrics -----------------------------------------------------------------------------------------------------

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            replace(self._loop.stats),
            tuple(self._loop.lag_counts),
            self._pool.stats(),
            self._writer.stats(),
            self._hooks.stats(),
            self._recorder.counts(),
            self._recorder.last_results_ms(),
            self._reload_ok,
            self._reload_time_s,
            self._heartbeat.failures if self._heartbeat is not None else 0,
        )


def trouble_of(pool: PoolStats, held: int) -> str:
    """What is wrong with the supervisor itself, in a sentence or two; nothing if all is well."""
    found = []
    if pool.busy + pool.idle == 0:
        cause = f": {pool.last_start_error}" if pool.last_start_error else ""
        found.append(f"no worker process runs, so nothing is checked{cause}")
    if pool.stuck:
        names = ", ".join(sorted({one.target_id for one in pool.stuck})[:5])
        found.append(f"the commands of {len(pool.stuck)} runs could not be ended ({names})")
    if held:
        found.append(f"{held} results wait for room for their events")
    return "; ".join(found)


def _at_most(grace_s: float, until: float) -> float:
    """The grace, or what is left until then if that is less, but not nothing."""
    return max(_LEAST_S, min(grace_s, until - time.monotonic()))


def _data_dir(runtime: RuntimeSettings) -> Path:
    path = Path(runtime.data_dir)
    try:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"the data directory {path} can't be made: {error.strerror}; make it, or set runtime.dataDir to a directory"
            " that this user may write"
        ) from error
    return path


def _raise_descriptor_limit() -> None:
    """Workers, connections and the database need descriptors: the soft limit goes up to the hard one."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _heartbeat(runtime: RuntimeSettings) -> Heartbeat | None:
    return Heartbeat(runtime.heartbeat_url) if runtime.heartbeat_url else None


def _only_at_start(old: RuntimeSettings, new: RuntimeSettings) -> RuntimeSettings:
    """The settings that a reload can't change stay, and the log says so."""
    fixed = ("data_dir", "max_concurrent_checks", "metrics_listen", "heartbeat_url")
    changed = [name for name in fixed if getattr(old, name) != getattr(new, name)]
    if changed:
        event(log, "reload.needs_restart", level=logging.WARNING, settings=" ".join(changed))
    return replace(old, retention=new.retention)
