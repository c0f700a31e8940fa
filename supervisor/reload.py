"""Loads the configuration again, in a thread of its own: a large one takes a second, and the loop must turn meanwhile.

Asked for by SIGHUP, or by `--watch` when the content of a file changes (which also sees bind mounts and symlinks that
are swapped). A configuration that can't be used changes nothing.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from supervisor import config as configuration
from supervisor.errors import ConfigError
from supervisor.logs import event
from supervisor.model import Config

log = logging.getLogger(__name__)

WATCH_S = 2.0


class Reloader:
    """One daemon thread. `done(config, None)` or `done(None, error text)` is called in it after each load."""

    def __init__(
        self,
        path: Path,
        environ: Mapping[str, str],
        fingerprint: str,
        done: Callable[[Config | None, str | None], None],
        *,
        insecure: bool,
        watch: bool,
    ) -> None:
        self._path = path
        self._environ = environ
        self._fingerprint = fingerprint
        self._done = done
        self._insecure = insecure
        self._watch = watch
        self._asked = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reload", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def request(self) -> None:
        """Load now."""
        self._asked.set()

    def stop(self) -> None:
        """No more loads. A load under way is not waited for: it ends with the process, and its result is not used."""
        self._stopped.set()
        self._asked.set()
        self._thread.join(0.5)

    def _run(self) -> None:
        while not self._stopped.is_set():
            asked = self._asked.wait(WATCH_S if self._watch else None)
            self._asked.clear()
            if self._stopped.is_set():
                return
            if asked or self._changed():
                self._load()

    def _changed(self) -> bool:
        found = configuration.fingerprint(self._path, environ=self._environ)
        return found != self._fingerprint

    def _load(self) -> None:
        started = time.monotonic()
        if self._watch:
            # before the load: what changes while we read is seen at the next look
            self._fingerprint = configuration.fingerprint(self._path, environ=self._environ)
        try:
            config = configuration.load(self._path, environ=self._environ, insecure=self._insecure)
        except ConfigError as error:
            for problem in error.problems:
                event(log, "reload.problem", level=logging.ERROR, problem=str(problem))
            event(log, "reload.failed", level=logging.ERROR, problems=len(error.problems))
            self._done(None, str(error))
            return
        for warning in config.warnings:
            event(log, "config.warning", level=logging.WARNING, warning=warning)
        event(log, "reload.loaded", targets=len(config.targets), seconds=time.monotonic() - started)
        self._done(config, None)
