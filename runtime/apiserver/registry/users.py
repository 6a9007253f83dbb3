"""Who asks, and whether they may: users, and the seam through which the server authorizes them.

Source: apiserver pkg/authentication/user/user.go, pkg/authorization/authorizer/interfaces.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class User(NamedTuple):
    """As authentication found them. extra: key → values."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = _NOTHING


ADMIN = User("system:admin", groups=(MASTERS, AUTHENTICATED))  # of requests that come from no client, and the server
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


Authorize = Callable[[Access], Decision]


def allow_all(_access: Access) -> Decision:
    """As --authorization-mode=AlwaysAllow: whoever is authenticated may do everything."""
    return Decision(allowed=True)


def may_use_signer(authorize: Authorize, user: User, verb: str, signer: str) -> bool:
    """Whether a user may approve, sign or attest for a signer, by its name or that of all of its domain.

    Source: kubernetes pkg/certauthorization/certauthorization.go (v1.36).
    """
    names = (signer, f"{signer.partition('/')[0]}/*")
    attributes = {"group": "certificates.k8s.io", "version": "*", "resource": "signers", "verb": verb}
    return any(authorize(Access(user, {**attributes, "name": name})).allowed for name in names)
