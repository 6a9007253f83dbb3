"""Non-resource paths of the server, and the normalization of their trailing slashes."""

from __future__ import annotations

HEALTH = ("/healthz", "/livez", "/readyz")
SNAPSHOT = "/kcm/snapshot"  # POST to this path writes a snapshot
# Prefixes of paths whose trailing slashes are ignored.
_SLASHES_IGNORED = ("/api/", "/apis/", "/version/", "/openid/v1/jwks/", "/.well-known/openid-configuration/")


def normalized(path: str) -> str:
    """Return a path without trailing slashes if upstream ignores them for this path.

    Other paths are unchanged: "/metrics/" differs from "/metrics", also for the nonResourceURLs of an RBAC rule.
    """
    return path.rstrip("/") if path.startswith(_SLASHES_IGNORED) else path
