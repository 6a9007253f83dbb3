"""Users, and the interfaces through which the server authenticates and authorizes them.

Source: apiserver pkg/authentication/user/user.go, pkg/authorization/authorizer/interfaces.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.policy_rules import FULL_AUTHORITY, Rule

AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
MASTERS, NODES = "system:masters", "system:nodes"
ACCOUNTS = "system:serviceaccount:"  # prefix of the user names of service accounts
NODE = "system:node:"  # prefix of the user names of nodes
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"  # in a user's extra: token or certificate
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class User(NamedTuple):
    """User of a request, as authentication found them (upstream's user.Info)."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = _NOTHING


ADMIN = User("system:admin", groups=(MASTERS, AUTHENTICATED))  # the server itself
ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
NOBODY = User("")


class Access(NamedTuple):
    """Something that a user may or may not do.

    attributes: ResourceAttributes or NonResourceAttributes, as in a SubjectAccessReview.
    """

    user: User
    attributes: Mapping[str, Any]


class Decision(NamedTuple):
    """Result of authorization. With `denied`, no other authorizer can allow it."""

    allowed: bool
    denied: bool = False
    reason: str = ""


ALLOWED = Decision(allowed=True)
Authorize = Callable[[Access], Decision]


class Authenticated(NamedTuple):
    """User of a valid token, and the requested audiences that it is valid for."""

    user: User
    audiences: tuple[str, ...]


class Unauthenticated(NamedTuple):
    """Unknown, expired or revoked token, or one for other audiences. `why` is "" for an unknown token."""

    why: str = ""


Authenticate = Callable[[str, Sequence[str]], Authenticated | Unauthenticated]
"""Authenticates a token for some audiences, () for the server itself."""


class ResolvedRules(NamedTuple):
    """Rules that apply to a user; incomplete if an authorizer cannot list its rules."""

    rules: Sequence[Rule]
    incomplete: bool = False
    error: str = ""


class RuleResolver(Protocol):
    """Finds the rules of users and roles."""

    def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """Return all rules that apply to a user in a namespace, or with "" in the cluster."""

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        """Return the rules of the role that a binding of this namespace refers to, None if it does not exist."""


class EverythingIsAllowed:
    """Rule resolver of --authorization-mode=AlwaysAllow."""

    def rules_for(self, _user: User, _namespace: str) -> ResolvedRules:
        return ResolvedRules(FULL_AUTHORITY)

    def role_rules(self, _kind: str, _name: str, _namespace: str) -> Sequence[Rule] | None:
        return ()


EVERYTHING = EverythingIsAllowed()


class AccessControl(NamedTuple):
    """Authentication and authorization for the hooks of a kind. `name` is that of the object in the path."""

    authenticate: Authenticate
    authorize: Authorize
    resolver: RuleResolver = EVERYTHING
    name: str = ""


def known(user: User) -> User:
    """Add the group system:authenticated, except to the anonymous user, as upstream."""
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return user._replace(groups=(*user.groups, AUTHENTICATED))


def allow_all(_access: Access) -> Decision:
    """Authorize everything, as --authorization-mode=AlwaysAllow."""
    return ALLOWED


def known_to_nobody(_token: str, _audiences: Sequence[str]) -> Unauthenticated:
    return Unauthenticated()


def may_use_signer(authorize: Authorize, user: User, verb: str, signer: str) -> bool:
    """Report whether a user may approve, sign or attest for a signer, by its name or by its whole domain.

    Source: kubernetes pkg/certauthorization/certauthorization.go (v1.36).
    """
    names = (signer, f"{signer.partition('/')[0]}/*")
    attributes = {"group": "certificates.k8s.io", "version": "*", "resource": "signers", "verb": verb}
    return any(authorize(Access(user, {**attributes, "name": name})).allowed for name in names)


def user_info(user: User) -> Object:
    """Return a user's UserInfo without empty fields.

    Source: kubernetes staging/src/k8s.io/api/authentication/v1/types.go (v1.36).
    """
    extra = {key: list(values) for key, values in user.extra.items()}
    fields = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {field: value for field, value in fields.items() if value}
