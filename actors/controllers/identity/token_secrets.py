"""Token Secrets of service accounts, type kubernetes.io/service-account-token: their annotations and their index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.reconciliation.specs import Index
from kcm.protocols.objects import Object, annotations_of, make_key, namespace_of
from kcm.protocols.resources import SECRETS

TYPE = "kubernetes.io/service-account-token"
OF_TYPE = f"type={TYPE}"  # field selector of the watch
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


def account_name(secret: Mapping[str, Any]) -> str:
    """Return the name of the Secret's service account; "" if the annotation is missing."""
    return annotations_of(secret).get(ACCOUNT_NAME, "")


def account_uid(secret: Mapping[str, Any]) -> str:
    """Return the uid of the Secret's service account; "" before the token controller has set the annotation.

    A Secret without a uid belongs to any account of the name.
    """
    return annotations_of(secret).get(ACCOUNT_UID, "")


def secrets_of(account: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names in the `secrets` of a service account."""
    return tuple(reference.get("name", "") for reference in account.get("secrets") or ())


def _account_keys(secret: Object) -> Iterable[str]:
    name = account_name(secret)
    return (make_key(namespace_of(secret), name),) if name else ()


BY_ACCOUNT = Index(SECRETS, "service account", _account_keys)
