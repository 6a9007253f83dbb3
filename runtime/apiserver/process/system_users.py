"""Users of the control plane's components, with their tokens and kubeconfigs, and the key of the tokens of nodes."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

from kcm.runtime.apiserver.process.failures import CannotServeError
from kcm.runtime.apiserver.process.kubeconfig import ensure_token, update_kubeconfig
from kcm.runtime.apiserver.process.launch import HOLLOW_NODES, KUBECONFIGS, MANAGER, NODE_KEY, SCHEDULER
from kcm.runtime.apiserver.registry.users import User

TOKENS = "tokens"  # subdirectory of the server's directory
_USERS = {name: User(f"system:{name}") for name in (MANAGER, SCHEDULER, HOLLOW_NODES)}


def system_users(directory: Path) -> Mapping[str, User]:
    """Return the users of the control plane by token. Missing tokens are created. Raises OSError."""
    folder = directory / TOKENS
    folder.mkdir(mode=0o700, exist_ok=True)
    return {ensure_token(folder / name): user for name, user in _USERS.items()}


def static_users(path: str) -> Mapping[str, User]:
    """Return the users of a file with static tokens by token: token, user, uid and optionally groups, in CSV.

    path: "" for no users

    Raises CannotServeError if the file is unreadable or a line is invalid.

    Source: kubernetes v1.36 apiserver pkg/authentication/token/tokenfile/tokenfile.go.
    """
    found: dict[str, User] = {}
    if not path:
        return found
    try:
        with Path(path).open(encoding="utf-8", newline="") as file:
            for number, fields in enumerate(csv.reader(file), 1):
                if not any(fields):
                    continue
                if len(fields) < 3:
                    raise CannotServeError(f"token file {path}, line {number}: it must have at least 3 columns")
                token, name, uid, *groups = (field.strip() for field in fields)
                if not token:
                    raise CannotServeError(f"token file {path}, line {number}: the token is empty")
                found[token] = User(name, uid=uid, groups=tuple(groups[0].split(",")) if groups and groups[0] else ())
    except (OSError, UnicodeDecodeError, csv.Error) as err:
        raise CannotServeError(f"cannot read token file {path}: {err}") from err
    return found


def node_key(directory: Path) -> bytes:
    """Return the key from which the tokens of nodes are derived. A missing key is created. Raises OSError."""
    return ensure_token(directory / NODE_KEY).encode()


def write_system_kubeconfigs(directory: Path, *, url: str, authority: bytes) -> None:
    """Write a kubeconfig for each user of the control plane. authority: PEM of the server's CA. Raises OSError."""
    folder = directory / KUBECONFIGS
    folder.mkdir(mode=0o700, exist_ok=True)
    for name in _USERS:
        path = folder / name
        path.unlink(missing_ok=True)  # unlike the administrator's, it contains nothing that a user has added
        update_kubeconfig(path, url=url, authority=authority, token=ensure_token(directory / TOKENS / name))
