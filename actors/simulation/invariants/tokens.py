"""Invariants of bootstrap tokens and their signatures, computed independently of the controllers."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from typing import Any

from kcm.actors.simulation.invariants.observer import Committed, Fail, Handled, Observation, decoded, only
from kcm.protocols.objects import Object, key_of, metadata, name_of
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.storage.store import DELETED

SIGNER, CLEANER = "bootstrap-signer", "token-cleaner"  # clients
OF_TOKENS = "bootstrap.kubernetes.io/token"
SIGNATURES = "jws-kubeconfig-"


def _field_of(secret: Mapping[str, Any], field: str) -> bytes:
    return base64.b64decode((secret.get("data") or {}).get(field) or "")


def expiry(secret: Mapping[str, Any]) -> float | None:
    """Return the time from which a token Secret may be deleted, in Unix seconds; None for never or another type."""
    return _expiration(secret) if secret.get("type") == OF_TOKENS else None


def _expiration(secret: Mapping[str, Any]) -> float | None:
    text = _field_of(secret, "expiration").decode()
    try:
        return parse_time(text) if text else None
    except ValueError:
        return 0.0


def key_to_sign_with(secret: Mapping[str, Any], *, now: float) -> tuple[str, bytes] | None:
    """Return (token id, signing key) of a bootstrap token that is valid for signing; None for other Secrets.

    now: Unix seconds.
    """
    found = re.fullmatch(r"bootstrap-token-([a-z0-9]{6})", name_of(secret))
    key, ends = _field_of(secret, "token-secret"), _expiration(secret)
    if found is None or not key or _field_of(secret, "token-id").decode() != found[1]:
        return None
    if _field_of(secret, "usage-bootstrap-signing") != b"true" or (ends is not None and ends <= now):
        return None
    return found[1], key


def is_signed_by(signature: str, content: str, token: str, key: bytes) -> bool:
    head, _, rest = signature.partition(".")
    if json.loads(_decoded(head) or b"{}") != {"alg": "HS256", "kid": token} or not rest.startswith("."):
        return False
    body = base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")
    return hmac.compare_digest(_decoded(rest[1:]), hmac.new(key, f"{head}.{body}".encode(), hashlib.sha256).digest())


def _decoded(part: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except ValueError:
        return b""


class OnlySignaturesChange:
    """Invariant: the signer changes only signatures, which are valid for the content and a present or former token."""

    name = "only valid signatures are written"
    observes = (only(Handled, SIGNER), only(Committed, "secrets"))

    def __init__(self) -> None:
        self._keys: dict[str, set[bytes]] = {}  # by token id: current and former keys

    def observe(self, observation: Observation, fail: Fail) -> None:
        if isinstance(observation, Committed):
            for change in observation.changes:
                if change.storage == "secrets" and change.type != DELETED:
                    self._note(decoded(change.raw))
        elif isinstance(observation, Handled) and observation.client == SIGNER:
            for change in observation.changes:
                if change.storage != "configmaps" or change.type == DELETED or not change.previous:
                    fail(f"{change.type} {change.storage}")
                else:
                    self._check(decoded(change.raw), decoded(change.previous), fail)

    def _note(self, secret: Object) -> None:
        if secret.get("type") == OF_TOKENS:
            token = name_of(secret).removeprefix("bootstrap-token-")
            self._keys.setdefault(token, set()).add(_field_of(secret, "token-secret"))

    def _check(self, after: Object, before: Object, fail: Fail) -> None:
        now, then = after.get("data") or {}, before.get("data") or {}
        for field in now.keys() | then.keys():
            if now.get(field) == then.get(field) or (field.startswith(SIGNATURES) and field not in now):
                continue
            token = field.removeprefix(SIGNATURES)
            if token == field:
                fail(f"{field} of {key_of(after)} changed from {then.get(field)!r} to {now.get(field)!r}")
            elif not any(
                is_signed_by(now[field], now.get("kubeconfig", ""), token, key) for key in self._keys.get(token, ())
            ):
                fail(f"{field} of {key_of(after)} is not a valid signature: {now[field]}")
        if metadata(after).get("labels") != metadata(before).get("labels"):
            fail(f"labels of {key_of(after)} changed to {metadata(after).get('labels')}")
