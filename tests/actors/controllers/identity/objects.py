"""Builders of namespaces, service accounts and token Secrets."""

from __future__ import annotations

import base64
from typing import Any

from kcm.actors.controllers.identity.token_secrets import ACCOUNT_NAME, ACCOUNT_UID, TYPE
from kcm.protocols.objects import Object


def namespace(name: str = "default", phase: str = "Active") -> Object:
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def account(name: str = "default", *, where: str = "default", uid: str = "", secrets: tuple[str, ...] = ()) -> Object:
    meta = {"name": name, "namespace": where, **({"uid": uid} if uid else {})}
    return {"metadata": meta, **({"secrets": [{"name": secret} for secret in secrets]} if secrets else {})}


def token_secret(
    name: str = "token",
    of: str | None = "default",
    *,
    uid: str | None = "uid-of-default",
    data: Any = None,
    **meta: Any,
) -> Object:
    """Return a token Secret.

    of, uid: name and uid of the account in its annotations.
    data: values before base64 encoding.
    """
    annotations = {key: value for key, value in ((ACCOUNT_NAME, of), (ACCOUNT_UID, uid)) if value is not None}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in (data or {}).items()}
    whole = {"name": name, "namespace": "default", "annotations": annotations, **meta}
    return {"metadata": whole, "type": TYPE, **({"data": encoded} if data is not None else {})}
