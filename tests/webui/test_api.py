"""The JSON API: shapes, cursors, parameters, errors, ETags."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from flask.testing import FlaskClient
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from supervisor.serving import make
from tests.webui.fill import ERROR, HOUR, Fill, now
from tests.webui.scenes import company
from webui import create_app

ROOT = Path(__file__).parents[2]
ENDPOINTS = (
    "summary", "targets", "targets/one", "targets/one/results", "targets/one/trend", "targets/one/incidents",
    "targets/one/errors", "targets/one/health", "incidents", "errors",
)  # fmt: skip


@pytest.fixture
def one(fill: Fill) -> int:
    """A target that is down, with one of everything."""
    at = now()
    certificate = {"notBefore": at, "notAfter": at + HOUR, "subject": "s", "issuer": "i"}
    metrics = [{"label": "load", "value": 0.5}]
    number = fill.target("one", "down", timings={"dns": 1.5}, metrics=metrics, certificate=certificate)
    for index in range(7):
        fill.result(number, at - index * 60_000, index > 3, timings={"dns": 1.0})
    fill.result(number, at - 8 * 60_000, False, failure=ERROR)
    fill.rollup(number, HOUR, at, 50, 8)
    fill.incident(number, at - 5000)
    fill.incident(number, at - 9_000_000, at - 8_000_000)
    fill.dead_letter("one", 1)
    fill.dead_letter("_supervisor", 2)
    return number


def test_every_answer_is_as_documented(one: int, client: FlaskClient) -> None:
    """Each answer is valid under the schema that OpenAPI names for it."""
    document = client.application.extensions["openapi"]
    root = Resource.from_contents(document, default_specification=DRAFT202012)
    registry: Registry[Any] = Registry().with_resource("urn:api", root)
    for name in ENDPOINTS:
        answer = client.get(f"/api/v1/{name}")
        path = "/api/v1/" + name.replace("/one", "/{id}")
        shape = document["paths"][path]["get"]["responses"][str(answer.status_code)]["content"]["application/json"]
        schema = json.loads(json.dumps(shape["schema"]).replace('"#/', '"urn:api#/'))
        jsonschema.Draft202012Validator(schema, registry=registry).validate(answer.json)
        assert "_" not in "".join(_keys(answer.json)), name
        assert answer.headers["ETag"]


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [key for key in value if value is not None] + [k for v in value.values() for k in _keys(v)]
    return [k for item in value for k in _keys(item)] if isinstance(value, list) else []


@pytest.mark.parametrize("name", ["summary", "targets/one", "targets/one/results", "targets/one/trend",
                                  "targets/one/health", "incidents"])  # fmt: skip
def test_freshness_is_in_every_answer_with_state(name: str, one: int, fill: Fill, client: FlaskClient) -> None:
    """`heartbeatAt` and `stale` stand beside state, and the times are RFC 3339 in UTC."""
    fresh = client.get(f"/api/v1/{name}").json
    assert fresh is not None
    assert fresh["stale"] is False
    assert datetime.fromisoformat(fresh["heartbeatAt"])
    fill.heartbeat(now() - 60_000)
    stale = client.get(f"/api/v1/{name}").json
    assert stale is not None
    assert stale["stale"] is True


def test_targets_is_a_flat_array_in_file_order(fill: Fill, client: FlaskClient) -> None:
    """Dashboards read `/targets` without selectors; every item carries `stale`; booleans are booleans."""
    for key in ("zeta", "alpha", "mid"):
        fill.target(key, group="G" if key == "mid" else "")
    fill.target("gone", removed_at=now())
    items = client.get("/api/v1/targets").json
    assert items is not None
    assert [item["id"] for item in items] == ["zeta", "alpha", "mid"]
    assert all(item["stale"] is False and item["lastResult"]["matched"] is True for item in items)
    assert [item["id"] for item in client.get("/api/v1/targets?group=G").json or ()] == ["mid"]
    assert client.get("/api/v1/targets?status=down").json == []


def test_cursor_walks_every_result_once(one: int, client: FlaskClient) -> None:
    """Pages follow each other without gap or repetition, newest first, and the last one says so."""
    seen: list[str] = []
    cursor = ""
    for _ in range(10):
        page = client.get(f"/api/v1/targets/one/results?limit=3{cursor}").json
        assert page is not None
        seen += [item["timestamp"] for item in page["items"]]
        if page["nextCursor"] is None:
            break
        assert re.fullmatch(r"[0-9]{1,16}-[0-9]{1,16}", page["nextCursor"])
        cursor = f"&cursor={page['nextCursor']}"
    assert len(seen) == 8
    assert seen == sorted(seen, reverse=True)


def test_results_with_one_timestamp_are_all_found(fill: Fill, client: FlaskClient) -> None:
    """Results of the same millisecond (the clock was set back) are told apart by their id."""
    number, at = fill.target("same"), now()
    for _ in range(5):
        fill.result(number, at)
    first = client.get("/api/v1/targets/same/results?limit=2").json
    assert first is not None
    rest = client.get(f"/api/v1/targets/same/results?cursor={first['nextCursor']}").json
    assert rest is not None
    ids = [item["id"] for item in first["items"] + rest["items"]]
    assert len(set(ids)) == 5


@pytest.mark.parametrize(
    ("outcome", "count"), [("matched", 3), ("failed", 5), ("mismatch", 4), ("error", 1), ("degraded", 0)]
)
def test_outcome(outcome: str, count: int, one: int, client: FlaskClient) -> None:
    """`outcome` keeps the results of one kind."""
    page = client.get(f"/api/v1/targets/one/results?outcome={outcome}").json
    assert page is not None
    assert len(page["items"]) == count


def test_from_is_inclusive_and_to_exclusive(fill: Fill, client: FlaskClient) -> None:
    """`from` <= timestamp < `to`; offsets are understood, also with a "+" that became a blank."""
    number = fill.target("t")
    for second in range(3):
        fill.result(number, 1_767_225_600_000 + second * 1000)
    window = "from=2026-01-01T00:00:00Z&to=2026-01-01T00:00:02Z"
    for query in (
        window,
        window.replace("T00", "T02").replace("Z", "%2B02:00"),
        window.replace("T00", "T02").replace("Z", "+02:00"),
    ):
        page = client.get(f"/api/v1/targets/t/results?{query}").json
        assert page is not None
        assert [item["timestamp"][17:19] for item in page["items"]] == ["01", "00"], query


@pytest.mark.parametrize(
    "query",
    [
        "limit=-1", "limit=0", "limit=1e9", "limit=abc", "limit=", "limit=1.5", "limit=%2B1", "limit=1_0", "limit=٣",
        "cursor=abc", "cursor=1-", "cursor=1-2-3", "cursor=1-2%0A", "cursor=99999999999999999-1",
        "from=abc", "from=2026-13-01T00:00:00Z", "from=2026-01-01", "to=1", "from=2026-01-01T00:00:00%2B99:00",
        "outcome=nope", "since=abc", "limit=3&bogus=1",
    ],
)  # fmt: skip
def test_w22_bad_parameters_are_422(query: str, one: int, client: FlaskClient) -> None:
    """W22: a parameter that can't be understood, or is not known, is a 422 that names it."""
    answer = client.get(f"/api/v1/targets/one/results?{query}")
    assert answer.status_code == 422
    assert answer.content_type == "application/problem+json"
    assert answer.json is not None
    assert answer.json["code"] == "INVALID_PARAMETER"
    assert answer.json["errors"][0]["field"] in ("limit", "cursor", "from", "to", "outcome", "since", "bogus")


