"""The files of `tls:` are loaded once with the configuration: what can't be used is told then."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from tests.config.support import http, load, problems


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority, a client certificate with its key, a key of another, and an encrypted key."""
    path = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    client, other = authority.issue_cert("client"), authority.issue_cert("other")
    authority.cert_pem.write_to_path(path / "ca.pem")
    client.cert_chain_pems[0].write_to_path(path / "client.pem")
    client.private_key_pem.write_to_path(path / "client.key")
    other.private_key_pem.write_to_path(path / "other.key")
    client.private_key_and_cert_chain_pem.write_to_path(path / "both.pem")
    key = serialization.load_pem_private_key(client.private_key_pem.bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"password"),
    )
    (path / "locked.key").write_bytes(locked)
    (path / "text.pem").write_text("no certificate")
    return path


@pytest.mark.parametrize(
    "tls",
    [
        "caFile: ca.pem",
        "certFile: client.pem, keyFile: client.key",
        "certFile: both.pem",
        "caFile: ca.pem, verify: false",
    ],
)
def test_files_that_load(folder: Path, tls: str) -> None:
    """Their paths come out absolute."""
    settings = load(folder, http(settings=f"tls: {{{tls}}}")).targets[0].settings
    for value in (settings.tls.ca_file, settings.tls.cert_file, settings.tls.key_file):
        assert value is None or value.startswith(str(folder))


@pytest.mark.parametrize(
    ("tls", "sentence"),
    [
        ("caFile: gone.pem", "gone.pem can't be read: No such file or directory"),
        ("caFile: text.pem", "text.pem does not hold certificates in PEM form"),
        ("certFile: gone.pem", "can't be read: No such file or directory"),
        ("certFile: client.pem", "does not hold a certificate and the key that fits it"),
        ("certFile: client.pem, keyFile: other.key", "does not hold a certificate and the key that fits it"),
        ("certFile: client.pem, keyFile: locked.key", "without a password"),
        ("keyFile: client.key", "keyFile goes with certFile"),
    ],
)
def test_files_that_do_not(folder: Path, tls: str, sentence: str) -> None:
    """One sentence at the key, whatever OpenSSL calls it; no question on the terminal."""
    found = problems(folder, http(settings=f"tls: {{{tls}}}"))
    assert len(found) == 1
    assert sentence in found[0]
    assert ": targets[0].http.tls." in found[0]
