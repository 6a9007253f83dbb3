"""Detached JSON web signatures (RFC 7515, appendix F): header and signature, without what was signed.

Source: kubernetes v1.36 staging/src/k8s.io/cluster-bootstrap/token/jws/jws.go. Clients compare text, so the header's
fields stand as upstream's library writes them.
"""

from __future__ import annotations

import base64
import hmac
import json


def detached_signature(content: str, *, key_id: str, key: bytes) -> str:
    """`header..signature` by HMAC-SHA256, as clients that join compute it again and compare."""
    header = _encoded(json.dumps({"alg": "HS256", "kid": key_id}, separators=(",", ":")).encode())
    signature = hmac.digest(key, b"%b.%b" % (header, _encoded(content.encode())), "sha256")
    return f"{header.decode()}..{_encoded(signature).decode()}"


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
