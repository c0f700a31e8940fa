"""Certificates of hostile servers are read, or not: never an exception."""

from __future__ import annotations

import datetime
import ssl

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor.net.certificate import names_of, parse, period_of

DER = ssl.PEM_cert_to_DER_cert(trustme.CA().issue_cert("a.example", "127.0.0.1").cert_chain_pems[0].bytes().decode())


def test_a_certificate() -> None:
    """Dates, names and issuer of a leaf."""
    certificate = parse(DER)
    assert certificate is not None
    assert certificate.not_before_ms < certificate.not_after_ms
    assert "trustme" in certificate.issuer
    assert names_of(DER) == ("a.example", "127.0.0.1")
    assert all(shown is not None and shown.endswith("UTC") for shown in period_of(certificate))


def test_an_address_among_the_dns_names_is_told_apart() -> None:
    """Verification ignores it, so a message must not say that the certificate is for this address."""
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([])).serial_number(1)
    now = datetime.datetime.now(datetime.UTC)
    builder = builder.not_valid_before(now).not_valid_after(now + datetime.timedelta(1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("127.0.0.1")]), critical=False)
    key = ec.generate_private_key(ec.SECP256R1())
    made = builder.public_key(key.public_key()).sign(key, hashes.SHA256())
    der = made.public_bytes(serialization.Encoding.DER)
    assert names_of(der) == ("127.0.0.1 (as a DNS name, not as an address)",)


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DER) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_broken_certificates(changes: list[tuple[int, int]]) -> None:
    """Any bytes may be wrong."""
    data = bytearray(DER)
    for place, value in changes:
        data[place] = value
    parse(bytes(data))
    names_of(bytes(data))
