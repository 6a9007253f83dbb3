"""What the hollow nodes may do: their one user has the rights of all kubelets, and deletes nodes that it no longer has.

Not upstream's, whose kubelets are users each of its own.
"""

from __future__ import annotations

from protocols.objects import Object
from runtime.apiserver.bootstrap.policy import API_VERSION

NAME, USER = "kcm:hollow-nodes", "system:hollow-nodes"
_GROUP = "rbac.authorization.k8s.io"


def hollow_nodes_policy() -> list[Object]:
    role = {
        "apiVersion": API_VERSION,
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes"], "verbs": ["delete"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]},
        ],
    }
    return [role, _binding(NAME, NAME), _binding(f"{NAME}:kubelets", "system:node")]


def _binding(name: str, role: str) -> Object:
    return {
        "apiVersion": API_VERSION,
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": "User", "name": USER}],
    }
