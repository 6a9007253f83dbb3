"""RBAC authorization.

Decisions are cached by user name and groups until a role or binding changes. A decision is shared by all namespaces
without a RoleBinding for the user, so that namespaces that are created and deleted add no decisions. Decisions by
resourceNames are cached as one dictionary for each kind of request, so a request for a further object needs only two
lookups.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from types import MappingProxyType
from typing import NamedTuple

from kcm.protocols.bounded_cache import total_size
from kcm.protocols.errors import aggregate
from kcm.runtime.apiserver.access.role_index import Granted, MissingRole, RoleIndex
from kcm.runtime.apiserver.registry.policy_rules import Rule, allows, allows_any_name
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import Decision, User

MOST_USERS, MOST_KEPT = 1024, 16_384  # number of cached users; number of cached decisions of all users
# Maximum number of characters of a cached user with groups, and of a cached request: the texts in access reviews may
# have any length.
LONGEST_USER, LONGEST_REQUEST = 4096, 512

_Who = tuple[str, tuple[str, ...]]
_What = tuple[str, ...]
_NO_NAMES: Mapping[str, Decision] = MappingProxyType({})
_DENIED = Decision(allowed=False)


class _Kept(NamedTuple):
    """Cached decisions for one kind of request.

    decision: for all objects that `named` does not contain
    named: by name of the object, from rules with resourceNames
    """

    decision: Decision
    named: Mapping[str, Decision]


class _OfUser(NamedTuple):
    """Cached decisions for one user.

    bound_in: namespaces with RoleBindings for the user, in one container for each subject that the user matches
    kept: by kind of request; the namespace in it is "" if no RoleBinding applies
    """

    bound_in: tuple[Container[str], ...]
    kept: dict[_What, _Kept]


class Rbac:
    def __init__(self, index: RoleIndex) -> None:
        self._index = index
        self._kept: dict[_Who, _OfUser] = {}
        self._count = 0

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        if self._index.refresh():
            self._clear()
        who = (user.name, user.groups)
        of_user = self._kept.get(who)
        if of_user is None:
            of_user = _OfUser(self._index.bound_in(user), {})
            if total_size(*who) <= LONGEST_USER:
                if len(self._kept) >= MOST_USERS:
                    self._clear()
                self._kept[who] = of_user
        what: _What
        if info.is_resource_request:
            namespace = info.namespace
            for bound_in in of_user.bound_in:
                if namespace in bound_in:
                    break
            else:
                namespace = ""
            what = (info.verb, info.group, info.resource, info.subresource, namespace)
        else:
            what = (info.verb, info.path)
        kept = of_user.kept.get(what)
        if kept is None:
            kept = self._decide(user, info)
            if total_size(*what) <= LONGEST_REQUEST:
                if self._count >= MOST_KEPT:
                    self._clear()
                self._count += 1
                of_user.kept[what] = kept
        return kept.named.get(info.name, kept.decision) if kept.named else kept.decision

    def _clear(self) -> None:
        self._kept.clear()
        self._count = 0

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """Return all rules that apply to a user in a namespace, and an error for each role that does not exist."""
        self._index.refresh()
        found = list(self._index.visit(user, namespace))
        rules = [granted.rule for granted in found if isinstance(granted, Granted)]
        return rules, [str(missing) for missing in found if isinstance(missing, MissingRole)]

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        """Return the rules of a role, as RoleIndex.role_rules does."""
        self._index.refresh()
        return self._index.role_rules(kind, name, namespace)

    def _decide(self, user: User, info: RequestInfo) -> _Kept:
        named: dict[str, Decision] = {}
        wrong: list[MissingRole] = []
        for granted in self._index.visit(user, info.namespace):
            if isinstance(granted, MissingRole):
                wrong.append(granted)
            elif not info.is_resource_request or not granted.rule.names:
                if allows(granted.rule, info):
                    return _Kept(_allowed(granted), _NO_NAMES)
            elif allows_any_name(granted.rule, info):
                for name in granted.rule.names:
                    named.setdefault(name, _allowed(granted))
        denied = Decision(allowed=False, reason=f"RBAC: {aggregate(map(str, wrong))}") if wrong else _DENIED
        return _Kept(denied, named or _NO_NAMES)


def _allowed(granted: Granted) -> Decision:
    return Decision(allowed=True, reason=f"RBAC: allowed by {granted.source}")
