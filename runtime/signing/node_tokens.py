"""Tokens of nodes, derived from a key and the node's name. With the key, the tokens of all nodes can be derived.

A server with the key can verify every node's token without a list of nodes.
"""

from __future__ import annotations

import hmac

_PREFIX = "kcm-node."


def node_token(key: bytes, name: str) -> str:
    return f"{_PREFIX}{_seal(key, name)}.{name}"


def node_in(key: bytes, token: str) -> str | None:
    """Return the name of the node that the token belongs to, or None if the token was not made with this key."""
    if not token.startswith(_PREFIX):
        return None
    seal, _, name = token.removeprefix(_PREFIX).partition(".")
    is_ours = hmac.compare_digest(seal.encode(errors="replace"), _seal(key, name).encode())
    return name if name and is_ours else None


def _seal(key: bytes, name: str) -> str:
    return hmac.digest(key, name.encode(errors="replace"), "sha256").hex()
