"""Rules that are added to bootstrap roles where DeviceTaintRules or ResourcePoolStatusRequests are served.

Upstream adds them with the feature gates DRADeviceTaintRules and DRAResourcePoolStatus.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,controller_policy}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster

EVICTION, POOL_STATUS = "device-taint-eviction-controller", "resourcepoolstatusrequest-controller"
_PREFIX, _GROUP = "system:controller:", "resource.k8s.io"
_READ, _UPDATE = ["get", "list", "watch"], ["patch", "update"]


def serves_taint_rules(cluster: Cluster) -> bool:
    return cluster.registry.find(_GROUP, "v1beta2", "devicetaintrules") is not None


def serves_pool_status(cluster: Cluster) -> bool:
    return cluster.registry.find(_GROUP, "v1alpha3", "resourcepoolstatusrequests") is not None


def _rule(verbs: list[str], resource: str) -> Object:
    return {"verbs": verbs, "apiGroups": [_GROUP], "resources": [resource]}


_TAINT_RULES = {
    f"{_PREFIX}{EVICTION}": [_rule(_UPDATE, "devicetaintrules/status"), _rule(_READ, "devicetaintrules")],
    "system:kube-scheduler": [_rule(_READ, "devicetaintrules")],
}


def with_taint_rules(policy: Iterable[Object]) -> list[Object]:
    """Return roles that also permit access to DeviceTaintRules."""
    return [
        {**role, "rules": [*role["rules"], *_TAINT_RULES[name_of(role)]]}
        if role["kind"] == "ClusterRole" and name_of(role) in _TAINT_RULES
        else role
        for role in policy
    ]


def with_pool_status(policy: Iterable[Object]) -> list[Object]:
    """Return the policy with the role and the binding of the controller for ResourcePoolStatusRequests."""
    policy = list(policy)
    role = next(obj for obj in policy if obj["kind"] == "ClusterRole" and name_of(obj) == f"{_PREFIX}{EVICTION}")
    name = f"{_PREFIX}{POOL_STATUS}"

    def head() -> Object:
        return {"apiVersion": role["apiVersion"], "metadata": {**role["metadata"], "name": name}}

    events = next(rule for rule in role["rules"] if "events" in rule["resources"])
    return [
        *policy,
        {
            **head(),
            "kind": "ClusterRole",
            "rules": [
                _rule(["delete", *_READ], "resourcepoolstatusrequests"),
                _rule(_UPDATE, "resourcepoolstatusrequests/status"),
                _rule(_READ, "resourceslices"),
                _rule(_READ, "resourceclaims"),
                events,
            ],
        },
        {
            **head(),
            "kind": "ClusterRoleBinding",
            "subjects": [{"kind": "ServiceAccount", "name": POOL_STATUS, "namespace": "kube-system"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        },
    ]
