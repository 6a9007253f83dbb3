"""Users of the control plane: each has a token, and a kubeconfig that holds it, in the server's directory; and the key
that tokens of nodes are made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kcm.runtime.apiserver.process.kubeconfig import admin_token, update_kubeconfig
from kcm.runtime.apiserver.process.launch import HOLLOW_NODES, KUBECONFIGS, MANAGER, NODE_KEY, SCHEDULER
from kcm.runtime.apiserver.registry.users import User

TOKENS = "tokens"  # in the directory
_USERS = {name: User(f"system:{name}") for name in (MANAGER, SCHEDULER, HOLLOW_NODES)}


def system_users(directory: Path) -> Mapping[str, User]:
    """Return the users of the control plane by their tokens, which are created on first use. Raises OSError."""
    held = directory / TOKENS
    held.mkdir(mode=0o700, exist_ok=True)
    return {admin_token(held / name): user for name, user in _USERS.items()}


def node_key(directory: Path) -> bytes:
    """Return the key of the tokens of nodes, created on first use. Raises OSError."""
    return admin_token(directory / NODE_KEY).encode()


def write_system_kubeconfigs(directory: Path, *, url: str, authority: bytes) -> None:
    """Write a kubeconfig for each of these users. authority: PEM of the server's CA. Raises OSError."""
    held = directory / KUBECONFIGS
    held.mkdir(mode=0o700, exist_ok=True)
    for name in _USERS:
        path = held / name
        path.unlink(missing_ok=True)  # nothing in it is anybody else's
        update_kubeconfig(path, url=url, authority=authority, token=admin_token(directory / TOKENS / name))
