"""Tokens of service accounts: what is in one that is issued, and whom one that comes is of.

A token is good until its time is over, its account has gone, or the object that it is bound to.

Source: kubernetes pkg/serviceaccount/claims.go, staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go
(v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from protocols.objects import Key, Object, make_key, name_of, namespace_of, uid_of
from runtime.apiserver.registry.users import (
    ACCOUNTS,
    AUTHENTICATED,
    CREDENTIAL_ID,
    Authenticated,
    Unauthenticated,
    User,
)
from runtime.apiserver.storage.state import State, to_read
from runtime.signing.tokens import SigningKey

ISSUER = "https://kubernetes.default.svc.cluster.local"
CLAIM = "kubernetes.io"
EXTRA = "authentication.kubernetes.io/"
BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}  # kinds that a token may be bound to, by their storage
ACCOUNT = "serviceaccounts"
MOST_KNOWN = 1024  # tokens
LEEWAY = 60.0  # seconds that clocks may differ


class Bound(NamedTuple):
    """An object that a token is bound to, or says more of. name: alone where it is not there."""

    kind: str
    name: str
    uid: str


class _Issued(NamedTuple):
    """What a token says. rests_on: its account, then what it is bound to, each as (storage, key, uid)."""

    user: User
    audiences: tuple[str, ...]
    begins: float
    ends: float
    rests_on: tuple[tuple[str, Key, str], ...]


class AccountTokens:
    def __init__(self, key: SigningKey) -> None:
        self._key = key
        self._read = lru_cache(maxsize=MOST_KNOWN)(self._read_anew)  # a signature is looked at once

    def public_key(self) -> dict[str, str]:
        """As a JSON Web Key (RFC 7517)."""
        return self._key.public_jwk()

    def issue(
        self,
        account: Object,
        *,
        audiences: list[str],
        bound: list[Bound],
        now: float,
        seconds: int,
        number: Callable[[], str],
    ) -> str:
        """now: unix seconds. number: draws the token's own."""
        said: dict[str, Any] = {
            "namespace": namespace_of(account),
            "serviceaccount": {"name": name_of(account), "uid": uid_of(account)},
        }
        said |= {one.kind.lower(): {"name": one.name, **({"uid": one.uid} if one.uid else {})} for one in bound}
        begins = int(now)
        return self._key.sign(
            {
                "aud": audiences,
                "exp": begins + seconds,
                "iat": begins,
                "iss": ISSUER,
                "jti": number(),
                CLAIM: said,
                "nbf": begins,
                "sub": f"{ACCOUNTS}{namespace_of(account)}:{name_of(account)}",
            }
        )

    def authenticate(
        self, token: str, audiences: Sequence[str], *, state: State, now: float
    ) -> Authenticated | Unauthenticated:
        """now: unix seconds."""
        issued = self._read(token)
        if issued is None:
            return Unauthenticated()
        good_for = tuple([one for one in audiences if one in issued.audiences])
        if not good_for:
            given, wanted = (" ".join(map(json.dumps, each)) for each in (issued.audiences, audiences))
            return Unauthenticated(f"token audiences [{given}] is invalid for the target audiences [{wanted}]")
        if now >= issued.ends:
            return Unauthenticated("service account token has expired")
        if now < issued.begins - LEEWAY:
            return Unauthenticated("service account token is not valid yet")
        for storage, key, uid in issued.rests_on:
            record = state.get(storage, key)
            if record is None or uid_of(to_read(record.raw)) != uid:
                if storage == ACCOUNT:
                    return Unauthenticated(f'serviceaccounts "{key.rpartition("/")[2]}" not found')
                return Unauthenticated("service account token has been invalidated")
        return Authenticated(issued.user, good_for)

    def _read_anew(self, token: str) -> _Issued | None:
        claims = self._key.claims_of(token)
        if claims is None or claims.get("iss") != ISSUER:
            return None
        said = claims[CLAIM]
        namespace, account = said["namespace"], said["serviceaccount"]
        user = User(
            claims["sub"],
            uid=account["uid"],
            groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
            extra={CREDENTIAL_ID: (f"JTI={claims['jti']}",), **_extra(said)},
        )
        own = (ACCOUNT, make_key(namespace, account["name"]), account["uid"])
        return _Issued(user, tuple(claims["aud"]), claims["nbf"], claims["exp"], (own, *_bindings(said)))


def _bindings(said: Mapping[str, Any]) -> Iterator[tuple[str, Key, str]]:
    """A node counts where the token is bound to nothing else."""
    for kind in ("Pod", "Secret"):
        one = said.get(kind.lower())
        if one is not None:
            yield BOUND[kind], make_key(said["namespace"], one["name"]), one["uid"]
            return
    node = said.get("node")
    if node is not None:
        yield BOUND["Node"], node["name"], node["uid"]


def _extra(said: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for kind in ("pod", "node"):
        one = said.get(kind)
        if one is not None:
            found |= {f"{EXTRA}{kind}-{field}": (one[field],) for field in ("name", "uid") if field in one}
    return found
