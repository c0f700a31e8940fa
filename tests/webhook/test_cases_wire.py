"""The cases that are about bytes, addresses and the environment (webhook cases 17 to 26)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from supervisor.deadline import Deadline
from supervisor.net.resolve import Address, resolve
from tests.servers import localhost
from tests.webhook.rig import SECRET, FakeClock, Rig, always, endpoint, receiver

NAMES = ["健康检查", "shop \u2028 name", "🎉 party", 'line1\n"quoted"\\', "naïve", "\ud800 lone"]


@pytest.mark.parametrize("name", NAMES)
def test_17_18_the_bytes_that_are_signed_are_the_bytes_that_arrive(tmp_path: Path, wait_until: Any, name: str) -> None:
    """The raw body verifies with the standardwebhooks package, whatever the name; it is UTF-8 and says JSON."""
    with receiver() as got:
        one = endpoint("ops", got.url, secrets=(SECRET,), metadata_json='{"b": 1,  "a": "ü"}')
        with Rig(tmp_path, one) as rig:
            rig.target("a", name=name, notify=("ops",))
            rig.send("a", message=f"{name} is broken")
            wait_until(lambda: len(got.got) == 1)
    (seen,) = got.got
    verified = Webhook(SECRET).verify(seen.raw, seen.headers)
    assert verified == seen.body
    assert seen.headers["content-type"] == "application/json"
    assert seen.raw == json.dumps(seen.body, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()
    assert verified["data"][0]["name"] == name.replace("\ud800", "\\ud800")
    assert verified["metadata"] == {"a": "ü", "b": 1}


def test_17_every_configured_secret_verifies(tmp_path: Path, wait_until: Any) -> None:
    """Secrets can be rotated: the receiver may know the old or the new one."""
    other = "whsec_YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXowMTIzNDU="
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, secrets=(SECRET, other))) as rig:
        rig.send("a")
        wait_until(lambda: len(got.got) == 1)
    for secret in (SECRET, other):
        assert Webhook(secret).verify(got.got[0].raw, got.got[0].headers)["seq"] == 1


def test_20_a_template_is_always_valid_json(tmp_path: Path, wait_until: Any) -> None:
    """Line ends, quotes and backslashes of a message can't break a templated body, and are not escaped twice."""
    message = 'line1\n"quoted"\\ {{id}} \ud800'
    template = {
        "text": "{{data.name}}: {{error}} ({{ data.failure.path }})",
        "seq": "{{seq}}",
        "all": "{{data}}",
        "none": "{{data.nothing.deeper}}",
        "env": "{{metadata.env}}",
        "n": 1,
        "list": ["{{type}}", True],
        "in text": "a{{data.nothing}}b",
    }
    with receiver() as got:
        one = endpoint(
            "ops", got.url, secrets=(SECRET,), format="template", template_json=json.dumps(template),
            metadata_json='{"env": "prod"}',
        )  # fmt: skip
        with Rig(tmp_path, one) as rig:
            rig.send("a", message=message)
            wait_until(lambda: len(got.got) == 1)
    (seen,) = got.got
    body = Webhook(SECRET).verify(seen.raw, seen.headers)
    assert body["text"] == f"a: {message} (expect.status)".replace("\ud800", "\\ud800")
    assert body["seq"] == 1
    assert body["all"][0]["failure"]["message"] == message.replace("\ud800", "\\ud800")
    assert body["none"] is None
    assert body["env"] == "prod"
    assert body["list"] == ["target.down", True]
    assert body["in text"] == "ab"
    assert seen.headers["webhook-id"].endswith(":a:1")


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("http://login.example.org/secret/path?token=1", "to login.example.org"),
        ("/login", "within the same host"),
        ("http://[::1", "to a malformed Location"),
        ("javascript:alert(1)", "to a malformed Location"),
        (None, "without a Location"),
    ],
)
def test_22_a_redirect_is_a_failure_that_names_the_host(
    tmp_path: Path, wait_until: Any, location: str | None, told: str
) -> None:
    """302 to a login page: the cursor stays, the message names the host and nothing more."""
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = always(302, *([] if location is None else [("Location", location)]))
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops").get("retry") == 1)
        wait_until(lambda: rig.cursor("a", "ops")["attempts"] == 1)
        row = rig.cursor("a", "ops")
        assert row["acked_seq"] == 0
        assert row["last_error"] == f"HTTP 302: a redirect {told}, which is never followed"


