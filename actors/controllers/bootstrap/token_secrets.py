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
LONGEST_WAIT = 60.0  # seconds between syncs of a token that expires later: the system clock may be corrected meanwhile

_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")


class BootstrapToken(NamedTuple):
    """Bootstrap token that may sign.

    id: six lower-case letters or digits.
    secret: key of the signature; not empty.
    """

    id: str
    secret: bytes


class UnusableSecretError(ValueError):
    """The Secret does not contain a token that may sign."""


def expiry_of(secret: Mapping[str, Any]) -> float | None:
    """Return the expiry of a token in Unix seconds; None without one.

    A malformed time counts as expired, as in upstream's HasExpired.
    """
    expiration = data_of(secret, EXPIRATION)
    if not expiration:
        return None
    try:
        return parse_time(expiration.decode())
    except ValueError:
        return float("-inf")


def requeue_until(expiry: float, *, now: float) -> RequeueAfter:
    """Requeue the key at the expiry of a token, or after LONGEST_WAIT if that is sooner. Both times: Unix seconds."""
    return RequeueAfter(max(0.0, min(expiry - now, LONGEST_WAIT)))


def token_id_of(name: str) -> str | None:
    """Return the token id in the name of a Secret; None if the name has another form."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


def signing_token(secret: Mapping[str, Any], *, now: float) -> BootstrapToken:
    """Return the token of a Secret, as upstream's validateSecretForSigning.

    now: Unix seconds.
    Raises UnusableSecretError if the Secret is malformed, or its token has expired or must not sign.
    """
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
