"""HTTPS: certificates, protocol faults, client certificates (cases H38 to H41)."""

from __future__ import annotations

import datetime
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from supervisor.checkers.http.settings import TlsSettings
from supervisor.net.tls import context_for
from tests.checkers.probe import BODY_OK, assert_error, assert_mismatch, assert_ok, check, traced
from tests.servers import (
    HOLD,
    OK,
    RST,
    Server,
    forward_proxy,
    length,
    localhost,
    redirect,
    script_server,
    server_context,
)

PAGE = OK + length(b"ok")
NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


class Pki:
    """A CA, its file, and contexts for servers."""

    def __init__(self, folder: Path) -> None:
        self.ca = trustme.CA()
        self.folder = folder
        self.ca_file = str(folder / "ca.pem")
        self.ca.cert_pem.write_to_path(self.ca_file)
        self.tls = TlsSettings(ca_file=self.ca_file)

    def context(self, *names: str, **options: Any) -> ssl.SSLContext:
        issued = self.ca.issue_cert(*(names or ("localhost", "127.0.0.1")), **options)
        return server_context(issued)

    def self_signed(self, *, san: bool = True, begins: datetime.datetime = NOW - DAY) -> tuple[ssl.SSLContext, str]:
        """A certificate signed by itself, and its file."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        builder = builder.serial_number(7).not_valid_before(begins).not_valid_after(begins + 90 * DAY)
        if san:
            builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), False)
        pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        secret = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self.folder / f"self-{san}-{begins.timestamp()}.pem"
        path.write_bytes(pem + secret)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context, str(path)


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return Pki(tmp_path_factory.mktemp("pki"))


def local(server: Server) -> str:
    return server.url_as(localhost())


def test_https(pki: Pki) -> None:
    """A trusted server: the certificate, the TLS time and the trace are there."""
    with script_server([PAGE], tls=pki.context()) as server:
        result, steps = traced(local(server), tls=pki.tls)
    assert_ok(result)
    assert result.certificate is not None
    assert result.certificate.not_after_ms > time.time() * 1000
    assert result.timings is not None
    assert result.timings.tls is not None
    assert any("TLSv1.3" in step.seen for step in steps if step.step == "tls")
    assert any("valid until" in step.seen for step in steps if step.step == "certificate")


def test_h38_ip_address_in_the_certificate(pki: Pki) -> None:
    """An address in subjectAltName is enough, and no server name is sent for it."""
    names: list[str | None] = []
    context = pki.context()
    context.sni_callback = lambda _sock, name, _context: names.append(name)  # type: ignore[assignment]
    with script_server([PAGE], tls=context) as server:
        assert_ok(check(server.url, tls=pki.tls))
        assert_ok(check(local(server), tls=pki.tls))
    assert names == [None, "localhost"]


def test_h38_expired(pki: Pki) -> None:
    """An expired certificate says when it expired, and the result has it."""
    context = pki.context(not_before=NOW - 90 * DAY, not_after=NOW - DAY)
    with script_server([PAGE], tls=context) as server:
        result = check(local(server), tls=pki.tls)
    assert_error(result, "http.tls", "localhost", "has expired on", f"{NOW - DAY:%Y-%m-%d}")
    assert result.certificate is not None
    assert result.certificate.not_after_ms < time.time() * 1000


def test_h38_not_yet_valid(pki: Pki) -> None:
    """A certificate of the future says from when it is valid."""
    context, path = pki.self_signed(begins=NOW + 10 * DAY)
    with script_server([PAGE], tls=context) as server:
        result = check(local(server), tls=TlsSettings(ca_file=path))
    assert_error(result, "http.tls", "not valid before", f"{NOW + 10 * DAY:%Y-%m-%d}")


def test_h38_wrong_host(pki: Pki) -> None:
    """A certificate for other names lists them."""
    with script_server([PAGE], tls=pki.context("a.example", "b.example")) as server:
        result = check(local(server), tls=pki.tls)
        assert_error(result, "http.tls", "is for a.example, b.example, not for localhost")
        assert_error(check(server.url, tls=pki.tls), "http.tls", "not for 127.0.0.1")


def test_h38_self_signed(pki: Pki) -> None:
    """A self-signed certificate is called that, until it is the CA file."""
    context, path = pki.self_signed()
    with script_server([PAGE], tls=context) as server:
        assert_error(check(local(server), tls=pki.tls), "http.tls", "self-signed")
        assert_error(check(local(server)), "http.tls", "self-signed")
        assert_ok(check(local(server), tls=TlsSettings(ca_file=path)))


def test_h38_unknown_root(pki: Pki) -> None:
    """A certificate of an unknown CA names its issuer."""
    with script_server([PAGE], tls=pki.context()) as server:
        result = check(local(server))
    assert_error(result, "http.tls", "unknown CA", "trustme")
    assert result.certificate is not None


def test_h38_common_name_only(pki: Pki) -> None:
    """A CN without subjectAltName is for no host."""
    context, path = pki.self_signed(san=False)
    with script_server([PAGE], tls=context) as server:
        assert_error(check(local(server), tls=TlsSettings(ca_file=path)), "http.tls", "no subjectAltName")


def test_h38_missing_intermediate(pki: Pki) -> None:
    """A chain with a hole does not verify; with the intermediate as the CA file it does."""
    middle = pki.ca.create_child_ca()
    issued = middle.issue_cert("localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with issued.private_key_and_cert_chain_pem.tempfile() as both:
        pem = Path(both).read_bytes()
    first = pem[: pem.index(b"-----END CERTIFICATE-----") + 26]
    leaf = pki.folder / "leaf.pem"
    leaf.write_bytes(first)
    context.load_cert_chain(leaf)
    middle_file = pki.folder / "middle.pem"
    middle.cert_pem.write_to_path(middle_file)
    with script_server([PAGE], tls=context) as server:
        assert_error(check(local(server), tls=pki.tls), "http.tls", "CA")
        assert_ok(check(local(server), tls=TlsSettings(ca_file=str(middle_file))))


def test_verify_false_still_reads_the_certificate(pki: Pki) -> None:
    """Without verification every certificate passes, and its expiry is known and can be judged."""
    context = pki.context("other.example", not_before=NOW - 90 * DAY, not_after=NOW + 2 * DAY)
    with script_server([PAGE], tls=context) as server:
        result = check(local(server), tls=TlsSettings(verify=False))
        assert_ok(result)
        assert result.certificate is not None
        assert abs(result.certificate.not_after_ms / 1000 - (NOW + 2 * DAY).timestamp()) < 2
        assert_mismatch(check(local(server), tls=TlsSettings(verify=False), min_days=7), "certificate")
        assert_ok(check(local(server), tls=TlsSettings(verify=False), min_days=1))


def test_verify_false_reaches_old_devices(pki: Pki) -> None:
    """A key too weak for today is no obstacle for whoever does not verify, and a named one for all others."""
    key = rsa.generate_private_key(65537, 1024)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "device")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(7).not_valid_before(NOW - DAY).not_valid_after(NOW + DAY)
    path = pki.folder / "device.pem"
    path.write_bytes(
        builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.load_cert_chain(path)
    with script_server([PAGE], tls=context) as server:
        assert_ok(check(local(server), tls=TlsSettings(verify=False)))
        assert_error(check(local(server)), "http.tls")


def test_h41_no_environment(pki: Pki, monkeypatch: pytest.MonkeyPatch) -> None:
    """SSL_CERT_FILE and friends add no trust."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, pki.ca_file)
    with script_server([PAGE], tls=pki.context()) as server:
        assert_error(check(local(server)), "http.tls", "unknown CA")
        monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/nonexistent.pem")
        assert_ok(check(local(server), tls=TlsSettings(verify=False)))


