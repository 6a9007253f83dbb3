"""Annotations of service account token Secrets, and the index that finds the Secrets of a service account."""

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
    """Return the uid of the Secret's service account; "" if the token controller has not set the annotation yet.

    Without this annotation, the Secret belongs to any service account with the name in its annotation
    kubernetes.io/service-account.name.
    """
    return annotations_of(secret).get(ACCOUNT_UID, "")


def secrets_of(account: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the Secrets that the field `secrets` of a ServiceAccount lists."""
    return tuple(reference.get("name", "") for reference in account.get("secrets") or ())


def _account_keys(secret: Object) -> Iterable[str]:
    name = account_name(secret)
    return (make_key(namespace_of(secret), name),) if name else ()


BY_ACCOUNT = Index(SECRETS, "service account", _account_keys)
