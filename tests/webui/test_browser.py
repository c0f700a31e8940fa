"""The pages in a real chromium over a real gunicorn: every state to design for, with pictures kept as artefacts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.webui.conftest import Server, shoot
from tests.webui.fill import MISMATCH, Fill, now
from tests.webui.scenes import company

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

OpenPage = Callable[..., Any]
DOWN = "gateway-us-east-001"


@pytest.fixture(autouse=True)
def no_leaks() -> None:
    """Instead of the one for all tests: Playwright's driver and its threads live as long as the session."""


@pytest.fixture
def scene(fill: Fill, make_server: Callable[..., Server]) -> tuple[Fill, Server, dict[str, int]]:
    """A company's targets and a web app over them."""
    numbers = company(fill)
    server = make_server(fill.path)
    fill.heartbeat()
    return fill, server, numbers


Scene = tuple[Fill, Server, dict[str, int]]


def _no_sideways_scroll(page: Any) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def test_overview(scene: Scene, open_page: OpenPage) -> None:
    """What is wrong stands first, with its reason; the title and the icon say it too."""
    _, server, _ = scene
    page = open_page(server.url)
    page.get_by_role("heading", name="4 of 60 targets down").wait_for()
    first = page.locator("#failing li").first
    assert DOWN in first.inner_text()
    assert "status 503, expected 200" in first.inner_text()
    assert page.title().startswith("✖ 4 of 60 targets down")
    assert "icon-down" in page.locator("#icon").get_attribute("href")
    assert page.locator("details.group").count() == 5
    shoot(page, "overview-light")
    shoot(page, "overview-light-full", full=True)


