"""Standard Webhooks signatures (standardwebhooks.com, spec version 1). Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable

_PREFIX = "whsec_"
_FEWEST_BYTES = 24
_MOST_BYTES = 64
HINT = "make one with: echo whsec_$(openssl rand -base64 32)"


def secret_key(secret: str) -> bytes:
    """The key of a secret `whsec_BASE64`; raises ValueError, a sentence that never shows the secret."""
    if not secret.startswith(_PREFIX):
        raise ValueError(f"a webhook secret begins with whsec_; {HINT}")
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"a webhook secret is whsec_ and then base64; {HINT}") from error
    if not _FEWEST_BYTES <= len(key) <= _MOST_BYTES:
        raise ValueError(f"a webhook secret holds {_FEWEST_BYTES} to {_MOST_BYTES} bytes, this one {len(key)}; {HINT}")
    return key


def signatures(secrets: Iterable[str], message_id: str, timestamp_s: int, body: bytes) -> str:
    """The value of `webhook-signature`: one `v1,BASE64` for each secret, so that secrets can be rotated."""
    signed = f"{message_id}.{timestamp_s}.".encode() + body
    digests = (hmac.new(secret_key(secret), signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join("v1," + base64.b64encode(digest).decode() for digest in digests)
