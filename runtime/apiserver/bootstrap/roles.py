"""Reconciliation of stored bootstrap roles and bindings with upstream's policy at each startup.

Rules added by users are kept. Removed rules are restored, unless the object opts out
(rbac.authorization.kubernetes.io/autoupdate: "false").

Source: kubernetes pkg/registry/rbac/rest/storage_rbac.go, component-helpers auth/rbac/reconciliation (v1.36). Differs:
data of releases before 1.14 is not migrated.
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object, annotations_of, decode_object, key_of, labels_of
from kcm.runtime.apiserver.access.role_index import CLUSTER_ROLE_BINDINGS
from kcm.runtime.apiserver.bootstrap.devices import (
    serves_pool_status,
    serves_taint_rules,
    with_pool_status,
    with_taint_rules,
)
from kcm.runtime.apiserver.bootstrap.hollow_nodes import FORMER, hollow_nodes_policy
from kcm.runtime.apiserver.bootstrap.metrics import metrics_policy, serves_metrics
from kcm.runtime.apiserver.bootstrap.policy import AUTO_UPDATE, bootstrap_policy
from kcm.runtime.apiserver.bootstrap.versions import (
    serves_migrations,
    serves_versions,
    with_collector,
    with_migrator,
)
from kcm.runtime.apiserver.bootstrap.workloads import serves_workloads, with_group_claims, with_workloads
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.policy_rules import missing, rules_in
from kcm.runtime.apiserver.verbs.create import create_object

SELECTORS = "clusterRoleSelectors"


def reconcile_roles(cluster: Cluster) -> None:
    metrics = metrics_policy() if serves_metrics(cluster) else []
    policy = bootstrap_policy()
    if serves_workloads(cluster):
        policy = with_group_claims(with_workloads(policy))
    if serves_pool_status(cluster):
        policy = with_pool_status(policy)
    if serves_taint_rules(cluster):
        policy = with_taint_rules(policy)
    if serves_migrations(cluster):
        policy = with_migrator(policy)
    if serves_versions(cluster):
        policy = with_collector(policy)
    for wanted in (*policy, *hollow_nodes_policy(), *metrics):
        definition = cluster.registry.of_kind(wanted["apiVersion"], wanted["kind"])
        if definition is None:
            continue
        key = key_of(wanted)
        record = cluster.state.get(definition.storage, key)
        if record is None:
            create_object(cluster, definition, wanted)
            continue
        stored = decode_object(record.raw)
        if "roleRef" in wanted and stored.get("roleRef") != wanted["roleRef"]:
            if annotations_of(stored).get(AUTO_UPDATE) != "false":
                cluster.state.remove(definition.storage, key, stored)
                create_object(cluster, definition, wanted)
            continue
        settled = reconciled(stored, wanted)
        if settled != stored:
            cluster.state.put(definition.storage, key, settled)
    former = cluster.state.get(CLUSTER_ROLE_BINDINGS, FORMER)
    if former is not None:
        cluster.state.remove(CLUSTER_ROLE_BINDINGS, FORMER, decode_object(former.raw))


def reconciled(stored: Object, wanted: Object) -> Object:
    """Return the stored role or binding with everything that only `wanted` contains added. `stored` is not changed."""
    if annotations_of(stored).get(AUTO_UPDATE) == "false":
        return stored
    labels = {**labels_of(wanted), **labels_of(stored)}
    annotations = {**annotations_of(wanted), **annotations_of(stored)}
    changed = {field: value for field, value in (("labels", labels), ("annotations", annotations)) if value}
    settled = {**stored, "metadata": {**stored["metadata"], **changed}}
    if "roleRef" in wanted:
        _add(settled, "subjects", wanted.get("subjects") or ())
        return settled
    if (stored.get("rules") or []) != (wanted.get("rules") or []):
        _add(settled, "rules", [rule.as_object() for rule in missing(rules_in(stored), rules_in(wanted))])
    if wanted.get("aggregationRule") is None:
        settled.pop("aggregationRule", None)
    elif stored.get("aggregationRule") != wanted["aggregationRule"]:
        aggregation = settled["aggregationRule"] = dict(stored.get("aggregationRule") or {})
        _add(aggregation, SELECTORS, wanted["aggregationRule"][SELECTORS])
    return settled


def _add(obj: Object, field: str, wanted: Any) -> None:
    has = obj.get(field) or []
    lacks = [item for item in wanted if item not in has]
    if lacks:
        obj[field] = [*has, *lacks]
