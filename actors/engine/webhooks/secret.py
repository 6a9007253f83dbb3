"""Secret with the certificates of the webhook server: a kubernetes.io/tls Secret with the CAs and the key of the CA."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Key, Object, split_key
from kcm.protocols.resources import SECRETS
from kcm.runtime.x509.key_rings import KeyRing

TYPE = "kubernetes.io/tls"
FIELDS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}


def ring_of(secret: Mapping[str, Any]) -> KeyRing | None:
    """Return the certificates and keys of a Secret; None if they are missing or invalid."""
    from kcm.runtime.x509.rotation import is_valid_ring  # heavy: cryptography

    data = secret.get("data") or {}
    try:
        ring = KeyRing(**{field: base64.b64decode(data[name], validate=True) for field, name in FIELDS.items()})
    except (KeyError, TypeError, ValueError):
        return None
    return ring if is_valid_ring(ring) else None


def data_of(ring: KeyRing) -> dict[str, str]:
    """Return the `data` of the Secret."""
    return {name: base64.b64encode(getattr(ring, field)).decode() for field, name in FIELDS.items()}


def secret_with(ring: KeyRing, key: Key, *, program: str) -> Object:
    """Return a new Secret. program: name of the program, for people who find the Secret."""
    namespace, name = split_key(key)
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"namespace": namespace, "name": name, "labels": {"app.kubernetes.io/managed-by": program}},
        "type": TYPE,
        "data": data_of(ring),
    }
