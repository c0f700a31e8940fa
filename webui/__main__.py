"""`python -m webui`: serves the web app by the CHECKVISOR_* variables, which `checkvisor web` sets from its options.

CHECKVISOR_BIND is HOST:PORT, unix:/path, or fd://N for a socket that the caller has opened.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from supervisor import listening
from supervisor.errors import CheckvisorError
from supervisor.serving import sizes
from webui.serve import serve

_CANNOT, _INTERRUPTED = 4, 130


def main(environ: Mapping[str, str] = os.environ) -> int:
    """Serve until a signal ends it; the exit status. What is wrong is one sentence on stderr."""
    try:
        workers, threads = sizes(environ)
        serve(
            bind=_bind(environ.get("CHECKVISOR_BIND") or listening.DEFAULT),
            database=environ.get("CHECKVISOR_DATABASE", ""),
            base_path=environ.get("CHECKVISOR_BASE_PATH", ""),
            trusted_hosts=environ.get("CHECKVISOR_TRUSTED_HOSTS", ""),
            frame_ancestors=environ.get("CHECKVISOR_FRAME_ANCESTORS", ""),
            workers=workers,
            threads=threads,
        )
    except CheckvisorError as error:
        sys.stderr.write(f"checkvisor web: {error}\n")
        return error.exit_status
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
    if address.path:
        listening.check(address)
        return str(address)
    return f"fd://{listening.listen(address).detach()}"


if __name__ == "__main__":
    sys.exit(main())
