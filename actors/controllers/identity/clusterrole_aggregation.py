"""ClusterRole aggregation controller: sets the rules of ClusterRoles that have an aggregationRule.

The rules of such a ClusterRole are copied from the ClusterRoles that its aggregationRule selects.

Input: ClusterRoles. Output: their rules, by server-side apply. Key: the name of a ClusterRole.

Source: kubernetes v1.36 pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go. Differences:
- The resourceVersion is a precondition of the apply: it does not create a ClusterRole that was just deleted, and does
  not overwrite rules that a user wrote after removing the aggregationRule.
- If the aggregationRule selects no ClusterRole, an empty list of rules is applied. Upstream omits the field, so that
  rules written by other clients remain.
- While a ClusterRole is unreadable, rules are added but not removed, because the unreadable ClusterRole may contain a
  rule that would be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.reconciliation import Because, Change, Reconciliation, Watch, apply, must
from kcm.actors.reconciliation.specs import ControllerContext, ControllerSpec, Index, Queue
from kcm.protocols.messages.outcomes import Done
from kcm.protocols.objects import Key, Object, labels_of, name_of, resource_version_of, uid_of
from kcm.protocols.resources import CLUSTER_ROLES
from kcm.protocols.selectors import label_selector_of
from kcm.runtime.tables.lister import UnreadableError
from kcm.runtime.tables.tables import Tables

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MANAGER = "clusterrole-aggregation-controller"
AGGREGATED = "aggregated"
YES = "true"
_FIELDS = ("verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs")

Rule = tuple[tuple[str, ...], ...]  # values of each of _FIELDS; a missing list is equal to an empty one


def rules_of(role: Mapping[str, Any]) -> list[Rule]:
    return [tuple(tuple(rule.get(field) or ()) for field in _FIELDS) for rule in role.get("rules") or ()]


def aggregated_rules(role: Mapping[str, Any], roles: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """Return the distinct rules of all ClusterRoles that a role's aggregationRule selects, except the role itself.

    They are ordered by selector, then by the name of the selected ClusterRole.

    roles: all ClusterRoles.
    Raises ValueError for a malformed selector.
    """
    others = sorted((other for other in roles if name_of(other) != name_of(role)), key=name_of)
    found: dict[Rule, None] = {}
    for label_selector in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        selector = label_selector_of(label_selector)
        for other in others:
            if selector.matches(labels_of(other)):
                found.update(dict.fromkeys(rules_of(other)))
    return list(found)


def rule_objects(rules: Sequence[Rule]) -> list[Object]:
    return [{field: list(values) for field, values in zip(_FIELDS, rule, strict=True) if values} for rule in rules]


class ClusterRoleAggregation:
    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._roles, self._log = tables[CLUSTER_ROLES], log

    def reconcile(self, key: Key) -> Reconciliation:
        self._roles.require(key)
        role = self._roles.get(key)
        if role is None or role.get("aggregationRule") is None:
            return None
        current, wanted = rules_of(role), aggregated_rules(role, self._roles.objects())
        if wanted == current:
            return None
        for unreadable in self._roles.unreadable():
            if not set(current) <= set(wanted):
                yield Because(f"keeps its rules, as ClusterRole {unreadable.key} is unreadable and may contain them")
                raise UnreadableError(CLUSTER_ROLES, unreadable)
        yield Because(f"its {len(current)} rules differ from the {len(wanted)} of the selected ClusterRoles: sets them")
        meta = {"name": key, "uid": uid_of(role), "resourceVersion": resource_version_of(role)}
        applying = apply(CLUSTER_ROLES, {"metadata": meta, "rules": rule_objects(wanted)}, force=True, manager=MANAGER)
        outcome = yield from must(applying)
        assert isinstance(outcome, Done)
        self._log.info("rules aggregated", v=2, key=key, rules=len(wanted))
        return None


def is_aggregated(role: Object) -> Iterable[str]:
    """Return the values of a ClusterRole in the index AGGREGATED: YES if it has an aggregationRule, otherwise none."""
    return () if role.get("aggregationRule") is None else (YES,)


def all_aggregated(_change: Change, tables: Tables) -> Iterable[Key]:
    """Return the keys of all ClusterRoles with an aggregationRule: each change of any ClusterRole enqueues them."""
    # Selectors are not evaluated here: aggregated ClusterRoles are few, and a sync without a difference is cheap.
    return [entry.key for entry in tables[CLUSTER_ROLES].indexed_entries(AGGREGATED, YES)]


def build(context: ControllerContext) -> ClusterRoleAggregation:
    return ClusterRoleAggregation(tables=context.tables, log=context.log)


SPEC = ControllerSpec(
    name="clusterrole-aggregation-controller",
    aliases=("clusterrole-aggregation",),
    never_blocks=True,
    client="clusterrole-aggregation-controller",
    build=build,
    indexes=(Index(CLUSTER_ROLES, AGGREGATED, is_aggregated),),
    queues=(
        Queue("ClusterRoleAggregator", watches=(Watch(CLUSTER_ROLES, to=all_aggregated),), concurrency=5, terminal=()),
    ),
)
