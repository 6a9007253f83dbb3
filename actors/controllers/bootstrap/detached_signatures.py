"""Detached JSON web signatures (RFC 7515, appendix F): header and signature without the payload.

Source: kubernetes v1.36 staging/src/k8s.io/cluster-bootstrap/token/jws/jws.go. Clients compare signatures as text, so
the fields of the header must be in the same order as upstream.
"""

from __future__ import annotations

import base64
import hmac
import json


def detached_signature(content: str, *, key_id: str, key: bytes) -> str:
    """Sign a text with HMAC-SHA256. Return the detached JSON web signature in the form `header..signature`.

    key_id: value of `kid` in the header. Source: ComputeDetachedSignature.
    """
    header = _encoded(json.dumps({"alg": "HS256", "kid": key_id}, separators=(",", ":")).encode())
    signature = hmac.digest(key, b"%b.%b" % (header, _encoded(content.encode())), "sha256")
    return f"{header.decode()}..{_encoded(signature).decode()}"


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
