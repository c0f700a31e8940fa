"""Canary secrets in every place of the configuration appear in nothing that the product stores, says or shows."""

from __future__ import annotations

import base64
import html
import json
import signal
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.product import Product, checkvisor, configuration, shell, until, web
from tests.servers import HOLD, OK, closed_port, length, redirect, script_server

pytestmark = pytest.mark.slow

CANARIES = {
    "C_PATH": "kanari-path-7f3a",
    "C_QUERY": "kanari query&7=é+%/x",
    "C_HEADER": "kanari\"header\\7'<b>",
    "C_COOKIE": "kanari-cookie-55aa",
    "C_USER": "kanari-user-31",
    "C_PASS": "kanari:pass/41?",
    "C_BEARER": "kanari.bearer.eyJhbGciOi",
    "C_BODY": "kanari-body\n77",
    "C_JSON": 'kanari-json "ü" 12',
    "C_FORM": "kanari form=88&",
    "C_ENV": "kanari-env-9c\x1b[31m",
    "C_ARG": "kanari-arg-$(id)",
    "C_EXPECT": "kanari-expect-2b",
    "C_HOOK_PATH": "kanari-hook-path-1",
    "C_HOOK_HEADER": "kanari-hook-header-2",
    "C_HOOK_META": "kanari-hook-meta-3",
    "C_HOOK_SECRET": "whsec_" + base64.b64encode(b"kanari-hook-secret-of-32-bytes-xx").decode(),
}


