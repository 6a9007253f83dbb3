"""The authorizer of the server: system:masters, then RBAC and Node authorization.

Source: kubernetes pkg/kubeapiserver/authorizer/reload.go, apiserver pkg/authorization/union/union.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from kcm.protocols.errors import aggregate
from kcm.runtime.apiserver.access.node import NodeAuthorizer, node_of
from kcm.runtime.apiserver.access.node_graph import FOLLOWED, NodeGraph
from kcm.runtime.apiserver.access.rbac import Rbac
from kcm.runtime.apiserver.access.role_index import WATCHED, RoleIndex
from kcm.runtime.apiserver.registry.policy_rules import Rule
from kcm.runtime.apiserver.registry.request_info import RequestInfo, review_info
from kcm.runtime.apiserver.registry.users import ALLOWED, MASTERS, NODE, Access, Decision, ResolvedRules, User
from kcm.runtime.apiserver.storage.state import State
from kcm.runtime.apiserver.storage.store import StoreChange


class Authorizer:
    """Authorizes requests. Also implements RuleResolver, and Reaction to follow the stored roles, bindings and pods."""

    def __init__(self, state: State, *, node_rules: Sequence[Rule] = ()) -> None:
        """Create an authorizer.

        node_rules: rules that apply to every node.
        """
        self._index, self._graph = RoleIndex(state), NodeGraph(state)
        self._rbac, self._nodes = Rbac(self._index), NodeAuthorizer(self._graph, node_rules)

    def decide(self, user: User, info: RequestInfo) -> Decision:
        if MASTERS in user.groups:
            return ALLOWED
        decision = self._rbac.authorize(user, info)
        if decision.allowed or not user.name.startswith(NODE):
            return decision
        of_node = self._nodes.authorize(user, info)
        reasons = [reason for reason in (of_node.reason, decision.reason) if reason]
        return of_node if of_node.allowed else Decision(allowed=False, reason="\n".join(reasons))

    def authorize(self, access: Access) -> Decision:
        """Decide an access review, as registry.users.Authorize declares."""
        return self.decide(access.user, review_info(access.attributes))

    def rules_for(self, user: User, namespace: str) -> ResolvedRules:
        rules, wrong = self._rbac.rules_for(user, namespace)
        is_node = node_of(user) is not None
        if is_node:
            wrong = ["node authorizer does not support user rule resolution", *wrong]
        error = aggregate(wrong)
        return ResolvedRules(rules, incomplete=is_node, error=error)

    def role_rules(self, kind: str, name: str, namespace: str) -> Sequence[Rule] | None:
        return self._rbac.role_rules(kind, name, namespace)

    def react(self, change: StoreChange) -> None:
        if change.storage in WATCHED:
            self._index.note(change.storage, change.key)
        elif change.storage in FOLLOWED:
            self._graph.note(change.storage, change.key)

    def undo(self, change: StoreChange) -> None:
        self.react(change)
