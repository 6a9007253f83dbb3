"""RBAC: what roles and bindings let a user do.

A decision is kept until a role or binding changes, for users of one name and the same groups; what rules say of objects
by name is kept as one set, so that each further object costs two look-ups.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/rbac.go (v1.36).
"""

from __future__ import annotations

from typing import NamedTuple

from kcm.protocols.bounded_cache import total_size
from kcm.protocols.errors import aggregate
from kcm.runtime.apiserver.access.role_index import Granted, MissingRole, RoleIndex
from kcm.runtime.apiserver.registry.policy_rules import Rule, allows, allows_any_name
from kcm.runtime.apiserver.registry.request_info import RequestInfo
from kcm.runtime.apiserver.registry.users import Decision, User

MOST_USERS, MOST_KEPT = 1024, 65_536  # decisions of all of them
# Characters of a user with their groups, and of a request. Reviews may name anything; what is longer is decided anew.
LONGEST_USER, LONGEST_REQUEST = 4096, 512

_Who = tuple[str, tuple[str, ...]]
_What = tuple[str, ...]


class _Kept(NamedTuple):
    """decision: on objects that no rule names. named: on those that one does."""

    decision: Decision
    named: dict[str, Decision]


class Rbac:
    def __init__(self, index: RoleIndex) -> None:
        self._index = index
        self._kept: dict[_Who, dict[_What, _Kept]] = {}
        self._count = 0

    def authorize(self, user: User, info: RequestInfo) -> Decision:
        if self._index.refresh():
            self._clear()
        who = (user.name, user.groups)
        of_user = self._kept.get(who)
        if of_user is None:
            of_user = {}
            if total_size(*who) <= LONGEST_USER:
                if len(self._kept) >= MOST_USERS:
                    self._clear()
                self._kept[who] = of_user
        what: _What
        if info.is_resource_request:
            what = (info.verb, info.group, info.resource, info.subresource, info.namespace)
        else:
            what = (info.verb, info.path)
        kept = of_user.get(what)
        if kept is None:
            kept = self._decide(user, info)
            if total_size(*what) <= LONGEST_REQUEST:
                if self._count >= MOST_KEPT:
                    self._clear()
                self._count += 1
                of_user[what] = kept
        return kept.named.get(info.name, kept.decision) if kept.named else kept.decision

    def _clear(self) -> None:
        self._kept.clear()
        self._count = 0

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """All that apply, and what is wrong with some bindings."""
        self._index.refresh()
        found = list(self._index.visit(user, namespace))
        rules = [one.rule for one in found if isinstance(one, Granted)]
        return rules, [str(one) for one in found if isinstance(one, MissingRole)]

    def role_rules(self, kind: str, name: str, namespace: str) -> tuple[Rule, ...] | None:
        """See RoleIndex."""
        self._index.refresh()
        return self._index.role_rules(kind, name, namespace)

    def _decide(self, user: User, info: RequestInfo) -> _Kept:
        named: dict[str, Decision] = {}
        wrong: list[MissingRole] = []
        for one in self._index.visit(user, info.namespace):
            if isinstance(one, MissingRole):
                wrong.append(one)
            elif not info.is_resource_request or not one.rule.names:
                if allows(one.rule, info):
                    return _Kept(_allowed(one), {})
            elif allows_any_name(one.rule, info):
                for name in one.rule.names:
                    named.setdefault(name, _allowed(one))
        return _Kept(Decision(allowed=False, reason=f"RBAC: {aggregate(map(str, wrong))}" if wrong else ""), named)


def _allowed(granted: Granted) -> Decision:
    return Decision(allowed=True, reason=f"RBAC: allowed by {granted.source}")
