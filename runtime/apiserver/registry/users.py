"""Users, and the interfaces with which the server authenticates and authorizes them.

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
CREDENTIAL_ID = (
    "authentication.kubernetes.io/credential-id"  # key in a user's extra that identifies the token or certificate
)
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class User(NamedTuple):
    """Authenticated user of a request (upstream's user.Info)."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = _NOTHING


ADMIN = User("system:admin", groups=(MASTERS, AUTHENTICATED))  # user for requests of the server itself
ANONYMOUS = User("system:anonymous", groups=(UNAUTHENTICATED,))
NOBODY = User("")


class Access(NamedTuple):
    """Access that is to be authorized.

    attributes: ResourceAttributes or NonResourceAttributes, as in a SubjectAccessReview
    """

    user: User
    attributes: Mapping[str, Any]


class Decision(NamedTuple):
    """Result of authorization.

    denied: whether the refusal is final, so that no other authorizer can allow the request
    """

    allowed: bool
    denied: bool = False
    reason: str = ""


ALLOWED = Decision(allowed=True)
Authorize = Callable[[Access], Decision]


class Authenticated(NamedTuple):
    """User of a valid token, and those of the requested audiences for which the token is valid."""

    user: User
    audiences: tuple[str, ...]


class Unauthenticated(NamedTuple):
    """The token is unknown, expired, revoked, or intended for other audiences.

    why: "" for an unknown token
    """

    why: str = ""


Authenticate = Callable[[str, Sequence[str]], Authenticated | Unauthenticated]
"""Authenticates a token for audiences; () for the server itself."""


class ResolvedRules(NamedTuple):
    """Rules that apply to a user.

    incomplete: whether an authorizer cannot list its rules
    error: errors of the authorizers; "" without errors
    """

    rules: Sequence[Rule]
    incomplete: bool = False
    error: str = ""


class RuleResolver(Protocol):
    """Interface to find the rules of users and roles."""

    def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        """Return all rules that apply to a user in a namespace; "" for the rules that apply in the whole cluster."""

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        """Return the rules of a role, or None if it does not exist.

        kind: "Role" or "ClusterRole"
        namespace: namespace of the binding that refers to the role
        """


class EverythingIsAllowed:
    """Rule resolver of --authorization-mode=AlwaysAllow."""

    def rules_for(self, _user: User, _namespace: str) -> ResolvedRules:
        return ResolvedRules(FULL_AUTHORITY)

    def role_rules(self, _kind: str, _name: str, _namespace: str) -> Sequence[Rule] | None:
        return ()


EVERYTHING = EverythingIsAllowed()


class AccessControl(NamedTuple):
    """Authentication and authorization, for the hooks of a kind.

    name: name of the object in the path of the request
    """

    authenticate: Authenticate
    authorize: Authorize
    resolver: RuleResolver = EVERYTHING
    name: str = ""


def known(user: User) -> User:
    """Add the group system:authenticated to a user, as upstream; the anonymous user is not changed."""
    if user.name == ANONYMOUS.name or AUTHENTICATED in user.groups or UNAUTHENTICATED in user.groups:
        return user
    return user._replace(groups=(*user.groups, AUTHENTICATED))


def allow_all(_access: Access) -> Decision:
    """Allow every request, as --authorization-mode=AlwaysAllow does."""
    return ALLOWED


def known_to_nobody(_token: str, _audiences: Sequence[str]) -> Unauthenticated:
    return Unauthenticated()


def may_use_signer(authorize: Authorize, user: User, verb: str, signer: str) -> bool:
    """Report whether a user may approve, sign or attest for a signer.

    The permission may be for the signer's name, or for all signers of its domain ("example.com/*").

    Source: kubernetes pkg/certauthorization/certauthorization.go (v1.36).
    """
    names = (signer, f"{signer.partition('/')[0]}/*")
    attributes = {"group": "certificates.k8s.io", "version": "*", "resource": "signers", "verb": verb}
    return any(authorize(Access(user, {**attributes, "name": name})).allowed for name in names)


def user_info(user: User) -> Object:
    """Return the UserInfo object of a user, without empty fields.

    Source: kubernetes staging/src/k8s.io/api/authentication/v1/types.go (v1.36).
    """
    extra = {key: list(values) for key, values in user.extra.items()}
    fields = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {field: value for field, value in fields.items() if value}
