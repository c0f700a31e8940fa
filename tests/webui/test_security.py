"""Headers, hosts, base path, hostile text."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from xml.dom import minidom

import pytest
from flask.testing import FlaskClient
from lxml import html
from prometheus_client.parser import text_string_to_metric_families

import webui
from supervisor import serving
from tests.webui.fill import Fill, now

MakeClient = Callable[..., FlaskClient]
PAGES = ("/", "/targets/t", "/incidents", "/api")
CORPUS = (
    "<img src=x onerror=alert(1)>", "<script>alert(1)</script>", "\"><svg onload=alert(1)>", "' onmouseover='alert(1)",
    "javascript:alert(1)", "{{7*7}}{% raw %}", "</title><script>alert(1)</script>", "</style><script>alert(1)",
    "&lt;b&gt;&amp;", "<!--", "]]>", "\\u003cscript\\u003e", "<a href=javascript:alert(1)>x</a>", "%3Cscript%3E",
    "`${alert(1)}`", "<math><mtext></table><img src=x onerror=alert(1)>", "a\"b\\c\nd",
)  # fmt: skip


@pytest.mark.parametrize("text", CORPUS, ids=range(len(CORPUS)))
def test_w15_hostile_text_is_text_everywhere(text: str, fill: Fill, client: FlaskClient) -> None:
    """W15: names, groups, addresses, messages, values, labels, details and titles are shown as the text they are."""
    failure = {"kind": "mismatch", "phase": "body", "path": text, "message": text, "expected": text, "actual": text}
    links = [{"name": text, "url": "https://ok.example/?" + text}, {"name": text, "url": text}]
    fill.meta(page={"title": text, "links": links},
              reload_error=text, supervisor={"degraded": text}, version=text)  # fmt: skip
    number = fill.target("t", "down", name=text, group=text, target=text, last_failure=failure, labels={text: text},
                         last_status_detail=text, config={text: text}, expect={"x": text},
                         metrics=[{"label": text, "value": 1, "unit": text, "warning": text}],
                         certificate={"notAfter": now(), "subject": text, "issuer": text})  # fmt: skip
    fill.result(number, now(), False, failure=failure, status_detail=text)
    fill.incident(number, now() - 1000, failure=failure)
    fill.endpoint(text, "open", reason=text)
    fill.dead_letter("t", 1, endpoint=text, error=text)
    fill.event("t", 1, endpoints=(text,))
    for path in (*PAGES, "/?q=" + text.replace("%", "%25").replace("&", "%26").replace("#", "%23")):
        answer = client.get(path)
        assert answer.status_code == 200
        _harmless(answer.text)
        if "\n" not in text and path != "/api":
            shown = html.fromstring(answer.text).text_content() + str(html.fromstring(answer.text).xpath("//@value"))
            assert text in shown, path
    svg = client.get("/badges/t/status.svg")
    assert svg.content_type.startswith("image/svg+xml")
    names = {node.tagName for node in minidom.parseString(svg.data).getElementsByTagName("*")}
    assert names == {"svg", "title", "clipPath", "rect", "g", "text"}
    for path in ("/api/v1/targets", "/api/v1/targets/t", "/badges/t/status.json"):
        assert client.get(path).content_type == "application/json"


def _harmless(page: str) -> None:
    tree = html.fromstring(page)
    assert {script.get("src", "")[:8] for script in tree.iter("script")} == {"/static/"}
    assert not tree.xpath("//style | //img | //iframe | //object | //math | //*[@style]")
    for element in tree.iter():
        for name, value in element.items():
            assert not name.lower().startswith("on"), (element.tag, name)
            if name in ("href", "src", "action"):
                assert re.match(r"(/|#|\?|https?://)", value), value


def test_w17_metrics_escape_labels(fill: Fill, client: FlaskClient) -> None:
    """W17: a quote, a backslash and a line end in a group or id are escaped, and read back as they were."""
    hostile = 'a"b\\c\nd'
    fill.target(hostile, group=hostile)
    text = client.get("/metrics").text
    assert r'target="a\"b\\c\nd"' in text
    samples = [
        s for family in text_string_to_metric_families(text) for s in family.samples if s.name == "probe_success"
    ]
    assert samples[0].labels == {"target": hostile, "type": "http", "group": hostile}


@pytest.mark.parametrize("path", [*PAGES, "/api/v1/summary", "/api/v1/nothing", "/nothing", "/metrics", "/healthz",
                                  "/static/checkvisor.css", "/badges/t/status.svg"])  # fmt: skip
def test_headers(path: str, fill: Fill, client: FlaskClient) -> None:
    """Every answer carries the security headers, none sets a cookie."""
    fill.target("t")
    answer = client.get(path)
    answer.close()
    csp = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in csp
    assert "require-trusted-types-for 'script'" in csp
    assert "unsafe" not in csp
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert "noindex" in answer.headers["X-Robots-Tag"]
    assert "Set-Cookie" not in answer.headers
    with client.head(path) as head:
        assert head.data == b""


def test_no_inline_and_nothing_from_outside() -> None:
    """Templates and static files have no inline script or style, no `|safe`, no other origin."""
    folder = Path(webui.__file__).parent
    for path in [*folder.glob("templates/*"), *folder.glob("static/*")]:
        text = path.read_text()
        assert not re.search(r"\|\s*safe|\sstyle=|<style|\son[a-z]+=\"", text), path
        outside = set(re.findall(r"https?://[^\s\"')]+", text)) - {"http://www.w3.org/2000/svg"}
        assert not outside, path
    assert len(list(folder.glob("static/*.css"))) == 1
    assert len(list(folder.glob("static/*.js"))) == 1


@pytest.mark.parametrize("prefix", ["/status", "/a/b-c"])
def test_base_path(prefix: str, fill: Fill, make_client: MakeClient) -> None:
    """All addresses begin with the base path, whether a proxy strips it or not; headers have no say."""
    fill.target("t", "down")
    client = make_client(fill.path, base_path=prefix + "/")
    headers = {"X-Forwarded-Prefix": "//evil.example", "X-Forwarded-Host": "evil.example", "X-Script-Name": "/evil"}
    for path in PAGES:
        for asked in (prefix + path, path):
            answer = client.get(asked, headers=headers)
            assert answer.status_code == 200, asked
            assert "evil" not in answer.text
            tree = html.fromstring(answer.text)
            for address in tree.xpath("//@href | //@src | //@action"):
                assert address.startswith((prefix + "/", "#", "?", "https://t.example.net")), address
            for address in tree.xpath("//link/@href | //script/@src"):
                with client.get(address) as static:
                    assert static.status_code == 200, address
    assert client.get(prefix).status_code == 200
    served = client.get(prefix + "/api/v1/openapi.json").json
    assert served is not None
    assert served["servers"] == [{"url": prefix}]


@pytest.mark.parametrize("text", ["//evil", "/a//b", "a", "/a b", "/a?b", "/../x", "/a/..", "/é", "/<x>"])
def test_base_path_is_checked(text: str) -> None:
    """A base path that could become another address is refused with a sentence."""
    with pytest.raises(serving.SettingsError, match="base path"):
        serving.make(database="x", base_path=text)


def test_trusted_hosts(fill: Fill, make_client: MakeClient) -> None:
    """Off by default; when on, other hosts get 400, and probes from this machine pass."""
    open_client = make_client(fill.path)
    assert open_client.get("/", headers={"Host": "anything.example"}).status_code == 200
    client = make_client(fill.path, trusted_hosts="status.example.org, .example.net")
    for host, path, status in (
        ("status.example.org", "/", 200), ("status.example.org:8080", "/", 200), ("a.example.net", "/", 200),
        ("evil.example", "/", 400), ("127.0.0.1", "/", 400), ("127.0.0.1:8080", "/healthz", 200),
        ("localhost", "/metrics", 200), ("[::1]:8080", "/readyz", 200), ("evil.example", "/healthz", 400),
        ("127.0.0.1.evil.example", "/metrics", 400), ("", "/", 400),
    ):  # fmt: skip
        assert client.get(path, headers={"Host": host}).status_code == status, (host, path)


def test_frame_ancestors(fill: Fill, make_client: MakeClient) -> None:
    """The page can be put in a frame where the operator allows it, and nowhere else."""
    assert "frame-ancestors 'none'" in make_client(fill.path).get("/").headers["Content-Security-Policy"]
    client = make_client(fill.path, frame_ancestors="self https://wall.example.org")
    answer = client.get("/")
    assert "frame-ancestors 'self' https://wall.example.org;" in answer.headers["Content-Security-Policy"]
    assert "X-Frame-Options" not in answer.headers
    for text in ("https://x; script-src *", "none self", "'unsafe-inline'"):
        with pytest.raises(serving.SettingsError):
            serving.make(database="x", frame_ancestors=text)


def test_settings_come_from_the_environment() -> None:
    """CHECKVISOR_* variables; without a database named, the state directory's."""
    found = serving.from_environ({
        "CHECKVISOR_DATABASE": "/var/lib/x.db", "CHECKVISOR_BASE_PATH": "/s/", "CHECKVISOR_TRUSTED_HOSTS": "a,b",
        "CHECKVISOR_FRAME_ANCESTORS": "self",
    })  # fmt: skip
    assert found == serving.Settings(Path("/var/lib/x.db"), "/s", ("a", "b"), "'self'")
    assert serving.from_environ({"STATE_DIRECTORY": "/var/lib/cv"}).database == Path("/var/lib/cv/checkvisor.db")
    assert serving.from_environ({}).database == Path(os.getcwd()) / "data" / "checkvisor.db"