@pytest.mark.parametrize("limit", ["1000000", "1000000000", "9" * 400])
def test_w22_large_limits_are_clamped(limit: str, fill: Fill, client: FlaskClient) -> None:
    """W22: a limit above the cap is the cap, not a full table read and not an error."""
    number, at = fill.target("t"), now()
    with fill.begin():
        for index in range(510):
            fill.result(number, at - index)
    page = client.get(f"/api/v1/targets/t/results?limit={limit}").json
    assert page is not None
    assert len(page["items"]) == 500
    assert page["nextCursor"] is not None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@pytest.mark.parametrize(
    "path", ["/", "/api/v1/targets", "/api/v1/nothing", "/metrics", "/healthz", "/static/checkvisor.css"]
)
def test_w22_other_methods_are_405(method: str, path: str, client: FlaskClient) -> None:
    """W22: only GET and HEAD; the answer says which."""
    answer = client.open(path, method=method)
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, HEAD"


def test_problems(client: FlaskClient) -> None:
    """Errors are RFC 9457, with a stable code, on every path of the API."""
    for path, code in (
        ("/api/v1/targets/x", "TARGET_NOT_FOUND"),
        ("/api/v1/x", "NOT_FOUND"),
        ("/badges/x/status.svg", "TARGET_NOT_FOUND"),
    ):
        answer = client.get(path)
        assert answer.status_code == 404
        assert answer.content_type == "application/problem+json"
        assert answer.json is not None
        assert set(answer.json) >= {"type", "title", "status", "detail", "instance", "code"}
        assert answer.json["code"] == code


