"""clusterrole-aggregation-controller: gives a ClusterRole with an aggregationRule the rules of those that it selects.

In: ClusterRoles. Out: their rules, by server-side apply. Key: a ClusterRole's name.

Source: kubernetes v1.36 pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go. Differences:
- The version that was looked at is a precondition: a ClusterRole that was deleted is not made again by the apply, and
  one whose aggregationRule was just taken away keeps the rules that its user wrote.
- Where nothing is selected, no rules are written, and not nothing: upstream's apply leaves what another wrote there.
- While a ClusterRole cannot be read, no rules are taken from others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kcm.actors.reconciliation import Change, Reconciliation, Watch, apply, must
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

Rule = tuple[tuple[str, ...], ...]  # the values of each of _FIELDS: a list that is empty is as one that is not there


def rules_of(role: Mapping[str, Any]) -> list[Rule]:
    return [tuple(tuple(rule.get(field) or ()) for field in _FIELDS) for rule in role.get("rules") or ()]


def aggregated_rules(role: Mapping[str, Any], roles: Iterable[Mapping[str, Any]]) -> list[Rule]:
    """What its selectors select, one selector after the other, by name, each rule once; not its own.

    roles: all ClusterRoles. Raises ValueError on a selector that is none.
    """
    others = sorted((one for one in roles if name_of(one) != name_of(role)), key=name_of)
    found: dict[Rule, None] = {}
    for each in (role.get("aggregationRule") or {}).get("clusterRoleSelectors") or ():
        selector = label_selector_of(each)
        for one in others:
            if selector.matches(labels_of(one)):
                found.update(dict.fromkeys(rules_of(one)))
    return list(found)


def as_rules(rules: Sequence[Rule]) -> list[Object]:
    return [{field: list(values) for field, values in zip(_FIELDS, rule, strict=True) if values} for rule in rules]


class ClusterRoleAggregation:
    def __init__(self, *, tables: Tables, log: FilteringBoundLogger) -> None:
        self._roles, self._log = tables[CLUSTER_ROLES], log

    def reconcile(self, key: Key) -> Reconciliation:
        self._roles.require(key)
        role = self._roles.get(key)
        if role is None or role.get("aggregationRule") is None:
            return None
        now, wanted = rules_of(role), aggregated_rules(role, self._roles.objects())
        if wanted == now:
            return None
        for doubt in self._roles.unreadable():
            if not set(now) <= set(wanted):
                raise UnreadableError(CLUSTER_ROLES, doubt)
        meta = {"name": key, "uid": uid_of(role), "resourceVersion": resource_version_of(role)}
        applying = apply(CLUSTER_ROLES, {"metadata": meta, "rules": as_rules(wanted)}, force=True, manager=MANAGER)
        outcome = yield from must(applying)
        assert isinstance(outcome, Done)
        self._log.info("rules aggregated", v=2, key=key, rules=len(wanted))
        return None


def is_aggregated(role: Object) -> Iterable[str]:
    """The index AGGREGATED."""
    return () if role.get("aggregationRule") is None else (YES,)


def all_aggregated(_change: Change, tables: Tables) -> Iterable[Key]:
    """Whose selectors a ClusterRole meets, or met before, is not looked up: there are few, and most looks are short."""
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
