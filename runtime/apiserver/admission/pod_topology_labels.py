"""PodTopologyLabels: copy the topology labels of the node to a pod when it is bound.

Source: kubernetes plugin/pkg/admission/podtopologylabels/admission.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster

NODES, PODS = "nodes", "pods"
_COPIED = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def admit_pod(cluster: Cluster, pod: Object) -> None:
    """Copy the node's labels to a pod that is created with a node name, in place."""
    node = pod["spec"].get("nodeName")
    if node:
        _copy_labels(cluster, node, pod)


def admit_binding(cluster: Cluster, binding: Object) -> None:
    """Copy the node's labels to a Binding, in place. The server merges the labels of a Binding into its pod."""
    target = binding.get("target") or {}
    if target.get("kind") == "Node":
        _copy_labels(cluster, target.get("name") or "", binding)


def _copy_labels(cluster: Cluster, node: str, to: Object) -> None:
    record = cluster.state.get(NODES, node)
    found = {} if record is None else {name: record.labels[name] for name in _COPIED if name in record.labels}
    if found:
        to["metadata"]["labels"] = {**(to["metadata"].get("labels") or {}), **found}
