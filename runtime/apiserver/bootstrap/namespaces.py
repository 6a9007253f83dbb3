"""Namespaces that the server creates at startup.

Source: kubernetes pkg/controlplane/controller/systemnamespaces/system_namespaces_controller.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.verbs.create import create_object

FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


def create_first_namespaces(cluster: Cluster) -> None:
    definition = cluster.registry.find("", "v1", "namespaces")
    if definition is None:
        return
    for name in FIRST_NAMESPACES:
        if cluster.state.get(definition.storage, name) is None:
            namespace: Object = {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}}
            create_object(cluster, definition, namespace)
