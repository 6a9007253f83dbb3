"""RBAC policy of the user that acts for all hollow nodes.

The user may list and watch the pods and nodes of all of them, and what their scheduler considers; delete nodes; create,
expand, delete and attach volumes; and publish devices that several nodes share. For writes, each hollow kubelet acts as
the user of its own node.

There is no upstream counterpart: there, each kubelet reads for itself.
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.bootstrap.policy import API_VERSION

NAME, USER = "kcm:hollow-nodes", "system:hollow-nodes"
FORMER = f"{NAME}:kubelets"  # former binding, which gave this user the permissions of all kubelets
_GROUP = "rbac.authorization.k8s.io"


def hollow_nodes_policy() -> list[Object]:
    role = {
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "delete"]},
            {"apiGroups": [""], "resources": ["namespaces", "pods"], "verbs": ["get", "list", "watch"]},
            {
                "apiGroups": [""],
                "resources": ["persistentvolumes"],
                "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
            },
            {
                "apiGroups": [""],
                "resources": ["persistentvolumeclaims"],
                "verbs": ["get", "list", "watch", "update"],
            },
            {"apiGroups": [""], "resources": ["persistentvolumeclaims/status"], "verbs": ["update"]},
            {
                "apiGroups": ["storage.k8s.io"],
                "resources": ["storageclasses"],
                "verbs": ["get", "list", "watch", "create"],
            },
            {
                "apiGroups": ["storage.k8s.io"],
                "resources": ["csidrivers"],
                "verbs": ["get", "list", "watch", "create", "delete"],
            },
            {"apiGroups": ["storage.k8s.io"], "resources": ["csinodes"], "verbs": ["get", "list", "watch"]},
            {
                "apiGroups": ["storage.k8s.io"],
                "resources": ["volumeattachments"],
                "verbs": ["get", "list", "watch", "patch"],
            },
            {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments/status"], "verbs": ["patch"]},
            {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["get", "list", "watch"]},
            {
                "apiGroups": ["resource.k8s.io"],
                "resources": ["deviceclasses", "devicetaintrules", "resourceclaims"],
                "verbs": ["get", "list", "watch"],
            },
            {
                "apiGroups": ["resource.k8s.io"],
                "resources": ["resourceslices"],
                "verbs": ["get", "list", "watch", "create", "update", "delete"],
            },
            {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
        ],
    }
    return [role, _binding(NAME, NAME)]


def _binding(name: str, role: str) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": USER}],
    }