def test_w19_no_nan_and_no_big_numbers(fill: Fill, client: FlaskClient) -> None:
    """W19: NaN and infinities become null, ids are text."""
    number = fill.target("t", metrics='[{"label":"x","value":NaN},{"label":"y","value":1e999}]')
    fill.result(number, now(), duration_ms=float("inf"), id=2**60)
    text = client.get("/api/v1/targets/t").text + client.get("/api/v1/targets/t/results").text
    assert "NaN" not in text
    assert "Infinity" not in text
    assert f'"id":"{2**60}"' in text


@pytest.mark.parametrize("name", ["summary", "targets/one/results", "incidents", "errors"])
def test_etag_gives_304(name: str, one: int, fill: Fill, client: FlaskClient) -> None:
    """A client that has the answer gets 304 without a body; a later heartbeat alone changes nothing."""
    first = client.get(f"/api/v1/{name}")
    fill.heartbeat()
    again = client.get(f"/api/v1/{name}", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert again.data == b""


def test_a_change_changes_the_summary_at_once(fill: Fill, client: FlaskClient) -> None:
    """A new state, and a silent supervisor, change the ETag of the summary."""
    number = fill.target("t")
    tags = {client.get("/api/v1/summary").headers["ETag"]}
    fill.change(number, state="down", last_matched=False)
    changed = client.get("/api/v1/summary")
    tags.add(changed.headers["ETag"])
    assert changed.json is not None
    assert changed.json["overall"] == "down"
    fill.heartbeat(now() - 40_000)
    tags.add(client.get("/api/v1/summary").headers["ETag"])
    assert len(tags) == 3


@pytest.mark.parametrize(
    ("state", "fields", "status"),
    [
        ("up", {}, 200), ("degraded", {}, 200), ("failing", {}, 200), ("down", {}, 503), ("recovering", {}, 503),
        ("pending", {}, 503), (None, {}, 503), ("up", {"enabled": False}, 503), ("up", {"at": 1}, 503),
    ],
)  # fmt: skip
def test_health(state: str | None, fields: dict[str, Any], status: int, fill: Fill, client: FlaskClient) -> None:
    """200 for up, degraded and failing by a fresh result, else 503; always 503 when the supervisor is silent."""
    fill.target("t", state, **fields)
    answer = client.get("/api/v1/targets/t/health")
    assert answer.status_code == status
    assert answer.json is not None
    assert {"state", "overlay", "late", "stale"} <= set(answer.json)
    fill.heartbeat(now() - 60_000)
    assert client.get("/api/v1/targets/t/health").status_code == 503


def test_dead_letters(one: int, client: FlaskClient) -> None:
    """Of one target, of all streams, of one stream; the shape is that of webhooks.md."""
    mine = client.get("/api/v1/targets/one/errors").json
    assert mine is not None
    assert [item["eventId"] for item in mine["items"]] == ["one:1"]
    assert set(mine["items"][0]) == {
        "id", "timestamp", "url", "code", "error", "eventId", "seq", "type", "endpoint", "outcome",
    }  # fmt: skip
    page = client.get("/api/v1/errors?limit=1").json
    assert page is not None
    rest = client.get(f"/api/v1/errors?cursor={page['nextCursor']}").json
    assert rest is not None
    assert [item["eventId"] for item in page["items"] + rest["items"]] == ["one:1", "_supervisor:2"]
    only = client.get("/api/v1/errors?stream=_supervisor").json
    assert only is not None
    assert [item["seq"] for item in only["items"]] == [2]


def test_show_holds_in_the_api_too(fill: Fill, make_client: Callable[..., FlaskClient]) -> None:
    """What the page hides, no other answer tells: addresses, values, configuration, messages."""
    fill.meta(page={"title": "S", "show": {"target": "none", "failure": "none"}}, reload_error="SECRETFILE",
              supervisor={"degraded": "SECRETDISK"})  # fmt: skip
    fill.endpoint("ops", "open", reason="SECRETURL")
    secret = {"kind": "mismatch", "phase": "body", "path": "SECRETPATH", "message": "SECRETMESSAGE",
              "expected": "SECRETWANT", "actual": "SECRETGOT"}  # fmt: skip
    number = fill.target("t", "down", target="https://SECRETHOST/", config={"u": "SECRETHOST"},
                         expect={"a": "SECRETWANT"}, last_failure=secret,
                         certificate={"notAfter": now(), "subject": "CN=SECRETHOST"},
                         last_status_detail="SECRETDETAIL")  # fmt: skip
    fill.result(number, now(), False, failure=secret, status_detail="SECRETDETAIL")
    fill.incident(number, now(), failure=secret)
    fill.dead_letter("t", 1, error="SECRETMESSAGE", url="https://SECRETHOST")
    client = make_client(fill.path)
    paths = ["/", "/targets/t", "/incidents", "/metrics", "/badges/t/status.svg"]
    paths += [f"/api/v1/{name}".replace("/one", "/t") for name in ENDPOINTS]
    for path in paths:
        assert "SECRET" not in client.get(path).text, path


def test_openapi_has_not_drifted(fill: Fill, client: FlaskClient) -> None:
    """webui/openapi.json is what the schemas say; `python -m webui.openapi` writes it anew."""
    committed = json.loads((ROOT / "webui" / "openapi.json").read_text())
    assert committed == json.loads(json.dumps(client.application.extensions["openapi"]))
    served = client.get("/api/v1/openapi.json").json
    assert served is not None
    assert served["openapi"].startswith("3.1")
    assert served["servers"] == [{"url": "/"}]


def test_docs_name_everything(client: FlaskClient) -> None:
    """docs/api.md has every endpoint, parameter, error code and metric of the web app."""
    text = (ROOT / "docs" / "api.md").read_text()
    document = client.application.extensions["openapi"]
    for path, item in document["paths"].items():
        assert path.removeprefix("/api/v1") in text, path
        for parameter in item["get"]["parameters"]:
            assert f"`{parameter['name']}`" in text or parameter["in"] == "path", parameter
    from webui import errors

    for code in (*errors.CODES.values(), "TARGET_NOT_FOUND", "STORE_TOO_SLOW"):
        assert code in text
    metrics = set(re.findall(r"^# HELP (\S+)", client.get("/metrics").text, re.MULTILINE))
    assert {name for name in metrics if name not in text} == set()


def test_docs_examples(tmp_path: Path) -> None:
    """The JSON in docs/api.md parses and has exactly the keys that the API answers with."""
    text = (ROOT / "docs" / "api.md").read_text()
    examples = re.findall(r"```json (\S+)\n(.*?)```", text, re.DOTALL)
    assert len(examples) >= 5
    with Fill(tmp_path / "docs.db") as fill:
        company(fill, 5)
        app = create_app(make(database=str(fill.path)))
        client = app.test_client()
        for path, example in examples:
            value, answer = json.loads(example), client.get(path).json
            if isinstance(value, list):
                value, answer = value[0], (answer or [None])[0]
            assert answer is not None
            assert set(value) == set(answer), path
            if isinstance(value.get("items"), list) and value["items"] and answer["items"]:
                assert set(value["items"][0]) == set(answer["items"][0]), path
        app.extensions["checkvisor"].close()
