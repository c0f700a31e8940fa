"""The real `checkvisor up` against httpbin and Debian's monitoring plugins: verdicts in the API and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, checkvisor, configuration, httpbin, shell, text_of, web

PLUGINS = Path("/usr/lib/nagios/plugins")
needs_plugins = pytest.mark.skipif(
    not (PLUGINS / "check_http").exists(), reason="needs Debian's monitoring-plugins-standard"
)

MATCHED = (True, True, None)


def error(path: str) -> tuple[bool, bool, str]:
    """The check itself failed there."""
    return False, False, path


def mismatch(path: str) -> tuple[bool, bool, str]:
    """An expectation did not hold."""
    return True, False, path


# id, path at httpbin, fields of the target, verdict
HTTP: list[tuple[str, str, dict[str, Any], tuple[bool, bool, str | None]]] = [
    ("status-200", "/status/200", {}, MATCHED),
    ("status-503", "/status/503", {}, mismatch("expect.status")),
    ("status-418", "/status/418", {"expect": {"status": 418}}, MATCHED),
    ("status-204", "/status/204", {"expect": {"status": "2xx"}}, MATCHED),
    ("gzip", "/gzip", {"expect": {"body": [{"json": {"path": "$.gzipped", "equals": True}}]}}, MATCHED),
    ("deflate", "/deflate", {"expect": {"body": [{"json": {"path": "$.deflated", "equals": True}}]}}, MATCHED),
    ("brotli", "/brotli", {"expect": {"body": [{"contains": "brotli"}]}}, error("http.decode")),
    ("redirects", "/redirect/3", {"expect": {"body": [{"json": {"path": "$.url", "match": "/get$"}}]}}, MATCHED),
    ("redirects-absolute", "/absolute-redirect/2", {}, MATCHED),
    ("redirects-many", "/redirect/4", {"http": {"maxRedirects": 3}}, error("http.redirect")),
    (
        "redirect-kept",
        "/redirect/1",
        {"http": {"followRedirects": False}, "expect": {"status": 302, "headers": {"Location": "/get"}}},
        MATCHED,
    ),
    ("delay", "/delay/1", {"expect": {"maxDurationMs": 500}}, mismatch("expect.maxDurationMs")),
    ("delay-long", "/delay/10", {"timeout": "1s"}, error("http.headers")),
    ("stream", "/stream/20", {"expect": {"body": [{"regex": '"id": 19'}]}}, MATCHED),
    ("stream-bytes", "/stream-bytes/5000", {"http": {"maxBodyBytes": 4000}}, MATCHED),  # no rule: the body is not read
    (
        "stream-capped",
        "/stream-bytes/5000",
        {"http": {"maxBodyBytes": 4000}, "expect": {"body": [{"empty": False}]}},
        error("http.maxBodyBytes"),
    ),
    ("drip", "/drip?duration=1&numbytes=5&delay=0", {"expect": {"body": [{"equals": "*****"}]}}, MATCHED),
    (
        "drip-long",
        "/drip?duration=9&numbytes=9&delay=0",
        {"timeout": "1500ms", "expect": {"body": [{"contains": "*"}]}},
        error("http.body"),
    ),
    (
        "xml",
        "/xml",
        {"expect": {"body": [{"xpath": {"path": "/slideshow/@title", "equals": "Sample Slide Show"}}]}},
        MATCHED,
    ),
    ("html", "/html", {"expect": {"body": [{"css": {"selector": "h1", "contains": "Moby-Dick"}}]}}, MATCHED),
    (
        "json",
        "/json",
        {"expect": {"body": [{"json": {"path": "$.slideshow.slides[*].type", "equals": "all"}}]}},
        MATCHED,
    ),
    (
        "json-wrong",
        "/json",
        {"expect": {"body": [{"contains": "slideshow"}, {"json": {"path": "$.slideshow.author", "equals": "me"}}]}},
        mismatch("expect.body[1].json($.slideshow.author)"),
    ),
    (
        "utf8",
        "/encoding/utf8",
        {"expect": {"body": [{"contains": "∮ E⋅da = Q"}, {"contains": "⎧⎡⎛┌─────┐⎞⎤⎫"}]}},
        MATCHED,
    ),
    (
        "cookies",
        "/cookies/set?sid=1",
        {"expect": {"body": [{"json": {"path": "$.cookies.sid", "equals": "1"}}]}},
        MATCHED,
    ),
    ("basic-auth", "/basic-auth/u/p4", {"http": {"auth": {"basic": {"username": "u", "password": "p4"}}}}, MATCHED),
    (
        "basic-auth-wrong",
        "/basic-auth/u/p4",
        {"http": {"auth": {"basic": {"username": "u", "password": "no"}}}},
        mismatch("expect.status"),
    ),
    (
        "post-json",
        "/post",
        {
            "http": {"method": "POST", "json": {"a": [1, None]}},
            "expect": {"body": [{"json": {"path": "$.json", "equals": {"a": [1, None]}}}]},
        },
        MATCHED,
    ),
    ("header", "/response-headers?X-Release=7", {"expect": {"headers": {"x-release": {"gte": 8}}}},
     mismatch("expect.headers.x-release")),
    ("slow-warn", "/delay/0.3", {"warn": {"maxDurationMs": 100}}, MATCHED),
]  # fmt: skip

# id, command, fields of the target, verdict, what the status detail has in it
PLUGIN: list[tuple[str, list[str], dict[str, Any], tuple[bool, bool, str | None], str]] = [
    ("check-http", ["check_http", "-H", "127.0.0.1", "-p", "PORT", "-u", "/status/200"], {}, MATCHED, "exitCode=0"),
    (
        "check-http-critical",
        ["check_http", "-H", "127.0.0.1", "-p", "PORT", "-u", "/status/500"],
        {},
        mismatch("expect.exitCode"),
        "exitCode=2",
    ),
    (
        "check-disk",
        ["check_disk", "-w", "0%", "-c", "0%", "-p", "/"],
        {"command": {"nagios": True}},
        MATCHED,
        "DISK OK",
    ),
    (
        "check-disk-critical",
        ["check_disk", "-w", "100%", "-c", "100%", "-p", "/"],
        {"command": {"nagios": True}},
        mismatch("command.nagios"),
        "DISK CRITICAL",
    ),
    (
        "check-disk-warning",
        ["check_disk", "-w", "100%", "-c", "0%", "-p", "/"],
        {"command": {"nagios": True}},
        MATCHED,
        "DISK WARNING",
    ),
    (
        "check-disk-unknown",
        ["check_disk", "--no-such-option"],
        {"command": {"nagios": True}},
        error("command.nagios"),
        "",
    ),
    (
        "check-procs",
        ["check_procs", "-c", "1:100000"],
        {"command": {"nagios": True}, "expect": {"stdout": [{"contains": "PROCS OK"}]}},
        MATCHED,
        "PROCS OK",
    ),
    (
        "check-procs-critical",
        ["check_procs", "-c", "1:", "-C", "no-such-process"],
        {"command": {"nagios": True}},
        mismatch("command.nagios"),
        "PROCS CRITICAL",
    ),
]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One product that checks all of them."""
    with httpbin() as base:
        targets = [web(name, base + path, interval="60s", **fields) for name, path, fields, _ in HTTP]
        if PLUGINS.exists():
            for name, words, fields, _, _ in PLUGIN:
                arguments = [base.rpartition(":")[2] if word == "PORT" else word for word in words[1:]]
                command = {"exec": str(PLUGINS / words[0]), "args": arguments, **fields.get("command", {})}
                others = {key: value for key, value in fields.items() if key != "command"}
                targets.append(shell(name, "", interval="60s", **others) | {"command": command})
        config = configuration(targets, runtime={"maxConcurrentChecks": 12}, defaults={"timeout": "5s"})
        with checkvisor(tmp_path_factory.mktemp("product"), config) as started:
            yield started


