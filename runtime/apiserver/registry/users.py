"""Who asks, and whether they may: users, and the seam through which the server authorizes them.

Source: apiserver pkg/authentication/user/user.go, pkg/authorization/authorizer/interfaces.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kcm.runtime.apiserver.registry.policy_rules import FULL_AUTHORITY, Rule

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
MASTERS, NODES = "system:masters", "system:nodes"
ACCOUNTS = "system:serviceaccount:"  # begins the names of users that are accounts
NODE = "system:node:"  # begins the names of users that are nodes
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"  # in a user's extra: token or certificate
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class User(NamedTuple):
    """As authentication found them. extra: key → values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = _NOTHING


ADMIN = User("system:admin", groups=(MASTERS, AUTHENTICATED))  # of requests that come from no client, and the server
ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
NOBODY = User("")


class Access(NamedTuple):
    """What a user asks to do. attributes: the fields of ResourceAttributes or, without a resource, of
    NonResourceAttributes, as a SubjectAccessReview has them.
    """

    user: User
    attributes: Mapping[str, Any]


class Decision(NamedTuple):
    """denied: no other authorizer could allow it. reason: for people."""

    allowed: bool
    denied: bool = False
    reason: str = ""


ALLOWED = Decision(allowed=True)
Authorize = Callable[[Access], Decision]


class Authenticated(NamedTuple):
    """Whom a token is of, and for which of the audiences that were asked for."""

    user: User
    audiences: tuple[str, ...]


class Unauthenticated(NamedTuple):
    """A token that nobody knows, or is good no more, or for others. why: "" where nobody knows it."""

    why: str = ""


Authenticate = Callable[[str, Sequence[str]], Authenticated | Unauthenticated]
"""By a token and the audiences that ask, () for the server itself."""


class ResolvedRules(NamedTuple):
    """What a user may do, as far as rules say it. incomplete: they do not say all. error: why, or what is wrong."""

    rules: Sequence[Rule]
    incomplete: bool = False
    error: str = ""


class RuleResolver(Protocol):
    """What roles and bindings give."""

    def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """All rules that apply to a user, in a namespace or ("") everywhere."""

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        """Of the Role or ClusterRole that a binding of this namespace ("" of the cluster) refers to; None if it is not
        there."""


class EverythingIsAllowed:
    """Implements RuleResolver where nobody is refused anything."""

    def rules_for(self, _user: User, _namespace: str) -> ResolvedRules:
        return ResolvedRules(FULL_AUTHORITY)

    def role_rules(self, _kind: str, _name: str, _namespace: str) -> Sequence[Rule] | None:
        return ()


EVERYTHING = EverythingIsAllowed()


class AccessControl(NamedTuple):
    """Who somebody is, and what they may do. name: of the object in the request's path."""

    authenticate: Authenticate
    authorize: Authorize
    resolver: RuleResolver = EVERYTHING
    name: str = ""


def known(user: User) -> User:
    """Add the group of all authenticated users, as upstream: not to a user who is called anonymous."""
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return user._replace(groups=(*user.groups, AUTHENTICATED))


def allow_all(_access: Access) -> Decision:
    """As --authorization-mode=AlwaysAllow: whoever is authenticated may do everything."""
    return ALLOWED


def known_to_nobody(_token: str, _audiences: Sequence[str]) -> Unauthenticated:
    return Unauthenticated()


def may_use_signer(authorize: Authorize, user: User, verb: str, signer: str) -> bool:
    """Whether a user may approve, sign or attest for a signer, by its name or that of all of its domain.

    Source: kubernetes pkg/certauthorization/certauthorization.go (v1.36).
    """
    names = (signer, f"{signer.partition('/')[0]}/*")
    attributes = {"group": "certificates.k8s.io", "version": "*", "resource": "signers", "verb": verb}
    return any(authorize(Access(user, {**attributes, "name": name})).allowed for name in names)
