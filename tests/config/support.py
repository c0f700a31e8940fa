"""Small helpers of the configuration's tests: write a file, load it, look at what came out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from supervisor import config
from supervisor.model import Config, ResolvedTarget

DATA = Path(__file__).parent.parent / "data" / "config"
ENVIRONMENT = {
    "HOST": "shop.example.org",
    "PORT": "8443",
    "TOKEN": "tok-en-123456",
    "OPS_WEBHOOK": "https://ops.example.org/hook",
    "OPS_SECRET": "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo=",
    "OPS_TOKEN": "ops-token-1",
    "SECRET_NUMBER": "424242",
    "SECRET_TEXT": "correct horse",
}


def load(folder: Path, text: str | bytes, environ: Mapping[str, str] | None = None, **more: Any) -> Config:
    """The configuration written in `text`."""
    file = folder / "config.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return config.load(file, environ=ENVIRONMENT if environ is None else environ, **more)


def problems(folder: Path, text: str | bytes, environ: Mapping[str, str] | None = None, **more: Any) -> list[str]:
    """What is wrong with the configuration, each as `line:column: path: sentence`."""
    with pytest.raises(config.ConfigError) as caught:
        load(folder, text, environ, **more)
    return [str(problem).removeprefix(f"{folder}/config.yaml:") for problem in caught.value.problems]


def target(folder: Path, lines: str, environ: Mapping[str, str] | None = None) -> ResolvedTarget:
    """An HTTP target with these lines beside `id` and `type`."""
    return load(folder, http(lines), environ).targets[0]


def http(lines: str = "", settings: str = "") -> str:
    """A configuration of one HTTP target; `lines` stand in the target, `settings` in its `http:`."""
    text = "targets:\n  - id: a\n    type: http\n    http:\n      url: http://127.0.0.1:8080/\n"
    text += "".join(f"      {line}\n" for line in settings.splitlines())
    return text + "".join(f"    {line}\n" for line in lines.splitlines())


def command(settings: str = "", lines: str = "", program: str = "/bin/true") -> str:
    """A configuration of one command target."""
    text = f"targets:\n  - id: a\n    type: command\n    command:\n      exec: {program}\n"
    text += "".join(f"      {line}\n" for line in settings.splitlines())
    return text + "".join(f"    {line}\n" for line in lines.splitlines())
