"""`python -m webui`: serves the web app by the CHECKVISOR_* variables, which `checkvisor web` sets from its options.

CHECKVISOR_BIND is HOST:PORT, unix:/path, or fd://N for a socket that the caller has opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from supervisor import listening
from supervisor.errors import CheckvisorError
from webui.serve import THREADS, WORKERS, serve
from webui.settings import SettingsError

_USAGE, _CANNOT, _INTERRUPTED = 2, 4, 130
_MOST = 256


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Serve until a signal ends it; the exit status. What is wrong is one sentence on stderr."""
    try:
        workers = _number(environ, "CHECKVISOR_WEB_WORKERS", WORKERS)
        threads = _number(environ, "CHECKVISOR_WEB_THREADS", THREADS)
        serve(
            bind=_bind(environ.get("CHECKVISOR_BIND") or listening.DEFAULT),
            database=environ.get("CHECKVISOR_DATABASE", ""),
            base_path=environ.get("CHECKVISOR_BASE_PATH", ""),
            trusted_hosts=environ.get("CHECKVISOR_TRUSTED_HOSTS", ""),
            frame_ancestors=environ.get("CHECKVISOR_FRAME_ANCESTORS", ""),
            workers=workers,
            threads=threads,
        )
    except SettingsError as error:
        return _tell(str(error), _USAGE)
    except CheckvisorError as error:
        return _tell(str(error), error.exit_status)
    except KeyboardInterrupt:  # before gunicorn handles signals
        return _INTERRUPTED
    except SystemExit as ending:  # gunicorn has said why; its own numbers mean other things elsewhere here
        return 0 if ending.code in (0, None) else _CANNOT
    return 0


def _bind(text: str) -> str:
    """As gunicorn takes it. A TCP address is opened here: gunicorn would try a busy one for five seconds."""
    if text.startswith("fd://"):
        return text
    address = listening.parse(text)
    return str(address) if address.path else f"fd://{listening.listen(address).detach()}"


def _number(environ: Mapping[str, str], name: str, default: int) -> int:
    text = environ.get(name, "").strip()
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= _MOST):
        raise SettingsError(f"{name} is {text!r}: expected a number from 1 to {_MOST}")
    return int(text)


def _tell(sentence: str, status: int) -> int:
    sys.stderr.write(f"checkvisor web: {sentence}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