def test_server_name(pki: Pki) -> None:
    """tls.serverName is asked for and verified in place of the host, at the target's origin only."""
    with script_server([PAGE], tls=pki.context("shop.example")) as server:
        tls = TlsSettings(ca_file=pki.ca_file, server_name="shop.example")
        assert_ok(check(server.url, tls=tls))
        assert server.headers()["host"] == f"127.0.0.1:{server.port}"
        with script_server([redirect(local(server).encode())], tls=pki.context("shop.example")) as first:
            assert_error(check(first.url, tls=tls), "http.tls", "not for localhost", "after 1 redirect")


def test_connect_to_keeps_host_and_sni(pki: Pki) -> None:
    """connectTo dials elsewhere; Host, SNI and verification stay."""
    with script_server([PAGE], tls=pki.context("shop.example")) as server:
        assert_ok(check("https://shop.example/", tls=pki.tls, connect_to=("127.0.0.1", server.port)))
        assert server.headers()["host"] == "shop.example"


def test_trailing_dot(pki: Pki) -> None:
    """A trailing dot is part of the name for the resolver, not for TLS."""
    with script_server([PAGE], tls=pki.context("localhost")) as server:
        assert_ok(check("https://localhost./", tls=pki.tls, connect_to=("127.0.0.1", server.port)))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_min_version(pki: Pki, version: ssl.TLSVersion) -> None:
    """tls.minVersion refuses older servers, and says so."""
    context = pki.context()
    context.minimum_version = context.maximum_version = version
    with script_server([PAGE], tls=context) as server:
        result = check(local(server), tls=TlsSettings(ca_file=pki.ca_file, min_version="1.3"))
        if version == ssl.TLSVersion.TLSv1_3:
            assert_ok(result)
        else:
            assert_error(result, "http.tls", "TLS versions")
        assert_ok(check(local(server), tls=TlsSettings(ca_file=pki.ca_file, min_version="1.2")))


