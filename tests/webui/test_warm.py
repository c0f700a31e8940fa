"""What is done before a visitor asks for it."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from sqlalchemy import Engine, event

from supervisor.serving import make
from tests.webui.fill import DAY, Fill, now
from webui import create_app, history

HOUR = 3_600_000


@pytest.fixture
def collector() -> Iterator[None]:
    """The garbage collector is afterwards as it was."""
    thresholds = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


class Clock:
    """Time as the test has it."""

    def __init__(self, ms: int) -> None:
        self.ms = ms

    def __call__(self) -> int:
        return self.ms


def _history_queries(client: FlaskClient) -> int:
    """How many windows of past buckets one page reads."""
    seen: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        if "GROUP BY rollups.target_id" in statement:
            seen.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert client.get("/").status_code == 200
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    return len(seen)


@pytest.mark.usefixtures("collector")
def test_no_page_waits_for_history(fill: Fill) -> None:
    """After a turn of the warmer the first page, and the first one of the next day, read no window that is over."""
    today = now() - now() % DAY
    clock = Clock(today + DAY - 5 * 60_000)
    number = fill.target("t", at=clock.ms)
    for age in range(5):
        fill.rollup(number, DAY, today - age * DAY, 100, 1 if age == 3 else 0)
    fill.heartbeat(clock.ms)
    app = create_app(make(database=str(fill.path)), now_ms=clock)
    cold, warmer = create_app(make(database=str(fill.path)), now_ms=clock), app.extensions["warmer"]
    try:
        warmer.turn()
        # the sums of the open hours are read for each page, those of past days and hours once
        assert _history_queries(cold.test_client()) == 3
        assert _history_queries(app.test_client()) == 1
        clock.ms = today + DAY + 1000
        fill.heartbeat(clock.ms)
        assert _history_queries(app.test_client()) == 1
        assert _history_queries(cold.test_client()) == 3
        assert app.test_client().get("/").text == cold.test_client().get("/").text
    finally:
        for one in (app, cold):
            one.extensions["checkvisor"].close()


@pytest.mark.usefixtures("collector")
def test_the_thread_waits_for_the_database_and_ends(tmp_path: Path, wait_until: Callable[..., None]) -> None:
    """Without a database the thread stays alive and says nothing but the one line; `stop` ends it."""
    app = create_app(make(database=str(tmp_path / "none.db")))
    warmer = app.extensions["warmer"]
    warmer.stop()  # never started: nothing to end
    warmer.start()
    wait_until(lambda: any(thread.name == "warm" for thread in threading.enumerate()))
    warmer.stop()
    wait_until(lambda: not any(thread.name == "warm" for thread in threading.enumerate()))
    app.extensions["checkvisor"].close()


def test_only_two_windows_are_kept() -> None:
    """Reading ahead for days on end keeps the present window and the next one, of this database only."""
    past: history._Past[int] = history._Past(HOUR, 24, lambda connection, first, live: first)
    for step in range(500):
        past.read_ahead(None, "a", step * 7 * 60_000)  # type: ignore[arg-type]
        assert len(past._kept) <= 2
    assert past.get(None, "b", 0)[2] == -23 * HOUR  # type: ignore[arg-type]
    assert len(past._kept) == 1


def test_filters_while_the_page_is_made(fill: Fill, client: FlaskClient) -> None:
    """Pages with and without a filter, asked for at once, share what is kept of the rows and don't disturb it."""
    for index in range(200):
        fill.target(f"t{index}")
    failed: list[int] = []

    def ask(path: str) -> None:
        for _ in range(5):
            status = client.application.test_client().get(path).status_code
            if status != 200:
                failed.append(status)

    threads = [threading.Thread(target=ask, args=(path,)) for path in ("/?q=t", "/", "/?q=t1", "/?only=wrong")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failed
