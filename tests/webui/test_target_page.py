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