def test_23_a_redirect_is_never_followed(tmp_path: Path, wait_until: Any) -> None:
    """302 to another receiver of ours: it hears nothing."""
    with receiver() as got, receiver() as other, Rig(tmp_path, endpoint("ops", got.url), clock=FakeClock()) as rig:
        got.default = always(302, ("Location", other.url))
        rig.send("a")
        for tries in (1, 2):
            wait_until(lambda n=tries: rig.outcomes("ops").get("retry") == n)
            rig.advance(400)
        wait_until(lambda: rig.outcomes("ops").get("failed") == 1)
        assert len(got.got) == 3
        assert not other.got


def test_24_a_name_is_looked_up_once_and_only_the_checked_address_is_dialled(tmp_path: Path, wait_until: Any) -> None:
    """A resolver that answers otherwise the second time is not asked a second time."""
    answers = ["127.0.0.1", "169.254.169.254", "169.254.169.254"]
    asked = []

    def look_up(host: str, port: int, version: str, deadline: Deadline) -> tuple[Address, ...]:
        asked.append(host)
        return resolve(answers[len(asked) - 1], port, version, deadline)

    with receiver() as got:
        port = got.url.rsplit(":", 1)[1].rstrip("/")
        with Rig(tmp_path, endpoint("ops", f"http://rebind.test:{port}/"), look_up=look_up) as rig:
            rig.send("a")
            wait_until(lambda: rig.outcomes("ops").get("delivered") == 1)
            assert asked == ["rebind.test"]
            rig.send("a")
            wait_until(lambda: rig.outcomes("ops").get("blocked") == 1)
            wait_until(lambda: len(rig.dead_letters()) == 1)
            (letter,) = rig.dead_letters()
            assert letter["outcome"] == "blocked"
            assert "169.254.169.254" in letter["error"]
            assert len(asked) == 2
        assert len(got.got) == 1


@pytest.mark.parametrize(
    "host",
    [
        "169.254.169.254", "[fe80::1]", "0.0.0.0", "224.0.0.1", "255.255.255.255", "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "[::]",
        "[fd00:ec2::254]",
    ],
)  # fmt: skip
def test_24_addresses_that_are_never_dialled(tmp_path: Path, wait_until: Any, host: str) -> None:
    """Link-local, metadata, unspecified, multicast and reserved addresses in every spelling: blocked, no retry."""
    with Rig(tmp_path, endpoint("ops", f"http://{host}:81/")) as rig:
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops") == {"blocked": 1})


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "192.168.1.1", "[fd12::1]"])
def test_24_private_addresses_are_refused_on_request(tmp_path: Path, wait_until: Any, host: str) -> None:
    """`allowPrivate: false` refuses private networks and loopback."""
    if host == "localhost":
        localhost()  # skips where there is no such name
    with Rig(tmp_path, endpoint("ops", f"http://{host}:81/", allow_private=False)) as rig:
        rig.send("a")
        wait_until(lambda: rig.outcomes("ops") == {"blocked": 1})


@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_25_a_proxy_in_the_environment_is_ignored(
    tmp_path: Path, wait_until: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The event goes straight to the receiver, and the address policy still applies."""
    with receiver() as proxy, receiver() as got:
        monkeypatch.setenv(name, proxy.url)
        blocked = endpoint("meta", "http://169.254.169.254/")
        with Rig(tmp_path, endpoint("ops", got.url), blocked) as rig:
            rig.send("a")
            wait_until(lambda: rig.pending() == 0)
            assert rig.outcomes("meta") == {"blocked": 1}
        assert got.ids() == ["a:1"]
        assert not proxy.got


def test_26_netrc_does_not_replace_a_configured_header(
    tmp_path: Path, wait_until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A netrc entry for the host changes nothing: the bearer token is sent."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login netrc password netrc\n")
    monkeypatch.setenv("NETRC", str(netrc))
    bearer = (("Authorization", "Bearer abc"),)
    with receiver() as got, Rig(tmp_path, endpoint("ops", got.url, headers=bearer)) as rig:
        rig.send("a")
        wait_until(lambda: len(got.got) == 1)
    assert got.got[0].headers["authorization"] == "Bearer abc"
