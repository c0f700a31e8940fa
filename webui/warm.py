"""Does beforehand what the first page of a process, an hour or a day would wait for: 0.2 s at a thousand targets, 1.5 s
at five thousand and ten million results. One thread in each process of the server; the application works without it.
"""

from __future__ import annotations

import contextlib
import gc
import threading

from flask import Flask

from supervisor.store.connect import ReadError
from webui.db import Database
from webui.overview import Overview

_TICK_S = 60.0
_DEADLINE_S = 30.0
_THRESHOLDS = (50_000, 20, 20)


def settle() -> None:
    """Take all that is in memory now out of the garbage collector's sight, and let it look more rarely.

    A page makes ten thousands of tuples, none of them in a cycle; going through the libraries' objects for them cost a
    fifth of every page rebuilt, and 50 ms for one request in a few.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


class Warmer:
    """Compiles the templates, renders every row once, then reads history ahead of the clock."""

    def __init__(self, app: Flask, database: Database, overview: Overview, root: str) -> None:
        self._app, self._database, self._overview, self._root = app, database, overview, root
        self._stop = threading.Event()
        self._warm = False
        self._thread = threading.Thread(target=self._run, name="warm", daemon=True)

    def start(self) -> None:
        """Start the thread: after a fork, never before."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a read of it that goes on is left to end with the process."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(1.0)

    def _run(self) -> None:
        self.prepare()
        while not self._stop.is_set():
            with contextlib.suppress(ReadError):  # db.py has logged it; the next turn looks again
                self.turn()
            self._stop.wait(_TICK_S)

    def prepare(self) -> None:
        """Compile the templates."""
        for name in self._app.jinja_env.list_templates():
            self._app.jinja_env.get_template(name)

    def turn(self) -> None:
        """One look at what is missing."""
        with self._database.snapshot(_DEADLINE_S) as snapshot:
            self._overview.read_ahead(snapshot)
            if not self._warm:
                self._overview.build(snapshot, self._root)
                self._warm = True
                settle()
