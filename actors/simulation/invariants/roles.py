"""Invariants of aggregated ClusterRoles, computed independently of the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.simulation.invariants.observer import Fail, Handled, Observation, decoded, only
from kcm.protocols.objects import Object, labels_of, metadata, name_of
from kcm.runtime.apiserver.storage.store import DELETED

AGGREGATOR = "clusterrole-aggregation-controller"  # a client
STORAGE = "clusterroles.rbac.authorization.k8s.io"


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Report whether a label selector matches. Supports only the selectors of the trial: matchLabels, and Exists."""
    pairs, expressions = selector.get("matchLabels") or {}, selector.get("matchExpressions") or ()
    return all(labels.get(key) == value for key, value in pairs.items()) and all(
        expression["operator"] == "Exists" and expression["key"] in labels for expression in expressions
    )


def aggregated(role: Mapping[str, Any], roles: Mapping[str, Mapping[str, Any]]) -> list[Object] | None:
    """Return the rules that an aggregated ClusterRole must have; None if it has no aggregationRule.

    roles: all ClusterRoles by name.
    """
    if role.get("aggregationRule") is None:
        return None
    found: list[Object] = []
    for selector in role["aggregationRule"]["clusterRoleSelectors"]:
        for name in sorted(roles):
            if name != name_of(role) and _selects(selector, labels_of(roles[name])):
                found += [rule for rule in roles[name].get("rules") or () if rule not in found]
    return found


class OnlyAggregatedRulesAreWritten:
    """Invariant: the controller creates and deletes no ClusterRoles, and changes only the rules of aggregated roles.

    The replaced version must still have an aggregationRule. Otherwise the write would overwrite rules that a user has
    just set.
    """

    name = "only rules of aggregated roles are written"
    observes = (only(Handled, AGGREGATOR),)

    def observe(self, observation: Observation, fail: Fail) -> None:
        if not isinstance(observation, Handled) or observation.client != AGGREGATOR:
            return
        for change in observation.changes:
            if change.storage != STORAGE:
                fail(f"{change.type} {change.storage}")
            elif change.type == DELETED or not change.previous:
                fail(f"ClusterRole {name_of(decoded(change.raw))}: {change.type}")
            else:
                self._check(decoded(change.raw), decoded(change.previous), fail)

    def _check(self, after: Object, before: Object, fail: Fail) -> None:
        if before.get("aggregationRule") is None:
            fail(f"rules of {name_of(after)} are written, but it has no aggregationRule")
        then, now = _beside_rules(before), _beside_rules(after)
        if now != then:
            fail(f"{name_of(after)} changed from {then} to {now}")


def _beside_rules(role: Object) -> Object:
    """Return the fields of a ClusterRole that the controller must not change: labels, annotations, aggregationRule."""
    meta = {field: metadata(role).get(field) for field in ("uid", "labels", "annotations")}
    return {"metadata": meta, "aggregationRule": role.get("aggregationRule")}
