"""Bootstrap roles of the controllers of stored versions, where their kinds are served.

Upstream adds them with the feature gates StorageVersionMigrator, and StorageVersionAPI and APIServerIdentity.

Source: kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/controller_policy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.objects import Object, name_of
from kcm.runtime.apiserver.core.cluster import Cluster

MIGRATOR, COLLECTOR = "storage-version-migrator-controller", "storage-version-garbage-collector"
_PREFIX = "system:controller:"
_MIGRATIONS, _VERSIONS, _DEFINITIONS = "storagemigration.k8s.io", "internal.apiserver.k8s.io", "apiextensions.k8s.io"


def serves_migrations(cluster: Cluster) -> bool:
    return cluster.registry.find(_MIGRATIONS, "v1beta1", "storageversionmigrations") is not None


def serves_versions(cluster: Cluster) -> bool:
    return cluster.registry.find(_VERSIONS, "v1alpha1", "storageversions") is not None


def _rule(verbs: str, group: str, resource: str) -> Object:
    return {"verbs": verbs.split(), "apiGroups": [group], "resources": [resource]}


def with_migrator(policy: Iterable[Object]) -> list[Object]:
    """Return the policy with the role and the binding of the storage version migrator."""
    return _with_role(
        policy,
        MIGRATOR,
        [
            _rule("create list patch", "*", "*"),
            _rule("get", _DEFINITIONS, "customresourcedefinitions"),
            _rule("patch", _DEFINITIONS, "customresourcedefinitions/status"),
            _rule("update", _MIGRATIONS, "storageversionmigrations/status"),
        ],
    )


def with_collector(policy: Iterable[Object]) -> list[Object]:
    """Return the policy with the role and the binding of the collector of StorageVersions."""
    return _with_role(
        policy,
        COLLECTOR,
        [
            _rule("get list watch", "coordination.k8s.io", "leases"),
            _rule("delete get list patch update watch", _VERSIONS, "storageversions"),
            _rule("get patch update", _VERSIONS, "storageversions/status"),
        ],
    )


def _with_role(policy: Iterable[Object], client: str, rules: list[Object]) -> list[Object]:
    policy = list(policy)
    pattern = next(obj for obj in policy if name_of(obj).startswith(_PREFIX) and obj["kind"] == "ClusterRole")
    name = f"{_PREFIX}{client}"

    def head() -> Object:
        return {"apiVersion": pattern["apiVersion"], "metadata": {**pattern["metadata"], "name": name}}

    return [
        *policy,
        {**head(), "kind": "ClusterRole", "rules": rules},
        {
            **head(),
            "kind": "ClusterRoleBinding",
            "subjects": [{"kind": "ServiceAccount", "name": client, "namespace": "kube-system"}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        },
    ]
