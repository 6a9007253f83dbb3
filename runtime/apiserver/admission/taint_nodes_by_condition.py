"""TaintNodesByCondition: taint new nodes as not ready, until the node lifecycle controller removes the taint.

Source: kubernetes plugin/pkg/admission/nodetaint/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.admission_plugins import TAINT_NODES
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


def admit_create(cluster: Cluster, definition: ResourceDefinition, node: Object) -> None:
    """Add the taint NOT_READY to a new node, in place."""
    if definition.storage != "nodes" or TAINT_NODES not in cluster.settings.plugins:
        return
    taints = node["spec"].get("taints") or []
    if not any(all(taint.get(field) == value for field, value in NOT_READY.items()) for taint in taints):
        node["spec"]["taints"] = [*taints, dict(NOT_READY)]
