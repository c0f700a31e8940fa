"""The type `http` as users write it: its settings, its expectations, what is doubtful about them."""

from __future__ import annotations

import functools
import json
import ssl
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import unquote, urlencode, urlsplit, urlunsplit

from marshmallow import ValidationError, post_load, validates_schema

from supervisor.checkers.http.settings import BasicAuth, BearerAuth, HttpSettings, TlsSettings
from supervisor.config import masking, nodes
from supervisor.config.fields import LONGEST_CHECK_MS, Bool, Choice, Int, Json, ListOf, MapOf, Number, Size, Str, Typed
from supervisor.config.problems import AtKey
from supervisor.config.rules import HeaderRules, Rules, Status
from supervisor.config.strict import Section, Strict
from supervisor.config.target_type import Doubt, TargetType, Unbuilt
from supervisor.config.web_fields import FRAMING_HEADERS, Headers, HostPort, Method, Url
from supervisor.expect.spec import HttpExpect
from supervisor.model import ResolvedTarget

# --- settings --------------------------------------------------------------------------------------------------------


class BasicSchema(Strict):
    username = Str(required=True, empty=False, doc="User name of basic authentication.", example="monitor")
    password = Str(
        required=True, empty=True, secret=True, expected="a password", doc="Its password.", example="${SHOP_PASSWORD}"
    )

    @validates_schema
    def _no_colon(self, data: dict[str, Any], **_: Any) -> None:
        if ":" in data["username"]:
            raise ValidationError({"username": ["a user name of basic authentication can't hold a colon"]})


class AuthSchema(Strict):
    doc = "Authentication: `basic` or `bearer`."
    basic = Section(BasicSchema, secret=True, doc="User name and password (RFC 7617).")
    bearer = Str(
        secret=True,
        doc="Sends `Authorization: Bearer TOKEN`.",
        example="${SHOP_TOKEN}",
        pattern=r"[\x21-\x7e]+",
        expected="a token of visible ASCII characters without spaces",
    )

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> BasicAuth | BearerAuth:
        if len(data) != 1:
            raise ValidationError("expected either basic or bearer, found " + ("both" if data else "neither"))
        if "bearer" in data:
            return BearerAuth(data["bearer"])
        return BasicAuth(data["basic"]["username"], data["basic"]["password"])


class TlsSchema(Strict):
    verify = Bool(load_default=True, doc="Check the server's certificate and name.", example=True)
    ca_file = Str(
        doc="PEM file of the authorities to trust instead of the system's.",
        example="/etc/ssl/private-ca.pem",
        shows_default="the system's store",
    )
    cert_file = Str(doc="PEM file of the client certificate, with its chain.", example="client.pem")
    key_file = Str(doc="PEM file of its key, when it is not in `certFile`.", example="client.key")
    server_name = Str(
        doc="Name to ask for (SNI) and to check, instead of the URL's host.",
        example="shop.example.org",
        shows_default="the URL's host",
        longest=253,
    )
    min_version = Choice(
        "1.2",
        "1.3",
        numbers={1.2: "1.2", 1.3: "1.3"},
        doc="Lowest TLS version to accept.",
        example="1.3",
        shows_default="1.2",
    )

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> TlsSettings:
        if "key_file" in data and "cert_file" not in data:
            raise ValidationError({"keyFile": ["keyFile goes with certFile: give both, or remove it"]})
        return TlsSettings(**data)


class FormValue(Typed):
    expected = "a text, a number or a list of them"
    schema: ClassVar[Mapping[str, Any]] = {
        "anyOf": [{"type": ["string", "number"]}, {"type": "array", "items": {"type": ["string", "number"]}}],
    }

    def read(self, value: Any) -> list[str]:
        items = value if isinstance(value, list) else [value]
        if not all(isinstance(item, str | int | float) and not isinstance(item, bool) for item in items):
            raise self.wrong(value, "quote it" if isinstance(value, bool) else "")
        return [str(item) for item in items]


