"""What the web app shows of a supervisor that runs, is stopped, is killed, was never there, or has another database."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from supervisor.store.backup import backup
from tests.e2e.product import Product, configuration, text_of, until
from tests.faults.faults import board, end, kill, life, page, reach

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def _ready(web: Product, *, strict: bool = False) -> int:
    return web.fetch("readyz?strict=1" if strict else "readyz")[0]


def _stale(web: Product) -> bool:
    found = web.api("summary")["stale"]
    assert isinstance(found, bool)
    return found


def test_reader_in_every_state_of_the_supervisor(tmp_path: Path) -> None:
    """One web app beside a supervisor's whole life: no database, alive, stopped cleanly, alive again, killed, replaced
    by a backup. The page always renders, says loudly when nothing is being checked, never calls an old state up, makes
    no file of its own, and comes back by itself; every result that was committed stays on it."""
    database = tmp_path / "data" / "checkvisor.db"
    database.parent.mkdir()
    with board() as site, page(database) as web:
        assert web.fetch("")[0] == 200
        assert "No data yet" in web.page()
        assert (_ready(web), web.fetch("healthz")[0], web.fetch("api/v1/targets")[0]) == (503, 200, 503)
        assert list(database.parent.iterdir()) == []

        site.answers |= {"shop": 200, "bad": 503}
        config = configuration([site.target("shop"), site.target("bad")])
        with life(tmp_path, config) as product:
            until(lambda: web.fetch("api/v1/targets/shop")[0] == 200, 20, "the page")
            until(lambda: web.target("shop")["state"] == "up", 20, "a state")
            assert (_ready(web), _ready(web, strict=True), _stale(web)) == (200, 200, False)
            assert "State unknown" not in text_of(web.page())
            assert (web.fetch("api/v1/targets/shop/health")[0], web.fetch("api/v1/targets/bad/health")[0]) == (200, 503)
            end(product)

        before = _results(web)
        until(lambda: _stale(web), 45, "stale after 30 s without a heartbeat")
        assert "State unknown" in text_of(web.page())
        assert (_ready(web), _ready(web, strict=True)) == (200, 503)
        assert web.fetch("api/v1/targets/shop/health")[0] == 503
        assert 'checkvisor_target_state{group="",state="up",target="shop"' not in web.fetch("metrics")[1]

        with life(tmp_path) as product:
            until(lambda: _results(web) > before and not _stale(web), 20, "the page comes back")
            copy = tmp_path / "copy.db"
            backup(product.database, copy)
            copied = time.monotonic()
            before = _results(web)
            kill(product)
        assert _results(web) >= before, "nothing that was shown is gone after a kill"
        until(lambda: _stale(web), 45, "stale after 30 s without a heartbeat")
        assert "State unknown" in text_of(web.page())
        assert _ready(web, strict=True) == 503
        assert time.monotonic() - copied < 60

        for name in ("checkvisor.db-wal", "checkvisor.db-shm"):
            (database.parent / name).unlink(missing_ok=True)
        copy.rename(database)
        assert web.fetch("")[0] == 200
        assert 0 < _results(web) <= before
        with life(tmp_path) as product:
            until(lambda: not _stale(web), 20, "alive again")
            reach(product, "bad", "down")
            until(lambda: web.target("bad")["state"] == "down", 10, "the state")
            end(product)


def _results(web: Product) -> int:
    return int(web.target("shop")["totals"]["matched"])
