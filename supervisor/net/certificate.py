"""The leaf certificate of a connection, read without verification (that is OpenSSL's work). Cached by its bytes."""

from __future__ import annotations

import datetime
import hashlib
import ipaddress
import warnings
from collections import OrderedDict

from cryptography import x509

from supervisor.model import Certificate

_parsed: OrderedDict[bytes, Certificate | None] = OrderedDict()
_MOST_PARSED = 512
# What cryptography raises for certificates that break X.509; not all of it is a ValueError.
_UNREADABLE = (
    ValueError, TypeError, OverflowError, x509.InvalidVersion, x509.ExtensionNotFound, x509.DuplicateExtension,
    x509.UnsupportedGeneralNameType,
)  # fmt: skip


def parse(der: bytes) -> Certificate | None:
    """The dates and names of this certificate; None when it can't be read."""
    digest = hashlib.sha256(der).digest()
    try:
        return _parsed[digest]
    except KeyError:
        certificate = _parse(der)
    _parsed[digest] = certificate
    if len(_parsed) > _MOST_PARSED:
        _parsed.popitem(last=False)
    return certificate


def _load(der: bytes) -> x509.Certificate | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # cryptography warns of odd serials and dates; they are not ours to judge
            return x509.load_der_x509_certificate(der)
    except _UNREADABLE:
        return None


def _parse(der: bytes) -> Certificate | None:
    loaded = _load(der)
    if loaded is None:
        return None
    try:
        begins, ends = loaded.not_valid_before_utc, loaded.not_valid_after_utc
    except _UNREADABLE:
        return None
    return Certificate(
        not_before_ms=_ms(begins),
        not_after_ms=_ms(ends),
        subject=_name(loaded, "subject"),
        issuer=_name(loaded, "issuer"),
    )


def _ms(when: datetime.datetime) -> int:
    return int(when.timestamp()) * 1000


def _name(loaded: x509.Certificate, which: str) -> str:
    """The whole name as text (RFC 4514), at most 200 characters."""
    try:
        name = loaded.subject if which == "subject" else loaded.issuer
        return name.rfc4514_string()[:200]
    except _UNREADABLE:
        return ""


def names_of(der: bytes) -> tuple[str, ...]:
    """The DNS names and addresses a certificate is for: subjectAltName, as verification looks at nothing else."""
    loaded = _load(der)
    if loaded is None:
        return ()
    try:
        found = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        dns = [_dns(str(name)) for name in found.get_values_for_type(x509.DNSName)]
        addresses = [str(address) for address in found.get_values_for_type(x509.IPAddress)]
    except _UNREADABLE:
        return ()
    return tuple(dns + addresses)


def _dns(name: str) -> str:
    """An address among the DNS names counts for nothing, and looks as if it did."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name
    return f"{name} (as a DNS name, not as an address)"


def period_of(certificate: Certificate | None) -> tuple[str | None, str | None]:
    """notBefore and notAfter as people read them."""
    if certificate is None:
        return None, None
    return _shown(certificate.not_before_ms), _shown(certificate.not_after_ms)


def _shown(at_ms: int) -> str:
    when = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return when.strftime("%Y-%m-%d %H:%M UTC")