class HttpDefaultsSchema(Strict):
    """What `defaults.http` may hold; a target's `http:` adds what is its own."""

    doc = "Settings of HTTP checks."
    elsewhere: ClassVar = {
        "url": "each target has its own: write it under http: of the target",
        "body": "each target has its own: write it under http: of the target",
        "json": "each target has its own: write it under http: of the target",
        "form": "each target has its own: write it under http: of the target",
        "connectTo": "each target has its own: write it under http: of the target",
        "timeout": "it stands beside http:, not under it",
        "interval": "it stands beside http:, not under it",
        "verify": "write it under tls:",
        "insecure": "write tls: {verify: false}",
    }
    method = Method(load_default="GET", doc="Request method.", example="POST")
    headers = Headers(
        load_default=(),
        doc="Headers to send. Names are case-insensitive; values are text. None of them goes to "
        "another origin on a redirect.",
        example={"Authorization": "Bearer ${SHOP_TOKEN}"},
        reserved=FRAMING_HEADERS,
    )
    auth = Section(
        AuthSchema,
        doc="Authentication, `basic: {username, password}` or `bearer: TOKEN`.",
        example={"bearer": "${SHOP_TOKEN}"},
        secret=True,
    )
    follow_redirects = Bool(
        load_default=True, doc="Follow redirects; otherwise the 3xx answer itself is judged.", example=False
    )
    max_redirects = Int(0, 10_000, load_default=10, doc="Most redirects in a row; one more is an error.", example=3)
    max_body_bytes = Size(
        load_default=104857600,
        doc="Most bytes of a body after decoding; more is an error.",
        example="10MB",
        shows_default="100MB",
    )
    proxy = Url(
        user_info=True,
        secret=True,
        doc="HTTP proxy. Proxy variables of the environment have no say.",
        example="http://proxy.example.org:3128",
    )
    ip_version = Choice(
        "any",
        "4",
        "6",
        numbers={4: "4", 6: "6"},
        load_default="any",
        doc="Address family to connect with.",
        example="4",
    )
    tls = Section(
        TlsSchema,
        load_default=TlsSettings(),
        doc="TLS settings.",
        example={"caFile": "/etc/ssl/private-ca.pem"},
        shows_default="verified, the system's store",
    )


class HttpSchema(HttpDefaultsSchema):
    first = ("url", "method", "headers")
    elsewhere: ClassVar = {
        **{key: place for key, place in HttpDefaultsSchema.elsewhere.items() if "each target" not in place},
        "status": "write it under expect: of the target",
        "contains": "write it as a rule under expect.body of the target",
        "expect": "it stands beside http:, not under it",
    }
    url = Url(
        required=True, user_info=True, doc="What to ask. http or https.", example="https://shop.example.org/health"
    )
    body = Str(lines=True, empty=True, longest=10_000_000, doc="Text to send as the body.", example="ping")
    json = Json(doc="Value to send as a JSON body, with `Content-Type: application/json`.", example={"probe": True})
    form = MapOf(FormValue(secret=True), secret=True, doc="Fields to send as an HTML form.", example={"user": "probe"})
    connect_to = HostPort(doc="`host:port` to dial instead of the URL's; Host and SNI stay.", example="127.0.0.1:8443")

    @validates_schema
    def _one_body(self, data: dict[str, Any], **_: Any) -> None:
        given = [name for name in ("body", "json", "form") if name in data]
        if len(given) > 1:
            raise ValidationError({given[1]: [AtKey(f"{' and '.join(given)} are different bodies: keep one")]})
        if any(name.lower() == "authorization" for name, _value in data["headers"]) and "auth" in data:
            raise ValidationError({"auth": [AtKey("the header Authorization is given too: keep one of the two")]})


# --- expectations ----------------------------------------------------------------------------------------------------


class CertificateSchema(Strict):
    min_days_left = Number(required=True, doc="Days for which the leaf certificate must still be valid.", example=7)


class HttpExpectSchema(Strict):
    elsewhere: ClassVar = {
        "exitCode": "it is for type command; an HTTP answer has a status",
        "stdout": "it is for type command; an HTTP answer has a body",
        "stderr": "it is for type command; an HTTP answer has a body",
        **dict.fromkeys(
            ("contains", "regex", "json", "css", "xpath"),
            "it is a rule of body: write body: and an item that begins with `- `",
        ),
        "minDaysLeft": "write certificate: {minDaysLeft: 7}",
    }
    status = ListOf(
        Status(),
        least=1,
        single=True,
        doc='Accepted status codes: numbers, `"2xx"`, `"200-299"`.',
        example=[200, "3xx"],
        shows_default="[200] under expect, nothing under warn",
    )
    max_duration_ms = Int(
        1,
        LONGEST_CHECK_MS,
        unit="milliseconds",
        doc="Longest duration, in ms: first until the headers, then until the body was read.",
        example=2000,
    )
    headers = HeaderRules(
        doc="What the answer's headers must hold: a text (= equals) or operators.",
        example={"Content-Type": {"contains": "json"}},
    )
    certificate = Section(CertificateSchema, doc="What the server's certificate must hold.", example={"minDaysLeft": 7})
    body = Rules(
        documents=True,
        doc="Rules on the body, in order; the first that fails ends the check.",
        example=[{"contains": "healthy"}],
    )

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> HttpExpect:
        certificate = data.pop("certificate", None)
        days = None if certificate is None else certificate["min_days_left"]
        return HttpExpect(**data, certificate_min_days_left=days)


# --- settings as the checker takes them ------------------------------------------------------------------------------


def _build(target: Unbuilt) -> HttpSettings:
    written = dict(target.values["http"])
    body, content_type = _body(written)
    if any(name.lower() == "content-type" for name, _value in written["headers"]):
        content_type = None
    _no_body_rules_with_head(target.values)
    url, auth = _user_info(written)
    for key in ("body", "json", "form", "url", "auth"):
        written.pop(key, None)
    _load_once(written["tls"])
    return HttpSettings(url=url, auth=auth, body=body, content_type=content_type, **written)