def test_dark(scene: Scene, open_page: OpenPage) -> None:
    """Dark by the system's wish, and by the button, which is remembered."""
    _, server, _ = scene
    page = open_page(server.url, color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    shoot(page, "overview-dark")
    page.get_by_role("button", name="Change between light and dark").click()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    target = open_page(f"{server.url}/targets/{DOWN}", color_scheme="dark")
    shoot(target, "target-dark", full=True)


@pytest.mark.parametrize("path", ["/", f"/targets/{DOWN}", "/incidents", "/api"])
def test_small_screen(path: str, scene: Scene, open_page: OpenPage) -> None:
    """390 px wide: nothing is cut off, nothing scrolls sideways."""
    _, server, _ = scene
    page = open_page(server.url + path, viewport={"width": 390, "height": 844})
    page.locator("#main").wait_for()
    _no_sideways_scroll(page)
    shoot(page, "mobile-" + (path.strip("/").split("/")[0] or "overview"), full=True)


def test_without_script(scene: Scene, open_page: OpenPage) -> None:
    """Everything works without JavaScript: times in UTC, the filter as a form, ranges and pages as links."""
    _, server, _ = scene
    page = open_page(server.url, java_script_enabled=False)
    assert "UTC" in page.locator("#asof").inner_text()
    assert not page.get_by_role("button", name="Change between").is_visible()
    shoot(page, "no-script")
    page.get_by_role("searchbox").fill("resolver")
    page.get_by_role("button", name="Filter").click()
    assert page.locator("#groups tbody tr").count() == 12
    page.locator("#groups").get_by_role("link", name="resolver-us-east-001").click()
    page.get_by_role("link", name="7 days").click()
    assert "range=7d" in page.url
    page.goto(f"{server.url}/targets/{DOWN}")
    page.get_by_role("link", name="Failed").click()
    assert page.locator("table.results tbody tr").count() == 23


def test_target_page(scene: Scene, open_page: OpenPage) -> None:
    """State, failure, chart, timings, certificate, incidents, results, events and dead letters."""
    _, server, _ = scene
    page = open_page(f"{server.url}/targets/{DOWN}")
    for words in ("Last failure", "Response time", "Latest request", "Certificate", "Incidents", "Results", "Events"):
        page.get_by_role("heading", name=words, exact=True).wait_for()
    assert page.locator("svg.chart path.line").get_attribute("d").startswith("M")
    assert page.get_by_role("heading", name="Not delivered").is_visible()
    page.locator("table.results summary").first.click()
    assert page.locator("table.results .diff").first.is_visible()
    shoot(page, "target-light", full=True)


def test_filter(scene: Scene, open_page: OpenPage) -> None:
    """Typing filters at once; "only what is wrong" keeps that; no hit is said; clearing brings everything back."""
    _, server, _ = scene
    page = open_page(server.url)
    box = page.get_by_role("searchbox")
    box.fill("archive lab")
    page.get_by_text("3 shown").wait_for()
    shoot(page, "filter")
    box.fill("")
    page.get_by_label("Only what is wrong").check()
    page.get_by_text("7 shown").wait_for()
    box.fill("no such thing")
    page.locator("#nohits").wait_for(state="visible")
    page.get_by_label("Only what is wrong").uncheck()
    box.fill("")
    page.locator("#nohits").wait_for(state="hidden")
    assert page.locator("details.group[hidden]").count() == 0


def test_filter_in_the_address(scene: Scene, open_page: OpenPage) -> None:
    """A filtered address of a reader without script shows all rows again once the box is cleared."""
    _, server, _ = scene
    page = open_page(f"{server.url}/?q=gateway")
    page.get_by_text("12 shown").wait_for()
    page.get_by_role("searchbox").fill("")
    page.locator("#groups").get_by_text("Network gear").wait_for(timeout=20_000)


def test_live_swap(scene: Scene, open_page: OpenPage) -> None:
    """A change of a state is on the page within two polls, without a reload; open groups and the filter stay."""
    fill, server, numbers = scene
    page = open_page(server.url)
    page.get_by_role("heading", name="4 of 60 targets down").wait_for()
    page.evaluate("window.kept = true")
    page.locator("#s-g1").click()
    page.wait_for_timeout(300)
    with fill.begin():
        fill.heartbeat()
        failure = json.dumps(dict(MISMATCH, message="went down just now"))
        fill.change(numbers["gateway-lab-003"], state="down", since=now(), last_matched=False, last_failure=failure)
    page.get_by_role("heading", name="5 of 60 targets down").wait_for(timeout=25_000)
    assert page.locator("#failing").get_by_text("went down just now").is_visible()
    assert page.locator("#groups tr", has_text="gateway-lab-003").locator("svg.s-down").count() == 1
    assert page.evaluate("window.kept") is True
    assert page.locator("#g1").get_attribute("open") is None
    shoot(page, "live")


def test_stale(scene: Scene, open_page: OpenPage) -> None:
    """A silent supervisor turns everything to "State unknown", in place, within 30 s and two polls."""
    fill, server, _ = scene
    page = open_page(server.url)
    fill.heartbeat(now() - 60_000)
    page.get_by_role("heading", name="State unknown").wait_for(timeout=25_000)
    page.get_by_text("This data is stale.").wait_for()
    assert page.locator("svg.i.s-up").count() == 0
    assert page.title().startswith("? ")
    assert "icon-unknown" in page.locator("#icon").get_attribute("href")
    assert "stale" in page.locator("body").get_attribute("class")
    shoot(page, "stale")
    target = open_page(f"{server.url}/targets/gateway-lab-003")
    assert "State unknown" in target.locator("#hero").inner_text()
    fill.heartbeat()
    page.get_by_role("heading", name="4 of 60 targets down").wait_for(timeout=25_000)
    assert "stale" not in (page.locator("body").get_attribute("class") or "")


def test_web_app_down_and_browser_offline(scene: Scene, open_page: OpenPage) -> None:
    """What is on screen is said to be old when the server does not answer, and when the browser is offline."""
    _, server, _ = scene
    page = open_page(server.url)
    page.get_by_role("heading", name="4 of 60 targets down").wait_for()
    server.stop()
    page.get_by_text("The status page's server does not answer.").wait_for(timeout=25_000)
    shoot(page, "server-down")
    page.context.set_offline(True)
    page.get_by_text("This browser is offline.").wait_for(timeout=25_000)
    assert page.get_by_role("heading", name="State unknown").is_visible()
    assert "icon-unknown" in page.locator("#icon").get_attribute("href")
    page.context.set_offline(False)


def test_empty_states(tmp_path: Path, make_server: Callable[..., Server], open_page: OpenPage) -> None:
    """No database, no targets, no incidents: each is a page that says what is so."""
    page = open_page(make_server(tmp_path / "none.db").url)
    page.get_by_role("heading", name="No data yet").wait_for()
    shoot(page, "no-database")
    with Fill(tmp_path / "empty.db") as fill:
        fill.heartbeat()
        server = make_server(fill.path)
        page = open_page(server.url)
        page.get_by_role("heading", name="No targets yet").wait_for()
        shoot(page, "empty")
        page.goto(f"{server.url}/incidents")
        page.get_by_text("No incident is on record.").wait_for()
        fill.target("first", "pending")
        page.goto(server.url + "/?q=first")
        page.get_by_role("heading", name="No result yet").wait_for()


def test_unreadable_store(tmp_path: Path, make_server: Callable[..., Server], open_page: OpenPage) -> None:
    """Junk where the database should be: a 503 page that renders."""
    (tmp_path / "junk.db").write_bytes(b"junk" * 1000)
    page = open_page(make_server(tmp_path / "junk.db").url)
    page.get_by_role("heading", name="State unknown").wait_for()
    shoot(page, "unreadable")


def test_another_locale_and_zone(scene: Scene, open_page: OpenPage) -> None:
    """Times are in the reader's zone and language; the chart, which the server draws, says that it is not."""
    _, server, _ = scene
    page = open_page(server.url, locale="de-DE", timezone_id="Asia/Kolkata")
    page.get_by_text("Times are in Asia/").wait_for()
    assert re.search(r"vor \d+ Sek", page.locator("#asof").inner_text())
    text = page.locator("#failing .age time").first.text_content()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", text), text
    page.goto(f"{server.url}/targets/{DOWN}")
    page.get_by_text("Times are in Asia/").wait_for()
    assert page.locator("svg.chart").get_by_text("UTC", exact=True).is_visible()
    shoot(page, "target-zone")


def test_base_path(fill: Fill, make_server: Callable[..., Server], open_page: OpenPage) -> None:
    """Under a base path the style, the script and the refresh work."""
    number = fill.target("t")
    server = make_server(fill.path, CHECKVISOR_BASE_PATH="/status")
    page = open_page(server.url + "/")
    page.get_by_role("heading", name="The one target is up").wait_for()
    assert page.locator("html.js").count() == 1
    fill.change(number, state="down", last_matched=False)
    page.get_by_role("heading", name="1 of 1 target down").wait_for(timeout=25_000)


def test_hostile_text_does_not_run(fill: Fill, make_server: Callable[..., Server], open_page: OpenPage) -> None:
    """Script in names and messages is text, also after a swap through the Trusted Types policy."""
    text = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
    number = fill.target("t", "down", name=text, group=text, last_failure=dict(MISMATCH, message=text, actual=text))
    server = make_server(fill.path)
    page = open_page(server.url)
    page.locator("#failing").get_by_text("onerror").first.wait_for()
    with fill.begin():
        fill.target("second", "down", name=text, group=text)
        fill.change(number, since=now())
    page.get_by_role("heading", name="2 of 2 targets down").wait_for(timeout=25_000)
    assert page.evaluate("window.hacked") is None
    assert page.locator("#main img").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe(scheme: str, scene: Scene, open_page: OpenPage) -> None:
    """axe finds nothing, on every page, light and dark, and on a stale one."""
    from axe_playwright_python.sync_playwright import Axe

    fill, server, _ = scene
    paths = ["/", f"/targets/{DOWN}", "/targets/switch-eu-west-008", "/incidents", "/api", "/nothing"]
    for stale in (False, True):
        fill.heartbeat(now() - 90_000 if stale else now() + 20_000)
        for path in paths if not stale else paths[:2]:
            page = open_page(server.url + path, color_scheme=scheme, bypass_csp=True)
            page.locator("#main").wait_for()
            found = Axe().run(page)
            assert found.violations_count == 0, (path, stale, found.generate_report())


def test_print(scene: Scene, open_page: OpenPage) -> None:
    """On paper there are no bars of passing rows, no filter, no buttons."""
    _, server, _ = scene
    page = open_page(server.url)
    page.emulate_media(media="print")
    assert not page.locator("#filter").is_visible()
    assert not page.locator("#groups tbody .bars").first.is_visible()
    shoot(page, "print")