STRANGE = (
    "/targets/%00", "/targets/..%2f..", "/targets/" + "x" * 3000, "/?q=%00%ff", "/incidents?cursor=x",
    "/targets/t?cursor=1-x&range=%00", "/badges/t/x.svg", "/static/../settings.py",
    "/incidents?cursor=9999999999999999-1",
)  # fmt: skip


@pytest.mark.parametrize("path", STRANGE, ids=range(len(STRANGE)))
def test_strange_addresses(path: str, fill: Fill, client: FlaskClient) -> None:
    """Nothing in an address gives a 500."""
    fill.target("t")
    assert client.get(path).status_code in (200, 404)


@pytest.mark.parametrize("base", ["", "/s"])
def test_no_answer_sends_a_reader_elsewhere(base: str, fill: Fill, make_client: Callable[..., FlaskClient]) -> None:
    """A redirect would carry the Host of the request, and a 308 stays in caches: doubled slashes are a 404."""
    fill.target("t")
    client = make_client(fill.path, base_path=base)
    for path in (
        "/api/v1//targets",
        "/api/v1/targets/t//results",
        "/badges//t/status.svg",
        "/targets//t",
        "/targets/t/",
    ):
        answer = client.get(base + path, headers={"Host": "evil.example"})
        assert answer.status_code == 404, path
        assert "Location" not in answer.headers
