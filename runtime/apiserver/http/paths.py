"""Paths other than those of resources."""

from __future__ import annotations

HEALTH = ("/healthz", "/livez", "/readyz")
SNAPSHOT = "/kcm/snapshot"  # POST to this path writes a snapshot
# Paths at whose end slashes are ignored.
_SLASHES_IGNORED = ("/api/", "/apis/", "/version/", "/openid/v1/jwks/", "/.well-known/openid-configuration/")


def normalized(path: str) -> str:
    """Strip slashes from the end of a path where upstream ignores them.

    Elsewhere "/metrics/" is not "/metrics": a rule that allows one does not allow the other.
    """
    return path.rstrip("/") if path.startswith(_SLASHES_IGNORED) else path