def _assert_shown(product: Product, target_id: str, verdict: tuple[bool, bool, str | None]) -> dict[str, Any]:
    result: dict[str, Any] = product.results_wait(target_id)[0]
    failure = result["failure"]
    told = (result["success"], result["matched"], failure and failure["path"])
    assert told == verdict, result
    shown = product.target(target_id)
    last = dict(shown["lastResult"])
    assert last.pop("durationMs") == pytest.approx(result["durationMs"], abs=1)
    assert last == {name: result[name] for name in last}
    page = text_of(product.page(f"targets/{target_id}"))
    assert target_id in page
    if failure is not None:
        assert shown["state"] == "down"
        assert failure["message"] in page
        assert failure["path"] in page
        assert failure["message"] in text_of(product.page())
    else:
        assert shown["state"] == ("degraded" if result["warning"] else "up")
    return result


@pytest.mark.parametrize(("target_id", "verdict"), [(row[0], row[3]) for row in HTTP], ids=[row[0] for row in HTTP])
def test_httpbin(product: Product, target_id: str, verdict: tuple[bool, bool, str | None]) -> None:
    """Each answer of httpbin gets its verdict, and the API and both pages show it."""
    result = _assert_shown(product, target_id, verdict)
    assert (result["warning"] is not None) == (target_id == "slow-warn")


@needs_plugins
@pytest.mark.parametrize(
    ("target_id", "verdict", "detail"), [(row[0], row[3], row[4]) for row in PLUGIN], ids=[row[0] for row in PLUGIN]
)
def test_monitoring_plugins(
    product: Product, target_id: str, verdict: tuple[bool, bool, str | None], detail: str
) -> None:
    """Debian's plugins get their verdict; with `nagios: true` by their exit code, with their line and their values."""
    result = _assert_shown(product, target_id, verdict)
    assert detail in result["statusDetail"]
    assert (result["warning"] is not None) == (target_id == "check-disk-warning")
    if target_id in ("check-disk", "check-procs"):
        assert product.target(target_id)["metrics"], "performance data"


def test_overview_lists_all_with_the_failing_first(product: Product) -> None:
    """The page has every target; the headline counts those that are down; the API counts the same."""
    for row in HTTP:
        product.results_wait(row[0])
    summary = product.api("summary")
    text = product.page()
    assert summary["headline"] in text_of(text)
    assert all(f"targets/{row[0]}" in text for row in HTTP)
    assert summary["supervisor"]["reloadError"] is None
    assert summary["stale"] is False
