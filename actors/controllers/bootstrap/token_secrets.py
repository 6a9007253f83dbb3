"""Parsing of bootstrap token Secrets: the token, its expiry, and whether it may sign the ConfigMap cluster-info.

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
LONGEST_WAIT = 60.0  # maximum seconds between syncs of a token, because the system clock may be corrected meanwhile

_NAME = re.compile(r"bootstrap-token-([a-z0-9]{6})")


class BootstrapToken(NamedTuple):
    """Valid bootstrap token that may be used for signing.

    id: six lower-case letters or digits
    secret: key for the signature; not empty
    """

    id: str
    secret: bytes


class UnusableSecretError(ValueError):
    """Raised if a Secret does not contain a bootstrap token that may be used for signing. Its text is the reason."""


def expiry_of(secret: Mapping[str, Any]) -> float | None:
    """Return the expiry of a bootstrap token in Unix seconds; None if it does not expire.

    A malformed time counts as expired (-inf), as in upstream's HasExpired.
    """
    expiration = data_of(secret, EXPIRATION)
    if not expiration:
        return None
    try:
        return parse_time(expiration.decode())
    except ValueError:
        return float("-inf")


def requeue_until(expiry: float, *, now: float) -> RequeueAfter:
    """Return a RequeueAfter for the expiry of a token, but at most for LONGEST_WAIT.

    expiry, now: Unix seconds.
    """
    return RequeueAfter(max(0.0, min(expiry - now, LONGEST_WAIT)))


def token_id_of(name: str) -> str | None:
    """Return the token id in a Secret's name `bootstrap-token-<id>`; None if the name has another form."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[1]


def signing_token(secret: Mapping[str, Any], *, now: float) -> BootstrapToken:
    """Validate a Secret and return its bootstrap token for signing. Source: validateSecretForSigning.

    now: Unix seconds.
    Raises UnusableSecretError if the Secret is malformed, or if its token has expired or must not be used for signing.
    """
    name_id, token_id = token_id_of(name_of(secret)), data_of(secret, TOKEN_ID)
    if name_id is None:
        raise UnusableSecretError("its name is not bootstrap-token-<id>")
    if not token_id:
        raise UnusableSecretError(f"it has no {TOKEN_ID}")
    if token_id != name_id.encode():
        raise UnusableSecretError(f"its {TOKEN_ID} differs from the id in its name")
    key = data_of(secret, TOKEN_SECRET)
    if not key:
        raise UnusableSecretError(f"it has no {TOKEN_SECRET}")
    expiry = expiry_of(secret)
    if expiry is not None and expiry <= now:
        raise UnusableSecretError("it has expired")
    if data_of(secret, SIGNS) != YES.encode():
        raise UnusableSecretError(f"{SIGNS} is not {YES}")
    return BootstrapToken(name_id, key)