def _forms(value: str) -> set[bytes]:
    """How a value may look: as it is, percent-encoded, as JSON, as HTML, in base64 at each of its three offsets, and
    its most telling half of each."""
    raw = value.encode()
    texts = {
        value,
        urllib.parse.quote(value),
        urllib.parse.quote(value, safe=""),
        urllib.parse.quote_plus(value),
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        html.escape(value),
        repr(value)[1:-1],
        value.encode("unicode_escape").decode(),
    }
    found = {text.encode() for text in texts}
    for offset in range(3):
        coded = base64.b64encode(b"\0" * offset + raw)
        found.add(coded[-(-offset * 4 // 3) : len(coded) - 4] if offset else coded[: len(raw) * 4 // 3])
    return {form for form in found if len(form) >= 6} | {raw[: len(raw) // 2 + 2]}


def _assert_clean(where: str, data: bytes) -> None:
    for name, value in CANARIES.items():
        for form in _forms(value):
            at = data.find(form)
            assert at < 0, f"{name} as {form!r} in {where}: ...{data[max(0, at - 200) : at + 200]!r}..."
    at = data.find(b"kanari")  # the beginning of any
    assert at < 0, f"{where}: ...{data[max(0, at - 200) : at + 200]!r}..."


def _asks(target_id: str, base: str, **fields: Any) -> dict[str, Any]:
    """A target with a canary in each part of its request."""
    ask = {
        "method": "POST",
        "headers": {"X-Api-Key": "${C_HEADER_SAFE}", "Cookie": "sid=${C_COOKIE}"},
        "auth": {"basic": {"username": "${C_USER}", "password": "${C_PASS}"}},
        "json": {"text": "${C_JSON}", "more": ["x ${C_BODY} y"]},
        **fields.pop("http", {}),
    }
    return web(target_id, base + "hook/${C_PATH}/x?token=${C_QUERY}&a=1", http=ask, **fields)


def _bearer(target_id: str, base: str, **fields: Any) -> dict[str, Any]:
    ask = {"method": "POST", "auth": {"bearer": "${C_BEARER}"}, "form": {"field": "${C_FORM}"}}
    return web(target_id, base + "${C_PATH}?${C_QUERY}", http={**ask, **fields.pop("http", {})}, **fields)


def _echo(request: bytes, _connection: int) -> list[object]:
    """Everything that was sent comes back: in headers, in the body, as a JSON text."""
    line = request.split(b"\r\n")[0]
    told = json.dumps({"said": request.decode("latin-1"), "utf8": request.decode(errors="replace")}).encode()
    key = next((part for part in request.split(b"\r\n") if part.lower().startswith(b"x-api-key:")), b"X-None: 1")
    auth = next((part for part in request.split(b"\r\n") if part.lower().startswith(b"authorization:")), b"X-N: 1")
    return [OK + length(told + b"\n" + request, b"X-Line: " + line, b"X-Echo" + key[9:] if key[9:] else b"X-E: 1",
                        b"X-Auth: " + auth, b"Content-Type: application/json")]  # fmt: skip


def _json_echo(request: bytes, _connection: int) -> list[object]:
    body = json.dumps({"text": request.decode("utf-8", "replace")}).encode()
    return [OK + length(body, b"Content-Type: application/json")]


def _targets(echo: str, jsons: str, moved: str, hole: str, cut: str) -> list[dict[str, Any]]:
    nothing = f"http://127.0.0.1:{closed_port()}/"
    rules: dict[str, dict[str, Any]] = {
        "status": {"status": 404},
        "header": {"headers": {"X-Line": "other"}},
        "header-auth": {"headers": {"X-Auth": {"match": "^nothing"}}},
        "header-own": {"headers": {"X-Echo": "${C_EXPECT}"}},
        "contains": {"body": [{"contains": "${C_EXPECT}"}]},
        "equals": {"body": [{"equals": "nothing"}]},
        "empty": {"body": [{"empty": True}]},
        "regex": {"body": [{"regex": "nothing${C_EXPECT}"}]},
        "json-not": {"body": [{"json": {"path": "$.text", "equals": 1}}]},
    }
    found = [
        *(_asks(f"echo-{name}", echo, expect=rule) for name, rule in rules.items()),
        *(_bearer(f"bearer-{name}", echo, expect=rule) for name, rule in rules.items()),
        _asks("ok", echo, expect={"body": [{"contains": "POST"}]}, warn={"headers": {"X-Line": "other"}}),
        _asks("json", jsons, expect={"body": [{"json": {"path": "$.text", "equals": "${C_EXPECT}"}}]}),
        _asks("json-path", jsons, expect={"body": [{"json": {"path": "$.${C_EXPECT_WORD}", "equals": 1}}]}),
        _asks("refused", nothing),
        _asks("dns", "http://${C_PATH}.invalid/"),
        _asks("moved", moved),
        _asks("hole", hole, timeout="300ms"),
        _asks("cut", cut, expect={"body": [{"contains": "x"}]}),
        _asks("proxy", echo, http={"proxy": nothing.rstrip("/").replace("http://", "http://${C_USER}:${C_BEARER}@")}),
        _asks("tls", echo.replace("http:", "https:")),
        _asks("big", echo, http={"maxBodyBytes": 10}, expect={"body": [{"contains": "x"}]}),
    ]
    env = {"env": {"TOKEN": "${C_ENV}", "PLAIN": "${C_ARG}"}}
    scripts: dict[str, tuple[str, dict[str, Any]]] = {
        "out": ('echo "$TOKEN $1"', {"expect": {"stdout": [{"equals": "no"}]}}),
        "err": ('echo "$TOKEN $1" >&2', {"expect": {"stderr": [{"empty": True}]}}),
        "fail": ('echo "$TOKEN" "$1"; env; exit 3', {}),
        "time": ('echo "$TOKEN" "$1"; env; exec sleep 9', {"timeout": "300ms"}),
        "base64": ('printf %s "$TOKEN" | base64; printf %s "$1" | base64', {"expect": {"stdout": [{"equals": "no"}]}}),
        "flood": ('while echo "$TOKEN $1"; do :; done', {"command": {"maxOutputBytes": 1000}}),
        "nagios": ('echo "WARNING $TOKEN | $1=3;$TOKEN;$1"; exit 1', {"command": {"nagios": True}}),
        "nagios-ok": ('echo "OK $TOKEN | $1=3"', {"command": {"nagios": True}}),
    }
    for name, (script, fields) in scripts.items():
        command = {"args": ["-c", script, "sh", "${C_ARG}"], **env, **fields.pop("command", {})}
        found.append(shell(f"cmd-{name}", "", command=command, **fields))
    found += [
        shell("cmd-missing", "", command={"exec": "/no/${C_PATH}", "args": ["${C_ARG}"], **env}),
        shell("cmd-unknown", "", command={"exec": "no-${C_PATH}", "args": [], **env}),
        shell("cmd-cwd", "", command={"cwd": "/no/${C_PATH}", **env}),
        shell("cmd-path", "", command={"exec": "nosuchcmd", "args": [], "env": {"PATH": "/no/${C_PATH}:/bin"}}),
    ]
    for target in found:
        target["labels"] = {"where": "at ${C_PATH}"}
        target["interval"] = "2s"
    return found


def _everything(product: Product) -> dict[str, bytes]:
    """All that can be read from outside while it runs."""
    found = {"the supervisor's metrics": product.fetch(product.metrics_url)[1].encode()}
    ids = [target["id"] for target in product.api("targets")]
    paths = ["", "metrics", "incidents", "api/v1/summary", "api/v1/targets", "api/v1/incidents", "api/v1/errors"]
    for target_id in ids:
        paths += [f"targets/{target_id}", f"api/v1/targets/{target_id}", f"badges/{target_id}/status.json"]
        paths += [
            f"api/v1/targets/{target_id}/{kind}" for kind in ("results", "incidents", "health", "errors", "trend")
        ]
    for path in paths:
        status, text = product.fetch(path)
        assert status in (200, 404, 503), path  # 404: just removed
        found[path] = text.encode()
    return found


def test_canaries_appear_nowhere(tmp_path: Path) -> None:
    """A secret in URL, query, header, cookie, authorization, body, form, command, environment, expectation, label,
    proxy and webhook is in no result, log line, database byte, metric, API answer or page, whatever happened."""
    sent: list[bytes] = []

    def refuse(request: bytes, _connection: int) -> list[object]:
        sent.append(request)
        status = b"HTTP/1.1 400 No\r\n" if len(sent) % 4 == 2 else OK
        return [status + length(request)]  # a receiver that tells all it got

    def move(request: bytes, _connection: int) -> list[object]:
        return [redirect(b"ftp://127.0.0.1/" + request.split(b" ")[1])]

    environ = {**CANARIES, "C_HEADER_SAFE": CANARIES["C_HEADER"], "C_EXPECT_WORD": "kanari_expect_word"}
    cut = OK + length(b"x").replace(b": 1", b": 50")
    with (
        script_server(_echo) as echo,
        script_server(_json_echo) as jsons,
        script_server(move) as moved,
        script_server([HOLD]) as hole,
        script_server([cut]) as short,
        script_server(refuse) as receiver,
    ):
        targets = _targets(echo.url, jsons.url, moved.url, hole.url, short.url)
        hooks = [
            {
                "name": name, "url": base + "services/${C_HOOK_PATH}", "default": True,
                "events": ["down", "up", "result"], "headers": {"X-Token": "${C_HOOK_HEADER}"},
                "secrets": ["${C_HOOK_SECRET}"],
                "metadata": {"note": "at ${C_HOOK_META}"},
            }
            for name, base in (("ops", receiver.url), ("dead", f"http://127.0.0.1:{closed_port()}/"))
        ]  # fmt: skip
        config = configuration(targets, webhooks=hooks, runtime={"maxConcurrentChecks": 6})
        with checkvisor(tmp_path, config, environ=environ) as product:
            for target in targets:
                product.results_wait(target["id"], 2, 30)
            until(lambda: len(sent) > 10, 20, "posts to the receiver")
            bad = {**config, "targets": [{**targets[0], "http": {"headers": {"X Y": "${C_BEARER}"}}}]}
            assert product.reload(bad) is False
            assert product.reload({**config, "targets": targets[1:]})
            product.process.send_signal(signal.SIGHUP)
            found = _everything(product)
            states = {target["id"]: target for target in product.api("targets")}
            assert product.stop()[0] == 0
    for name in ("ok", "cmd-nagios", "cmd-nagios-ok"):
        assert states[name]["lastResult"]["matched"], states[name]
    failed = [state for state in states.values() if not state["lastResult"]["matched"]]
    print({state["id"]: state["lastResult"]["failure"]["message"][:90] for state in failed})
    assert len(failed) == len(states) - 3
    found["the log"] = (tmp_path / "stderr.log").read_bytes()
    for file in (tmp_path / "data").rglob("*"):
        if file.is_file():
            found[str(file)] = file.read_bytes()
    assert len(found) > 200
    leaks = []
    for where, data in found.items():
        try:
            _assert_clean(where, data)
        except AssertionError as error:
            leaks.append(str(error).partition("\nassert")[0])
    assert not leaks, "\n".join(leaks[:20])
    for request in sent:
        for name, value in CANARIES.items():
            if not name.startswith("C_HOOK"):
                assert value.encode() not in request, (name, request)
    assert any(b"kanari-hook-header-2" in request for request in sent), "they do reach the receiver they are for"