def test_client_certificates(pki: Pki) -> None:
    """mTLS: the client certificate is shown at its origin, its absence is named."""
    issued = pki.ca.issue_cert("client.example")
    cert, key = str(pki.folder / "client.pem"), str(pki.folder / "client.key")
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    tls = TlsSettings(ca_file=pki.ca_file, cert_file=cert, key_file=key)
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        strict = server_context(pki.ca.issue_cert("localhost", "127.0.0.1"), client_ca=pki.ca)
        strict.minimum_version = strict.maximum_version = version
        with script_server([PAGE], tls=strict) as server:
            assert_ok(check(local(server), tls=tls))
            result = check(local(server), tls=pki.tls)
            assert_error(result, "http.tls", "client certificate")
            with script_server([redirect(local(server).encode())], tls=pki.context()) as first:
                assert_error(check(first.url, tls=tls), "http.tls", "client certificate")


@pytest.mark.parametrize(
    ("content", "word"),
    [(None, "No such file"), ("", "PEM"), ("nonsense", "PEM")],
    ids=["missing", "empty", "nonsense"],
)
def test_files_that_can_not_be_used(pki: Pki, tmp_path: Path, content: str | None, word: str) -> None:
    """A CA file or client certificate that can't be used is named, with what is wrong."""
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    with script_server([PAGE], tls=pki.context()) as server:
        assert_error(check(local(server), tls=TlsSettings(ca_file=str(path))), "http.tls", str(path), word)
        tls = TlsSettings(ca_file=pki.ca_file, cert_file=str(path))
        assert_error(check(local(server), tls=tls), "http.tls", str(path), word)


def test_encrypted_key_does_not_ask_on_the_terminal(pki: Pki, tmp_path: Path) -> None:
    """An encrypted key is an error, never a prompt that waits."""
    key = ec.generate_private_key(ec.SECP256R1())
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"pw")
    )
    path = tmp_path / "key.pem"
    path.write_bytes(encrypted)
    cert = tmp_path / "cert.pem"
    pki.ca.issue_cert("x.example").cert_chain_pems[0].write_to_path(cert)
    with script_server([PAGE], tls=pki.context()) as server:
        tls = TlsSettings(ca_file=pki.ca_file, cert_file=str(cert), key_file=str(path))
        assert_error(check(local(server), tls=tls), "http.tls", "encrypted")
        other = tmp_path / "other.key"
        pki.ca.issue_cert("y.example").private_key_pem.write_to_path(other)
        tls = TlsSettings(ca_file=pki.ca_file, cert_file=str(cert), key_file=str(other))
        assert_error(check(local(server), tls=tls), "http.tls", "does not belong")


def test_one_context_per_settings_until_a_file_changes(pki: Pki, tmp_path: Path) -> None:
    """Making a context costs 18 ms: it is shared, and made anew only when its files have changed."""
    path = tmp_path / "ca.pem"
    pki.ca.cert_pem.write_to_path(path)
    tls = TlsSettings(ca_file=str(path))
    first = context_for(tls)
    assert context_for(TlsSettings(ca_file=str(path), server_name="x")) is first
    assert context_for(TlsSettings(ca_file=str(path), verify=False)) is not first
    trustme.CA().cert_pem.write_to_path(path, append=True)
    assert context_for(tls) is not first


# --- broken peers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"220 mail\r\n", b"\0" * 50])
def test_h39_https_to_a_plain_port(answer: bytes) -> None:
    """A port that does not speak TLS is recognised."""
    with script_server([answer, 0.2], greet=True) as server:
        assert_error(check(f"https://{localhost()}:{server.port}/"), "http.tls", "plain HTTP")


def test_h39_http_to_a_tls_port(pki: Pki) -> None:
    """A TLS port that is spoken to in clear is recognised by its alert."""
    with script_server([b"\x15\x03\x01\x00\x02\x02\x46"], greet=True) as server:
        assert_error(check(server.url), "http.headers", "https://")
    with script_server([PAGE], tls=pki.context()) as server:
        result = check(server.url.replace("https", "http"), timeout_s=1)
    assert result.failure is not None
    assert result.failure.path == "http.headers"


@pytest.mark.parametrize("steps", [[HOLD], [b"\x16\x03\x03\x00\x7a", HOLD]], ids=["silent", "half a record"])
def test_a_handshake_that_stalls_ends_at_the_deadline(steps: list[Any]) -> None:
    """A stalled handshake ends by the deadline, at its place."""
    with script_server(steps, greet=True) as server:
        assert_error(check(f"https://127.0.0.1:{server.port}/", timeout_s=0.7), "http.tls", "within 0.7 s")


