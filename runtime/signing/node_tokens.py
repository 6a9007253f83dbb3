"""Tokens of nodes, made of a key and the node's name: who has the key has those of all nodes.

A server that has the key knows every node's token without a list: how many nodes there are costs it nothing.
"""

from __future__ import annotations

import hmac

_PREFIX = "kcm-node."


def node_token(key: bytes, name: str) -> str:
    return f"{_PREFIX}{_seal(key, name)}.{name}"


def node_in(key: bytes, token: str) -> str | None:
    """The name of the node whose token it is; None for no token of this key."""
    if not token.startswith(_PREFIX):
        return None
    seal, _, name = token.removeprefix(_PREFIX).partition(".")
    is_ours = hmac.compare_digest(seal.encode(errors="replace"), _seal(key, name).encode())
    return name if name and is_ours else None


def _seal(key: bytes, name: str) -> str:
    return hmac.digest(key, name.encode(errors="replace"), "sha256").hex()
