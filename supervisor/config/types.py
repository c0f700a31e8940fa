"""The settings and expectations of each target type as schemas. `TYPE_SCHEMAS` lists them, written out by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from marshmallow import ValidationError, post_load, validates_schema

from supervisor.checkers.command.settings import NagiosSettings
from supervisor.checkers.http.settings import BasicAuth, BearerAuth, TlsSettings
from supervisor.config.fields import Bool, Choice, Int, Json, ListOf, MapOf, Number, Size, Str, Typed, found
from supervisor.config.problems import AtKey
from supervisor.config.rules import HeaderRules, Rules, Status
from supervisor.config.strict import Section, Strict
from supervisor.config.web_fields import FRAMING_HEADERS, Headers, HostPort, Method, Url
from supervisor.expect.spec import CommandExpect, HttpExpect

ENV_NAME = r"[^=\x00]+"
_HTTP_FIELDS = (  # written out: the schemas below need it
    "url", "method", "headers", "body", "json", "form", "auth", "followRedirects", "maxRedirects", "maxBodyBytes",
    "proxy", "ipVersion", "connectTo", "tls",
)  # fmt: skip
_COMMAND_FIELDS = ["exec", "args", "cwd", "env", "maxOutputBytes", "nagios"]
_EXPECT_FIELDS = (
    "status", "maxDurationMs", "certificate", "exitCode", "stdout", "stderr", "contains", "regex", "css", "xpath",
)  # fmt: skip
_LARGEST_MS = 86_400_000


def homes(here: str) -> dict[str, str]:
    """Where keys belong that users write at the top of a target or of `defaults`."""
    places = dict.fromkeys(_HTTP_FIELDS, f"write it under http:{here}")
    places |= dict.fromkeys(_COMMAND_FIELDS, f"write it under command:{here}")
    places |= dict.fromkeys(_EXPECT_FIELDS, "write it under expect: of the target")
    places["body"] = "rules on the answer stand under expect:, a body to send under http:"
    places["headers"] = "headers to send stand under http:, expectations about the answer's headers under expect:"
    return places


# --- http ------------------------------------------------------------------------------------------------------------


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
    max_redirects = Int(0, 100, load_default=10, doc="Most redirects in a row; one more is an error.", example=3)
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
        _LARGEST_MS,
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


# --- command ---------------------------------------------------------------------------------------------------------


class NagiosSchema(Strict):
    warning = Choice("degraded", "mismatch", load_default="degraded", doc="What exit code 1 means.", example="mismatch")
    unknown = Choice(  # type: ignore[assignment] # fields leave the class when the schema is made
        "error", "mismatch", load_default="error", doc="What exit code 3, above, or a signal means.", example="mismatch"
    )

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> NagiosSettings:
        return NagiosSettings(**data)


class Nagios(Section):
    """`true`, `false` or a mapping."""

    def read(self, value: Any) -> NagiosSettings | None:
        if isinstance(value, bool):
            return NagiosSettings() if value else None
        if not isinstance(value, dict):
            raise ValidationError(f"expected {self.expected}, found {found(value)}")
        settings: NagiosSettings = self.inner.load(value)
        return settings

    def json_schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, super().json_schema()]}


class CommandDefaultsSchema(Strict):
    """What `defaults.command` may hold; a target's `command:` adds what is its own."""

    doc = "Settings of command checks."
    elsewhere: ClassVar = {
        "exec": "each target has its own: write it under command: of the target",
        "args": "each target has its own: write it under command: of the target",
        "timeout": "it stands beside command:, not under it",
        "interval": "it stands beside command:, not under it",
        "shell": "there is no shell: write exec: sh and args: [-c, '...']",
        "command": "write exec: with the program and args: with its arguments",
    }
    cwd = Str(
        load_default=".",
        doc="Working directory, relative to the file it stands in.",
        example="/var/lib/probe",
        longest=4096,
    )
    env = MapOf(
        secret=True,
        value=Str(empty=True, lines=True, longest=100_000, secret=True),
        name=ENV_NAME,
        name_is="the name of a variable",
        load_default=dict,
        doc="Variables to set, over those of the supervisor and `LC_ALL=C.UTF-8`.",
        example={"PGPASSWORD": "${DB_PASSWORD}"},
        shows_default="{}",
    )
    max_output_bytes = Size(
        load_default=104857600,
        doc="Most bytes of stdout and stderr together; more is an error.",
        example="1MB",
        shows_default="100MB",
    )
    nagios = Nagios(
        NagiosSchema,
        expected="true, false or a mapping",
        doc="Judge exit codes as the Monitoring Plugins guidelines say, and read performance data.",
        example=True,
        shows_default="false",
    )


class CommandSchema(CommandDefaultsSchema):
    first = ("exec", "args")
    elsewhere: ClassVar = {
        **{key: place for key, place in CommandDefaultsSchema.elsewhere.items() if "each target" not in place},
        "expect": "it stands beside command:, not under it",
        "exitCode": "write it under expect: of the target",
    }
    exec = Str(
        required=True,
        longest=4096,
        expected="a program such as pgrep or /usr/lib/nagios/plugins/check_disk",
        doc="Program to run: a path, or a name that is looked up in PATH. There is no shell.",
        example="pgrep",
    )
    args = ListOf(
        Str(empty=True, lines=True, longest=100_000),
        secret=True,
        hint="write each argument as an item, as in [-c, ls]",
        load_default=(),
        doc="Its arguments, each an item of the list; they reach the program as they stand.",
        example=["-x", "nginx"],
        shows_default="[]",
    )


class CommandExpectSchema(Strict):
    elsewhere: ClassVar = {
        "status": "it is for type http; a command has an exitCode",
        "body": "it is for type http; a command has stdout and stderr",
        "headers": "it is for type http; a command has stdout and stderr",
        "certificate": "it is for type http",
        **dict.fromkeys(
            ("contains", "regex"), "it is a rule of stdout or stderr: write stdout: and an item that begins with `- `"
        ),
    }
    exit_code = ListOf(
        Int(-64, 255),
        least=1,
        single=True,
        doc="Accepted exit codes; -9 is an end by signal 9.",
        example=[0, 1],
        shows_default="[0] under expect, nothing under warn",
    )
    max_duration_ms = Int(1, _LARGEST_MS, unit="milliseconds", doc="Longest duration, in ms.", example=2000)
    stdout = Rules(documents=False, doc="Rules on the standard output, in order.", example=[{"regex": "^ok"}])
    stderr = Rules(documents=False, doc="Rules on the standard error output, in order.", example=[{"empty": True}])

    @post_load
    def _make(self, data: dict[str, Any], **_: Any) -> CommandExpect:
        return CommandExpect(**data)


# --- the registry ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TypeSchema:
    """What a target type can be told: its own settings, the part that `defaults` may hold, its expectations."""

    settings: type[Strict]
    defaults: type[Strict]
    expect: type[Strict]


TYPE_SCHEMAS: dict[str, TypeSchema] = {
    "http": TypeSchema(HttpSchema, HttpDefaultsSchema, HttpExpectSchema),
    "command": TypeSchema(CommandSchema, CommandDefaultsSchema, CommandExpectSchema),
}
