"""Verifies tokens of Secrets of type kubernetes.io/service-account-token, which the token controller signs.

Such a token does not expire. It is valid while the Secret contains it and its account exists, unless the Secret is
labelled as invalid. The day on which the token was last used is a label of the Secret, which the legacy token cleaner
reads.

Source: kubernetes pkg/serviceaccount/legacy.go (v1.36). Audit annotations, metrics, and the
warning about auto-generated tokens are not implemented.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from typing import Any, NamedTuple

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.objects import Object, decode_object, is_deleting, labels_of, make_key, uid_of
from kcm.protocols.times import format_time
from kcm.runtime.apiserver.registry.users import AUTHENTICATED, User
from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.signing.tokens import VerifyingKey

ISSUER = "kubernetes/serviceaccount"
_CLAIM = "kubernetes.io/serviceaccount/"
LAST_USED, INVALID_SINCE = "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
DAY = 86400.0
MOST_KNOWN, LONGEST_KNOWN = 1024, 4096  # number of cached tokens; characters of a cached token


class Use(NamedTuple):
    """Use of a valid token.

    user: None if the Secret is labelled as invalid
    secret: the Secret that contains the token
    day: the day to record as the day of the last use; "" if it is recorded already
    """

    user: User | None
    secret: Object
    day: str


class LegacyTokens:
    def __init__(self, keys: Sequence[VerifyingKey]) -> None:
        """Create a verifier.

        keys: keys whose signatures are accepted
        """
        self._keys = tuple(keys)
        self._claims_of = bounded_cache(MOST_KNOWN, longest=LONGEST_KNOWN)(
            self._read
        )  # each signature is verified once

    def use_of(self, token: str, *, state: State, now: float) -> Use | None:
        """Verify a token of a Secret. Return None if the token is of another kind, or no longer valid.

        now: Unix seconds
        """
        claims = self._claims_of(token)
        if claims is None or claims.get("iss") != ISSUER:
            return None
        parts = ("namespace", "secret.name", "service-account.name", "service-account.uid")
        namespace, secret_name, name, uid = (str(claims.get(f"{_CLAIM}{part}") or "") for part in parts)
        subject = f"system:serviceaccount:{namespace}:{name}"
        if not (namespace and secret_name and name and uid) or claims.get("sub") != subject:
            return None
        secret = _found(state, "secrets", namespace, secret_name)
        account = _found(state, "serviceaccounts", namespace, name)
        if secret is None or account is None or uid_of(account) != uid:
            return None
        kept = base64.b64decode((secret.get("data") or {}).get("token") or "")
        if not hmac.compare_digest(kept, token.encode()):
            return None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        user = None if labels_of(secret).get(INVALID_SINCE) else User(subject, uid=uid, groups=groups)
        today, tomorrow = (format_time(at).partition("T")[0] for at in (now, now + DAY))
        return Use(user, secret, "" if labels_of(secret).get(LAST_USED) in (today, tomorrow) else today)

    def _read(self, token: str) -> dict[str, Any] | None:
        return next((claims for key in self._keys if (claims := key.claims_of(token)) is not None), None)


def _found(state: State, storage: str, namespace: str, name: str) -> Object | None:
    """Return an object, or None if it does not exist or is being deleted."""
    record = state.get(storage, make_key(namespace, name))
    found = None if record is None else decode_object(record.raw)
    return None if found is None or is_deleting(found) else found
