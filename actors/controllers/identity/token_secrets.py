"""Secrets that hold a token of a service account: which account they name, and what they hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.reconciliation.specs import Index
from kcm.protocols.objects import Object, annotations_of, make_key, namespace_of
from kcm.protocols.resources import SECRETS

TYPE = "kubernetes.io/service-account-token"
OF_TYPE = f"type={TYPE}"  # a field selector: no other Secret comes to us
ACCOUNT_NAME = "kubernetes.io/service-account.name"
ACCOUNT_UID = "kubernetes.io/service-account.uid"


def account_name(secret: Mapping[str, Any]) -> str:
    """ "" where it names none: such a Secret concerns nobody here."""
    return annotations_of(secret).get(ACCOUNT_NAME, "")


def account_uid(secret: Mapping[str, Any]) -> str:
    """ "" until it was filled: then any account of its name will do."""
    return annotations_of(secret).get(ACCOUNT_UID, "")


def secrets_of(account: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the Secrets that an account lists."""
    return tuple(one.get("name", "") for one in account.get("secrets") or ())


def _account_keys(secret: Object) -> Iterable[str]:
    name = account_name(secret)
    return (make_key(namespace_of(secret), name),) if name else ()


BY_ACCOUNT = Index(SECRETS, "service account", _account_keys)