def _body(written: dict[str, Any]) -> tuple[bytes | None, str | None]:
    if "json" in written:
        return json.dumps(written["json"], ensure_ascii=False).encode("utf-8"), "application/json"
    if "form" in written:
        return urlencode(written["form"], doseq=True).encode("ascii"), "application/x-www-form-urlencoded"
    body = written.get("body")
    return (None if body is None else body.encode("utf-8")), None


def _no_body_rules_with_head(values: dict[str, Any]) -> None:
    if values["http"]["method"] != "HEAD":
        return
    errors = {}
    for part in ("expect", "warn"):
        if part in values and values[part].body:
            errors[part] = {"body": [AtKey("an answer to HEAD has no body: remove the rules, or use method GET")]}
    if errors:
        raise ValidationError(errors)


def _user_info(written: dict[str, Any]) -> tuple[str, Any]:
    """User and password in the URL are basic authentication; they leave the URL here."""
    parts = urlsplit(written["url"])
    auth = written.get("auth")
    if "@" not in parts.netloc:
        return written["url"], auth
    info, _, host = parts.netloc.rpartition("@")
    user, colon, password = info.partition(":")
    given = auth is not None or any(name.lower() == "authorization" for name, _value in written["headers"])
    if given:
        raise ValidationError(
            {"http": {"url": ["the URL holds a user, and auth or the header Authorization is given too: keep one"]}}
        )
    url = urlunsplit((parts.scheme, host, parts.path, parts.query, parts.fragment))
    return url, BasicAuth(unquote(user), unquote(password)) if colon else None


def _load_once(tls: TlsSettings) -> None:
    """Load the files once, to prove that they can be."""
    try:
        if tls.ca_file:
            _load_authorities(tls.ca_file)
    except (OSError, ssl.SSLError) as exc:
        message = _file_problem(tls.ca_file, exc, "certificates in PEM form")
        raise ValidationError({"http": {"tls": {"caFile": [message]}}}) from exc
    try:
        if tls.cert_file:
            _load_client(tls.cert_file, tls.key_file)
    except (OSError, ssl.SSLError) as exc:
        expected = "a certificate and the key that fits it, in PEM form, without a password"
        message = _file_problem(exc.filename or tls.cert_file, exc, expected)
        raise ValidationError({"http": {"tls": {"certFile": [message]}}}) from exc


@functools.lru_cache(64)
def _load_authorities(path: str) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)


@functools.lru_cache(64)
def _load_client(cert_file: str, key_file: str | None) -> None:
    # without a callback OpenSSL would ask on the terminal for the password of an encrypted key
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, password=lambda: "")


def _file_problem(path: Any, exc: OSError, expected: str) -> str:
    if isinstance(exc, ssl.SSLError):
        return f"{path} does not hold {expected}"
    return f"{path} can't be read: {exc.strerror or exc}"


# --- what is shown and what is doubted -------------------------------------------------------------------------------


def _summary(tree: nodes.Mapping) -> str:
    return masking.shown_line(tree, "http", "url")


def _lints(target: ResolvedTarget, tree: nodes.Mapping) -> Iterator[Doubt]:
    settings: HttpSettings = target.settings
    if settings.body is not None and settings.method in ("GET", "HEAD"):
        message = f"a body is sent with {settings.method}, which servers ignore: set method: POST"
        yield Doubt(("http", "method"), message)
    written = nodes.find(tree, "http", "url")
    url = str(written.value) if isinstance(written, nodes.Scalar) else settings.url
    if "@" in urlsplit(url).netloc and settings.auth is None:
        message = "the URL holds a user without a password, and no Authorization is sent for it: use auth"
        yield Doubt(("http", "url"), message)
    plain = settings.url[:5].lower() == "http:"
    for part, expect in (("expect", target.expect), ("warn", target.warn)):
        if plain and expect is not None and expect.certificate_min_days_left is not None:
            message = "the URL is http, and only https has a certificate: use an https URL"
            yield Doubt((part, "certificate"), message)
    if plain and settings.tls.ca_file:
        yield Doubt(("http", "tls", "caFile"), "the URL is http, where this has no effect")
    if not settings.tls.verify and not plain:
        message = "the certificate is not verified: anyone on the way can answer for this server"
        yield Doubt(("http", "tls", "verify"), message)


HTTP = TargetType(
    name="http",
    settings=HttpSchema,
    defaults=HttpDefaultsSchema,
    expect=HttpExpectSchema,
    nothing_asked=HttpExpect(),
    build=_build,
    summary=_summary,
    example={"followRedirects": False},
    lints=_lints,
    unwritten=lambda _settings: ("expect.status", [200]),
    path_keys=(("tls", "caFile"), ("tls", "certFile"), ("tls", "keyFile")),
    merged_keys={"headers": str.lower, "tls": str},
    misplaced={
        "body": "rules on the answer stand under expect:, a body to send under http:",
        "headers": "headers to send stand under http:, expectations about the answer's headers under expect:",
    },
)
