"""docs/webhooks.md: its receiver runs and verifies, its examples are what Checkvisor sends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

from supervisor.model import EventType
from supervisor.store.outbox import OutcomeName
from supervisor.webhook.payload import TEMPLATE_NAMES, check_template
from tests.servers import closed_port
from tests.webhook.rig import SECRET, FakeClock, Rig, endpoint, receiver

PAGE = (Path(__file__).parents[2] / "docs" / "webhooks.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_receiver_of_the_page_verifies_what_we_send(tmp_path: Path, wait_until: Any) -> None:
    """It takes a signed event once, refuses a wrong secret, and is about 20 lines long."""
    (source,) = blocks("python")
    assert len([line for line in source.splitlines() if line.strip()]) <= 22
    port = closed_port()
    environment = {"OPS_SECRET": SECRET, "PORT": str(port), "PATH": os.environ["PATH"]}
    child = subprocess.Popen(
        [sys.executable, "-c", source], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    other = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU="
    url = f"http://127.0.0.1:{port}/"
    good = endpoint("good", url, secrets=(other, SECRET), retries_s=(0,) * 50)
    bad = endpoint("bad", url, secrets=(other,), permanent_retries_s=(0,), retries_s=(0,) * 50)
    try:
        with Rig(tmp_path, good, bad, clock=FakeClock()) as rig:
            rig.send("shop-api")
            for _ in range(40):
                rig.advance(60)
                if rig.pending() == 0:
                    break
                waited = rig.hooks.stats().deliveries.copy()
                wait_until(lambda before=waited: rig.pending() == 0 or rig.hooks.stats().deliveries != before)
            wait_until(lambda: rig.pending() == 0)
            (attempt,) = rig.hooks.redeliver("shop-api:1", "good")
            assert attempt.delivered
            (letter,) = rig.dead_letters()
            assert "HTTP 403" in letter["error"]
            source_id = rig.loaded.source
    finally:
        child.kill()
        printed, _ = child.communicate()
    assert printed == f"target.down {source_id}:shop-api:1\n"


def test_the_event_of_the_page_is_like_one_we_send(tmp_path: Path, wait_until: Any) -> None:
    """The same fields, bytes with sorted keys and no spaces."""
    shown, template = blocks("json")
    event = json.loads(shown)
    assert shown.strip() == json.dumps(event, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, metadata_json='{"env":"prod"}')) as rig:
        rig.send("shop-api")
        wait_until(lambda: len(got.got) == 1)
    assert set(got.got[0].body) == set(event)
    assert set(got.got[0].body["data"][0]) == set(event["data"][0])
    check_template(template)


def test_every_type_outcome_and_placeholder_stands_on_the_page() -> None:
    """A new one is documented or this fails."""
    for name in (*get_args(EventType), *get_args(OutcomeName), *TEMPLATE_NAMES):
        assert f"`{name}`" in PAGE or name == "delivered", name