def _hello(sock: socket.socket) -> None:
    """Read the client's first message, so that it is not what is reset."""
    sock.recv(65536)


@pytest.mark.parametrize(
    "steps",
    [[_hello, RST], [_hello], [_hello, b"\x16\x03\x03", 0.1, RST], [_hello, b"\x15\x03\x01\x00\x02\x01\x00"]],
    ids=["reset", "closed", "reset in a record", "closed with an alert"],
)
def test_a_handshake_that_breaks(steps: list[Any]) -> None:
    """A connection that ends within the handshake is an error of TLS."""
    with script_server(steps, greet=True) as server:
        result = check(f"https://127.0.0.1:{server.port}/")
    assert_error(result, "http.tls", "TLS handshake")


def test_a_handshake_byte_by_byte_ends_at_the_deadline(pki: Pki) -> None:
    """A peer that drips its handshake does not stretch the deadline."""
    inner = pki.context()
    with script_server([PAGE], tls=inner) as real:

        def drip(sock: socket.socket) -> None:
            with socket.create_connection(("127.0.0.1", real.port)) as upstream:
                upstream.sendall(sock.recv(65536))
                data = upstream.recv(65536)
                for byte in data:
                    sock.sendall(bytes([byte]))
                    time.sleep(0.02)  # the drip itself

        with script_server([drip], greet=True) as server:
            assert_error(
                check(f"https://{localhost()}:{server.port}/", tls=pki.tls, timeout_s=0.8), "http.tls", "within"
            )


def test_headers_and_body_drip_under_tls(pki: Pki) -> None:
    """The deadline holds for every read under TLS."""
    with script_server([OK, *[b"X: y\r\n", 0.2] * 20], tls=pki.context()) as server:
        assert_error(check(local(server), tls=pki.tls, timeout_s=0.8), "http.headers", "within")
    with script_server([OK + b"Content-Length: 99\r\n\r\n", *[b"x", 0.2] * 20], tls=pki.context()) as server:
        assert_error(check(local(server), tls=pki.tls, timeout_s=0.8), "http.body", "of 99 bytes")


def _cut(sock: Any) -> None:
    """End the connection below TLS: no closing alert."""
    socket.socket(fileno=sock.detach()).close()


def test_a_body_that_ends_without_tls_closing_alert(pki: Pki) -> None:
    """A body that ends with the connection is whole only behind TLS's closing alert; a framed one does not need it."""
    with script_server([OK + b"\r\nok", _cut], tls=pki.context()) as server:
        assert_error(check(server.url, tls=pki.tls), "http.body", "closing alert")
    with script_server([OK + b"\r\nok"], tls=pki.context()) as server:
        assert_ok(check(server.url, tls=pki.tls))
    with script_server([PAGE, _cut], tls=pki.context()) as server:
        assert_ok(check(server.url, tls=pki.tls))
    with script_server([OK + b"Content-Length: 9\r\n\r\nok", _cut], tls=pki.context()) as server:
        assert_error(check(server.url, tls=pki.tls), "http.body", "2 of 9")
    with script_server([_cut], tls=pki.context()) as server:
        assert_error(check(server.url, tls=pki.tls), "http.headers")


def test_garbage_within_tls(pki: Pki) -> None:
    """Bytes that are no TLS record in the middle of a connection are an error, whatever came before."""

    def garbage(sock: Any) -> None:
        raw = socket.socket(fileno=sock.detach())
        raw.sendall(b"this is no record of TLS at all, not even nearly one")
        raw.close()

    with script_server([OK + b"\r\nok", garbage], tls=pki.context()) as server:
        assert_error(check(local(server), tls=pki.tls), "http.tls")


def test_https_through_a_proxy(pki: Pki) -> None:
    """TLS goes through the tunnel; the proxy sees CONNECT only."""
    with script_server([PAGE], tls=pki.context()) as server, forward_proxy() as proxy:
        assert_ok(check(local(server), tls=pki.tls, proxy=proxy.url, headers=(("X-Key", "topsecret"),)))
        assert proxy.lines() == [f"CONNECT localhost:{server.port} HTTP/1.1"]
        assert b"topsecret" not in proxy.requests[0]


def test_redirect_from_http_to_https(pki: Pki) -> None:
    """The usual way: clear to TLS, with the certificate of the last hop."""
    with (
        script_server([PAGE], tls=pki.context()) as secure,
        script_server([redirect(local(secure).encode(), 308)]) as plain,
    ):
        result = check(plain.url, tls=pki.tls, body=BODY_OK)
    assert_ok(result)
    assert result.certificate is not None


def test_threads_share_contexts(pki: Pki) -> None:
    """Contexts may be used from several threads at once."""
    contexts: list[ssl.SSLContext] = []
    threads = [threading.Thread(target=lambda: contexts.append(context_for(pki.tls))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(contexts) == 4
