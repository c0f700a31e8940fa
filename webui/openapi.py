"""`python -m webui.openapi` writes webui/openapi.json: what the API is, for readers of the repository and for diffs."""

from __future__ import annotations

import json
from pathlib import Path

from supervisor.serving import make
from webui import create_app


def text() -> str:
    """The document as it is committed."""
    app = create_app(make(database="/nonexistent"))
    return json.dumps(app.extensions["openapi"], indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    Path(__file__).with_name("openapi.json").write_text(text())
