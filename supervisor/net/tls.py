"""TLS: one context per setting and process, the handshake within the deadline, its failures in words."""

from __future__ import annotations

import os
import socket
import ssl
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import certifi

from supervisor.deadline import Deadline, DeadlineExpired, HeldBack
from supervisor.model import Certificate
from supervisor.net.budget import left_s
from supervisor.net.certificate import names_of, parse, period_of
from supervisor.net.failure import CertificateFailure, NetFailure, sentence, timed_out


class TlsOptions(Protocol):
    """What `checkers.http.settings.TlsSettings` has; read only."""

    @property
    def verify(self) -> bool: ...
    @property
    def ca_file(self) -> str | None: ...
    @property
    def cert_file(self) -> str | None: ...
    @property
    def key_file(self) -> str | None: ...
    @property
    def server_name(self) -> str | None: ...
    @property
    def min_version(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class DefaultTls:
    """Verify against the system's store, nothing else."""

    verify: bool = True
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    min_version: str | None = None


SYSTEM_STORES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)

_OP_LEGACY_SERVER_CONNECT = 0x4  # ssl has the name from Python 3.12 on

# --- contexts --------------------------------------------------------------------------------------------------------

_Key = tuple[object, ...]
_contexts: OrderedDict[_Key, ssl.SSLContext] = OrderedDict()
_MOST_CONTEXTS = 64


def context_for(options: TlsOptions, *, with_client_certificate: bool = True) -> ssl.SSLContext:
    """The shared context for these options; a new one when a file behind it has changed (making one costs 18 ms).

    Raises NetFailure("tls") when a file can't be read or used."""
    cert_file = options.cert_file if with_client_certificate else None
    key_file = options.key_file if cert_file else None
    ca_file = (options.ca_file or _system_store()) if options.verify else None
    stamps = tuple(_stamp(name) for name in (ca_file, cert_file, key_file))
    key: _Key = (options.verify, ca_file, cert_file, key_file, options.min_version, stamps)
    context = _contexts.get(key)
    if context is None:
        context = _new_context(options, ca_file, cert_file, key_file)
        _contexts[key] = context
        if len(_contexts) > _MOST_CONTEXTS:
            _contexts.popitem(last=False)
    return context


def _system_store() -> str:
    for name in SYSTEM_STORES:
        if Path(name).is_file():
            return name
    return certifi.where()


def _stamp(name: str | None) -> tuple[int, int, int] | None:
    if name is None:
        return None
    try:
        found = os.stat(name)  # noqa: PTH116 - once a check: pathlib costs three times as much
    except OSError:
        return None  # reading it says what is wrong
    return found.st_mtime_ns, found.st_size, found.st_ino


def _new_context(
    options: TlsOptions, ca_file: str | None, cert_file: str | None, key_file: str | None
) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_alpn_protocols(["http/1.1"])
    context.hostname_checks_common_name = False
    # Python's older releases set it (Debian 12's does): an end without TLS's closing alert would look like a clean one.
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
    if options.min_version is not None:
        context.minimum_version = ssl.TLSVersion.TLSv1_3 if options.min_version == "1.3" else ssl.TLSVersion.TLSv1_2
    if cert_file is None:
        # A peer must not restart the handshake at will; some servers ask for a client certificate only that way.
        context.options |= ssl.OP_NO_RENEGOTIATION
    if ca_file is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        # Whoever does not verify wants to reach old devices: weak keys and old renegotiation are no obstacle then.
        context.set_ciphers("DEFAULT:@SECLEVEL=0")
        context.options |= _OP_LEGACY_SERVER_CONNECT
    else:
        # A file that holds the leaf or an intermediate is trust enough: whoever names it means it.
        if options.ca_file is not None:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(ca_file)
        except OSError as error:  # SSLError is one
            raise NetFailure("tls", f"the CA file {ca_file} can't be used: {_file_fault(error)}") from error
    if cert_file is not None:
        try:
            # An empty password, or OpenSSL would ask for one on the terminal and wait.
            context.load_cert_chain(cert_file, key_file, password="")
        except OSError as error:
            named = f"{cert_file} with {key_file}" if key_file else cert_file
            raise NetFailure("tls", f"the client certificate {named} can't be used: {_file_fault(error)}") from error
    return context


