"""Secrets of bootstrap tokens: their content, their expiry, and whether they may sign.

Source: kubernetes v1.36 staging/src/k8s.io/cluster-bootstrap/util/secrets/secrets.go and token/api/types.go,
pkg/controller/bootstrap/util.go.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.actors.controllers.shared.secret_data import data_of
from kcm.actors.reconciliation import RequeueAfter
from kcm.protocols.objects import name_of
from kcm.protocols.times import parse_time

NAMESPACE = "kube-system"
TYPE = "bootstrap.kubernetes.io/token"
OF_TYPE = f"type={TYPE}"  # field selector of the watch
TOKEN_ID, TOKEN_SECRET, EXPIRATION, SIGNS = "token-id", "token-secret", "expiration", "usage-bootstrap-signing"
YES = "true"
LONGEST_WAIT = 60.0  # seconds until an expiry is looked at again: the clock may have been wrong, and be set right

_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")


class BootstrapToken(NamedTuple):
    """id: six letters or digits. secret: what it signs with, never empty."""

    id: str
    secret: bytes


class UnusableSecretError(ValueError):
    """A Secret cannot be used to sign."""


def expiry_of(secret: Mapping[str, Any]) -> float | None:
    """Return the expiry of a token in Unix seconds; None without one. An invalid time counts as expired."""
    expiration = data_of(secret, EXPIRATION)
    if not expiration:
        return None
    try:
        return parse_time(expiration.decode())
    except ValueError:
        return float("-inf")


def look_again(expiry: float, *, now: float) -> RequeueAfter:
    """Return when to sync the token again: at its expiry, in at most LONGEST_WAIT seconds."""
    return RequeueAfter(max(0.0, min(expiry - now, LONGEST_WAIT)))


def token_id_of(name: str) -> str | None:
    """Return the token id in the name of a Secret; None if the name has another form."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


def signing_token(secret: Mapping[str, Any], *, now: float) -> BootstrapToken:
    """Return the token of a Secret. now: Unix seconds. Raises UnusableSecretError if it is expired or must not sign."""
    name_id, token_id = token_id_of(name_of(secret)), data_of(secret, TOKEN_ID)
    if name_id is None:
        raise UnusableSecretError("its name is not bootstrap-token-<id>")
    if not token_id:
        raise UnusableSecretError(f"it has no {TOKEN_ID}")
    if token_id != name_id.encode():
        raise UnusableSecretError(f"its {TOKEN_ID} is not that of its name")
    key = data_of(secret, TOKEN_SECRET)
    if not key:
        raise UnusableSecretError(f"it has no {TOKEN_SECRET}")
    expiry = expiry_of(secret)
    if expiry is not None and expiry <= now:
        raise UnusableSecretError("it has expired")
    if data_of(secret, SIGNS) != YES.encode():
        raise UnusableSecretError(f"{SIGNS} is not {YES}")
    return BootstrapToken(name_id, key)
