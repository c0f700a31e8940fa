"""Runs the web app under gunicorn: for `checkvisor web`, and the same settings for deploy/gunicorn.conf.py."""

from __future__ import annotations

import os
from typing import Any

from gunicorn.app.base import BaseApplication

from supervisor.listening import DEFAULT as DEFAULT_BIND
from supervisor.serving import THREADS, WORKERS, make
from webui import warm

APP = "webui:create_app()"


def options(bind: str = DEFAULT_BIND, workers: int = WORKERS, threads: int = THREADS) -> dict[str, Any]:
    """gunicorn's settings. `bind` is HOST:PORT or unix:/path/to.sock.

    The application is loaded before the fork, which shares its memory; it opens no database before it is in a worker,
    so no SQLite connection crosses a fork. gunicorn's control socket would be a second way in: it is off.
    """
    return {
        "bind": bind,
        "workers": workers,
        "threads": threads,
        "worker_class": "gthread",
        "preload_app": True,
        "control_socket_disable": True,
        "umask": 0o007,
        "timeout": 30,
        "graceful_timeout": 5,
        "keepalive": 15,
        "max_requests": 200_000,
        "max_requests_jitter": 20_000,
        "limit_request_line": 4094,
        "limit_request_fields": 60,
        "limit_request_field_size": 8190,
        "forwarded_allow_ips": "",
        "accesslog": None,
        "logger_class": "webui.server_log.ServerLog",
        "proc_name": "checkvisor-web",
        "post_worker_init": _start_warmer,
        "worker_exit": _stop_warmer,
    }


def _start_warmer(worker: Any) -> None:
    """In a new worker process, before its first request; it is not waited for."""
    warm.settle()
    worker.wsgi.extensions["warmer"].start()


def _stop_warmer(_server: Any, worker: Any) -> None:
    """A worker that ends before it has loaded the application has none."""
    app = getattr(worker, "wsgi", None)
    if app is not None:
        app.extensions["warmer"].stop()


class _Server(BaseApplication):  # type: ignore[misc]
    """gunicorn with these settings and no file or command line of its own."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        super().__init__()

    def load_config(self) -> None:
        for name, value in self._settings.items():
            self.cfg.set(name, value)

    def load(self) -> Any:
        from webui import create_app

        return create_app()


def serve(
    bind: str = DEFAULT_BIND,
    database: str = "",
    base_path: str = "",
    trusted_hosts: str = "",
    frame_ancestors: str = "",
    workers: int = WORKERS,
    threads: int = THREADS,
) -> None:
    """Serve until a signal ends it; raises SettingsError before anything is opened.

    The settings travel in the CHECKVISOR_* variables, so that a worker started later has them too.
    """
    checked = make(
        database=database, base_path=base_path, trusted_hosts=trusted_hosts, frame_ancestors=frame_ancestors,
        state_directory=os.environ.get("STATE_DIRECTORY", ""),
    )  # fmt: skip
    os.environ["CHECKVISOR_DATABASE"] = str(checked.database)
    os.environ["CHECKVISOR_BASE_PATH"] = checked.base_path
    os.environ["CHECKVISOR_TRUSTED_HOSTS"] = ",".join(checked.trusted_hosts)
    os.environ["CHECKVISOR_FRAME_ANCESTORS"] = checked.frame_ancestors
    _Server(options(bind, workers, threads)).run()