def _file_fault(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        if "KEY_VALUES_MISMATCH" in reason:
            return "the key does not belong to the certificate"
        if "DECRYPT" in reason or "PASSWORD" in reason:
            return "the key is encrypted; give one without a password"
        return "it holds no PEM data of this kind"
    return error.strerror or type(error).__name__


# --- the handshake ---------------------------------------------------------------------------------------------------


def handshake(
    sock: socket.socket, context: ssl.SSLContext, server_name: str, peer: str, deadline: Deadline
) -> ssl.SSLSocket:
    """The connection under TLS. On failure both sockets are closed.

    Raises CertificateFailure, NetFailure("tls") and DeadlineExpired."""
    try:
        with HeldBack():  # until somebody holds the socket, nobody could close it
            secured = context.wrap_socket(
                sock, server_hostname=server_name, do_handshake_on_connect=False, suppress_ragged_eofs=False
            )
    except (UnicodeError, ValueError) as error:
        sock.close()
        raise NetFailure("tls", f"{server_name[:255]} can't be asked for in TLS: not a valid host name") from error
    except OSError as error:
        sock.close()
        raise NetFailure("tls", tls_sentence(error, peer)) from error
    try:
        secured.settimeout(left_s(deadline))
        secured.do_handshake()
    except ssl.SSLCertVerificationError as error:
        failure = _certificate_failure(error, _leaf_of(secured), server_name, peer)
        secured.close()
        raise failure from error
    except OSError as error:
        secured.close()
        if timed_out(error):
            raise DeadlineExpired from error
        raise NetFailure("tls", tls_sentence(error, peer)) from error
    except BaseException:
        secured.close()
        raise
    return secured


def _leaf_of(secured: ssl.SSLSocket) -> bytes | None:
    """What the server showed in a handshake that failed. Python 3.13 made this public; 3.11 and 3.12 have it inside."""
    if sys.version_info >= (3, 13):
        shown = secured.get_unverified_chain()
        return bytes(shown[0]) if shown else None
    inner = getattr(secured, "_sslobj", None)
    chain = inner.get_unverified_chain() if inner is not None else None
    return bytes(chain[0].public_bytes(2)) if chain else None  # 2: DER


def _certificate_failure(
    error: ssl.SSLCertVerificationError, leaf: bytes | None, server_name: str, peer: str
) -> CertificateFailure:
    """One sentence a reason; the codes are OpenSSL's X509_V_ERR_*."""
    certificate = parse(leaf) if leaf else None
    whose = f"the certificate of {server_name}" if server_name in peer else f"the certificate of {server_name} ({peer})"
    begins, ends = period_of(certificate)
    actual = None
    match error.verify_code:
        case 10:
            told, actual = f"{whose} has expired{_at(' on ', ends)}", ends
        case 9:
            told, actual = f"{whose} is not valid before {begins or 'a later date'}", begins
        case 62 | 63 | 64:
            names = names_of(leaf) if leaf else ()
            actual = ", ".join(names) or "no subjectAltName"
            told = f"{whose} is for {_some(names)}, not for {server_name}{_until(ends)}"
        case 18:
            told = f"{whose} is self-signed and not in the trusted CA file{_until(ends)}"
        case 19:
            told = f"{whose} is signed by a root that is not trusted{_issuer(certificate)}{_until(ends)}"
        case 20 | 2:
            told = f"{whose} is signed by an unknown CA{_issuer(certificate)}{_until(ends)}"
        case 21:
            told = f"{whose} can't be verified: an intermediate is missing{_issuer(certificate)}"
        case _:
            told = f"{whose} does not verify: {error.verify_message}"
    return CertificateFailure(told, certificate, actual=actual)


def _at(word: str, when: str | None) -> str:
    return f"{word}{when}" if when else ""


def _until(ends: str | None) -> str:
    return f" (valid until {ends})" if ends else ""


def _issuer(certificate: Certificate | None) -> str:
    return f": {certificate.issuer}" if certificate and certificate.issuer else ""


def _some(names: tuple[str, ...]) -> str:
    if not names:
        return "no host (it has no subjectAltName)"
    more = len(names) - 5
    return ", ".join(names[:5]) + (f" and {more} more" if more > 0 else "")


_REASONS = (
    ("WRONG_VERSION_NUMBER", "{peer} speaks plain HTTP on this port, or something else that is not TLS"),
    ("HTTP_REQUEST", "{peer} speaks plain HTTP on this port"),
    ("RECORD_LAYER_FAILURE", "{peer} speaks plain HTTP on this port, or something else that is not TLS"),
    ("PACKET_LENGTH_TOO_LONG", "{peer} speaks something that is not TLS on this port"),
    ("CERTIFICATE_REQUIRED", "{peer} wants a client certificate: set tls.certFile"),
    ("ALERT_HANDSHAKE_FAILURE", "{peer} refused the handshake (no common cipher, or it wants a client certificate)"),
    ("PROTOCOL_VERSION", "{peer} speaks only TLS versions that are not allowed here"),
    ("UNSUPPORTED_PROTOCOL", "{peer} speaks only TLS versions that are not allowed here"),
    ("NO_SHARED_CIPHER", "{peer} has no cipher in common with us"),
    ("UNRECOGNIZED_NAME", "{peer} does not know the server name it was asked for"),
    ("ALERT_UNKNOWN_CA", "{peer} does not trust our client certificate"),
    ("ALERT_BAD_CERTIFICATE", "{peer} refused our client certificate"),
    ("ALERT_CERTIFICATE_EXPIRED", "{peer} says our client certificate has expired"),
    ("ALERT_ACCESS_DENIED", "{peer} denied access in TLS"),
    ("DH_KEY_TOO_SMALL", "{peer} uses a Diffie-Hellman key that is too small to be safe"),
    ("EE_KEY_TOO_SMALL", "{peer} uses a certificate whose key is too small to be safe"),
    ("UNSAFE_LEGACY_RENEGOTIATION", "{peer} only knows unsafe renegotiation (an old TLS library)"),
)


def tls_sentence(error: OSError, peer: str) -> str:
    """What this error under TLS means."""
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ""
        for part, told in _REASONS:
            if part in reason:
                return told.format(peer=peer)
        if ended(error) or "EOF" in reason:
            return f"{peer} closed the connection during the TLS handshake"
        shown = reason.replace("_", " ").lower() or type(error).__name__
        return f"TLS with {peer} failed: {shown}"
    return f"during the TLS handshake: {sentence(error, peer)}"


def ended(error: OSError) -> bool:
    """True for the mere end of the connection, without TLS's closing alert. Python's older releases have no class of
    their own for it under OpenSSL 3."""
    return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError) or (
        isinstance(error, ssl.SSLError) and "UNEXPECTED_EOF" in (error.reason or "")
    )


def broke(error: OSError) -> bool:
    """True for a TLS fault that is no mere end of the connection (an alert, a bad record)."""
    return isinstance(error, ssl.SSLError) and not ended(error)
