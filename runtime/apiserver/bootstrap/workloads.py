"""Rules that are added to bootstrap roles with the feature gates GenericWorkload and WorkloadWithJob.

They permit access to Workloads and PodGroups. The rules of DRAWorkloadResourceClaims are those for claims of PodGroups.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,controller_policy}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster

API_VERSION = "rbac.authorization.k8s.io/v1"
PROTECTION = "podgroup-protection-controller"
_READ, _WRITE = ["get", "list", "watch"], ["create", "delete", "deletecollection", "patch", "update"]


def _rule(verbs: list[str], *resources: str, group: str = "scheduling.k8s.io") -> Object:
    return {"verbs": verbs, "apiGroups": [group], "resources": list(resources)}


_RULES = {
    "system:aggregate-to-view": [_rule(_READ, "workloads", "podgroups", "podgroups/status")],
    "system:aggregate-to-edit": [_rule(_WRITE, "workloads", "podgroups")],
    "system:kube-scheduler": [_rule(_READ, "podgroups"), _rule(["patch", "update"], "podgroups/status")],
    "system:controller:job-controller": [_rule(["create", *_READ], "workloads", "podgroups")],
}


_OF_CLAIMS = [_rule(_READ, "podgroups"), _rule(["patch", "update"], "podgroups/status")]


def serves_workloads(cluster: Cluster) -> bool:
    return cluster.registry.of_kind("scheduling.k8s.io/v1alpha2", "PodGroup") is not None


def with_group_claims(policy: Iterable[Object]) -> list[Object]:
    """Return new roles that permit resourceclaim-controller to generate claims of PodGroups."""
    name = "system:controller:resource-claim-controller"
    return [
        {**role, "rules": [*role["rules"], *_OF_CLAIMS]}
        if role["kind"] == "ClusterRole" and name_of(role) == name
        else role
        for role in policy
    ]


def with_workloads(policy: Iterable[Object]) -> list[Object]:
    """Return new roles and bindings that also permit access to Workloads and PodGroups."""
    found = [
        {**role, "rules": [*role["rules"], *_RULES[name_of(role)]]}
        if role["kind"] == "ClusterRole" and name_of(role) in _RULES
        else role
        for role in policy
    ]
    name = f"system:controller:{PROTECTION}"
    meta = next(role["metadata"] for role in found if name_of(role) == "system:controller:job-controller")
    rules = [_rule([*_READ, "update"], "podgroups"), _rule(_READ, "pods", group="")]
    account = {"kind": "ServiceAccount", "name": PROTECTION, "namespace": "kube-system"}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    return [
        *found,
        {"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": {**meta, "name": name}, "rules": rules},
        {
            "apiVersion": API_VERSION,
            "kind": "ClusterRoleBinding",
            "metadata": {**meta, "name": name},
            "subjects": [account],
            "roleRef": reference,
        },
    ]
