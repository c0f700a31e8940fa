"""gunicorn's own messages as events of our log: one form of line for the whole product."""

from __future__ import annotations

import logging
from typing import Any

from gunicorn import glogging

from supervisor import logs


class ServerLog(glogging.Logger):  # type: ignore[misc]
    """What gunicorn takes for `logger_class`. A message becomes `web.server` with the field `message`."""

    def setup(self, cfg: Any) -> None:
        """Called at the start and when gunicorn reloads its settings."""
        logs.setup()
        self.cfg = cfg
        self._access_log_enabled = False
        self.loglevel = logging.INFO
        self.error_log.setLevel(self.loglevel)
        self.error_log.propagate = True
        self.error_log.handlers.clear()
        self.error_log.filters[:] = [_as_event]


def _as_event(record: logging.LogRecord) -> bool:
    logs.become_event(record, "web.server")
    return True
