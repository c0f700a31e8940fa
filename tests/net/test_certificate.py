"""Certificates of hostile servers are read, or not: never an exception."""

from __future__ import annotations

import ssl

import trustme
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


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(DER) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_broken_certificates(changes: list[tuple[int, int]]) -> None:
    """Any bytes may be wrong."""
    data = bytearray(DER)
    for place, value in changes:
        data[place] = value
    parse(bytes(data))
    names_of(bytes(data))
