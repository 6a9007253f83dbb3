"""Builders of Secrets with bootstrap tokens."""

from __future__ import annotations

import base64
from typing import Any

from kcm.actors.controllers.bootstrap.token_secrets import TYPE
from kcm.protocols.objects import Object
from kcm.protocols.times import format_time

ID = "abc123"
KEY = "kube-system/bootstrap-token-abc123"


def token(data: dict[str, str] | None = None, *, name: str = f"bootstrap-token-{ID}", **more: Any) -> Object:
    """Return the Secret of a token that may sign. data: replaces fields; "" makes a field empty."""
    whole = {"token-id": ID, "token-secret": "tokenSecret", "usage-bootstrap-signing": "true", **(data or {})}
    encoded = {field: base64.b64encode(text.encode()).decode() for field, text in whole.items()}
    meta = {"name": name, "namespace": "kube-system"}
    return {"metadata": meta, "type": TYPE, "data": encoded, **more}


def expiring(at: float, **more: Any) -> Object:
    return token({"expiration": format_time(at)}, **more)
