"""The page of one target, as HTML: what a reader without script, and one who only listens, gets to know."""

from __future__ import annotations

import re
from html import unescape

from flask.testing import FlaskClient

from tests.webui.fill import Fill, now


def _page(client: FlaskClient, key: str = "t") -> str:
    answer = client.get(f"/targets/{key}")
    assert answer.status_code == 200
    return answer.get_data(as_text=True)


def _chart(page: str) -> str:
    found = re.search(r'<svg class="chart".*?</svg>', page, re.DOTALL)
    assert found is not None
    return unescape(found[0])


def test_the_axis_of_the_chart_names_its_zone(fill: Fill, client: FlaskClient) -> None:
    """The picture says UTC, where no script changes it, and so do its words; also when every result failed."""
    at = now() - 60_000
    fill.result(fill.target("t"), at)
    fill.result(fill.target("failed"), at, matched=False)
    for key in ("t", "failed"):
        drawn = _chart(_page(client, key))
        assert re.search(r"<text[^>]*>UTC</text>", drawn), drawn
        said = re.search(r'<title id="chart-words">(.*?)</title>', drawn)
        assert said is not None
        assert said[1].endswith("The time axis is in UTC.")


def test_performance_data_is_shown_in_one_way(fill: Fill, client: FlaskClient) -> None:
    """Whole numbers have no `.0`, wherever they come from: the plugin's value, its ranges, its limits."""
    fill.target("t", type="command", metrics=[
        {"label": "load", "value": 1.0, "unit": "", "warning": "2", "critical": "5.0", "minimum": 0.0, "maximum": None},
        {"label": "disk", "value": 0.25, "unit": "GB", "warning": "@1.00:2.50", "critical": "~:10.0",
         "minimum": -0.0, "maximum": 123456789.0},
        {"label": "unknown", "value": None},
    ])  # fmt: skip
    found = re.search(r'<section id="metrics".*?</section>', _page(client), re.DOTALL)
    assert found is not None
    rows = [re.sub(r"<[^>]+>", "|", row) for row in re.findall(r"<tr>(.*?)</tr>", found[0])[1:]]
    cells = [[cell.strip() for cell in row.split("|") if cell.strip()] for row in rows]
    assert cells == [
        ["load", "1", "2", "5", "0"],
        ["disk", "0.25", "GB", "@1:2.50", "~:10", "0", "123456789"],
        ["unknown", "–"],
    ]
