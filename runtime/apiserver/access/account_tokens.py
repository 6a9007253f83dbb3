"""Issues and verifies tokens of service accounts.

A token is valid until it expires, or until its account or the object that it is bound to is deleted.

Source: kubernetes pkg/serviceaccount/claims.go, staging/src/k8s.io/apiserver/pkg/authentication/serviceaccount/util.go
(v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kcm.protocols.bounded_cache import bounded_cache
from kcm.protocols.objects import Key, Object, make_key, name_of, namespace_of, split_key, uid_of
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.registry.users import (
    ACCOUNTS,
    AUTHENTICATED,
    CREDENTIAL_ID,
    Authenticated,
    Unauthenticated,
    User,
)
from kcm.runtime.apiserver.storage.state import State, to_read
from kcm.runtime.signing.tokens import SigningKey, VerifyingKey

ISSUER = "https://kubernetes.default.svc.cluster.local"
CLAIM = "kubernetes.io"
EXTRA = "authentication.kubernetes.io/"
BOUND = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}  # kinds that a token may be bound to, and their storage
ACCOUNT = "serviceaccounts"
MOST_KNOWN, LONGEST_KNOWN = 1024, 4096  # number of cached tokens; characters of a cached token
LEEWAY = 60.0  # seconds that clocks may differ
_NO_METADATA: Mapping[str, Any] = MappingProxyType({})
_ACCOUNT_KIND, _INVALIDATED = "service account", "service account token has been invalidated"


class Bound(NamedTuple):
    """Object that a token is bound to, or that its claims only mention (the node of a pod).

    uid: "" if the object does not exist
    """

    kind: str
    name: str
    uid: str


class _Claim(NamedTuple):
    """Reference in a token to an object that must exist for the token to be valid.

    kind: "service account", "pod", "secret" or "node"
    """

    kind: str
    storage: str
    key: Key
    uid: str


class _Issued(NamedTuple):
    """Parsed claims of a token.

    begins, ends: Unix seconds
    rests_on: the service account, then the object that the token is bound to
    """

    user: User
    audiences: tuple[str, ...]
    begins: float
    ends: float
    rests_on: tuple[_Claim, ...]


class AccountTokens:
    def __init__(
        self,
        key: SigningKey,
        *,
        issuers: Sequence[str] = (ISSUER,),
        audiences: Sequence[str] = (),
        others: Sequence[VerifyingKey] = (),
    ) -> None:
        """Create the issuer and verifier.

        key: signs new tokens
        issuers: accepted issuers; the first one issues new tokens
        audiences: audiences of the server itself, which tokens have by default; () for the issuers
        others: further keys whose tokens are accepted
        """
        self._key, self._issuers = key, tuple(issuers)
        self.audiences = tuple(audiences) or self._issuers
        self._keys = {verifying.key_id: verifying for verifying in (key, *others)}
        self._read = bounded_cache(MOST_KNOWN, longest=LONGEST_KNOWN)(
            self._read_claims
        )  # each signature is verified once

    @property
    def issuer(self) -> str:
        """Issuer of new tokens."""
        return self._issuers[0]

    def public_keys(self) -> list[dict[str, str]]:
        """Return the public keys that verify tokens as JSON Web Keys (RFC 7517)."""
        return [key.public_jwk() for key in self._keys.values()]

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
        """Return a signed token for a service account.

        bound: the object that the token is bound to, and others that its claims mention
        now: Unix seconds
        seconds: how long the token is valid
        number: returns a new id for the token (claim jti)
        """
        claim: dict[str, Any] = {
            "namespace": namespace_of(account),
            "serviceaccount": {"name": name_of(account), "uid": uid_of(account)},
        }
        claim |= {obj.kind.lower(): {"name": obj.name, **({"uid": obj.uid} if obj.uid else {})} for obj in bound}
        begins = int(now)
        return self._key.sign(
            {
                "aud": audiences,
                "exp": begins + seconds,
                "iat": begins,
                "iss": self.issuer,
                "jti": number(),
                CLAIM: claim,
                "nbf": begins,
                "sub": f"{ACCOUNTS}{namespace_of(account)}:{name_of(account)}",
            }
        )

    def authenticate(
        self, token: str, audiences: Sequence[str], *, state: State, now: float
    ) -> Authenticated | Unauthenticated:
        """Verify a token.

        audiences: the token must be intended for at least one of them
        now: Unix seconds
        """
        issued = self._read(token)
        if issued is None:
            return Unauthenticated()
        if audiences == issued.audiences:  # almost always: both are the server's own audience
            good_for = issued.audiences
        else:
            good_for = tuple([audience for audience in audiences if audience in issued.audiences])
        if not good_for:
            given, wanted = (" ".join(map(json.dumps, each)) for each in (issued.audiences, audiences))
            return Unauthenticated(f"token audiences [{given}] is invalid for the target audiences [{wanted}]")
        if now - LEEWAY > issued.ends:
            return Unauthenticated("service account token has expired")
        if now < issued.begins - LEEWAY:
            return Unauthenticated("service account token is not valid yet")
        for claim in issued.rests_on:
            record = state.get(claim.storage, claim.key)
            meta = _NO_METADATA if record is None else to_read(record.raw)["metadata"]
            if meta.get("uid") != claim.uid or "deletionTimestamp" in meta:
                problem = _problem(claim, meta, now)
                if problem:
                    return Unauthenticated(problem)
        return Authenticated(issued.user, good_for)

    def _read_claims(self, token: str) -> _Issued | None:
        found = (key.claims_of(token) for key in self._keys.values())
        claims = next((claims for claims in found if claims is not None), None)
        if claims is None or claims.get("iss") not in self._issuers:
            return None
        own_claim = claims[CLAIM]
        namespace, account = own_claim["namespace"], own_claim["serviceaccount"]
        user = User(
            claims["sub"],
            uid=account["uid"],
            groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED),
            extra={CREDENTIAL_ID: (f"JTI={claims['jti']}",), **_extra(own_claim)},
        )
        own = _Claim(_ACCOUNT_KIND, ACCOUNT, make_key(namespace, account["name"]), account["uid"])
        return _Issued(user, tuple(claims["aud"]), claims["nbf"], claims["exp"], (own, *_bindings(own_claim)))


def _bindings(claim: Mapping[str, Any]) -> Iterator[_Claim]:
    """Yield the object that a token is bound to.

    The claim of a node counts only without a claim of a Pod or Secret.
    """
    for kind in ("Pod", "Secret"):
        bound = claim.get(kind.lower())
        if bound is not None:
            yield _Claim(kind.lower(), BOUND[kind], make_key(claim["namespace"], bound["name"]), bound["uid"])
            return
    node = claim.get("node")
    if node is not None:
        yield _Claim("node", BOUND["Node"], node["name"], node["uid"])


def _problem(claim: _Claim, meta: Mapping[str, Any], now: float) -> str:
    """Return why the referenced object makes a token invalid; "" if it does not.

    A token stays valid for LEEWAY seconds after the object's deletionTimestamp, while finalizers keep the object.

    meta: metadata of the object; empty if the object does not exist
    """
    is_account, (namespace, name) = claim.kind == _ACCOUNT_KIND, split_key(claim.key)
    if not meta:
        return f'serviceaccounts "{name}" not found' if is_account else _INVALIDATED
    uid = meta.get("uid")
    if uid != claim.uid:
        what = "claim" if is_account else f"service account {claim.kind} ref claim"
        return f"{claim.kind} UID ({uid}) does not match {what} ({claim.uid})"
    deleted = meta.get("deletionTimestamp")
    if deleted is not None and parse_time(deleted) < now - LEEWAY:
        return f"service account {namespace}/{name} has been deleted" if is_account else _INVALIDATED
    return ""


def _extra(claim: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for kind in ("pod", "node"):
        bound = claim.get(kind)
        if bound is not None:
            found |= {f"{EXTRA}{kind}-{field}": (bound[field],) for field in ("name", "uid") if field in bound}
    return found
