"""Objects of metrics-server's manifest: its APIService, and the ClusterRole that permits reading metrics.

Source: kubernetes-sigs/metrics-server v0.8 manifests/base/{apiservice,rbac}.yaml.
"""

from __future__ import annotations

from kcm.protocols.objects import Object, decode_object, labels_of
from kcm.runtime.apiserver.bootstrap.policy import API_VERSION
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.field_managers import SERVER
from kcm.runtime.apiserver.kinds.metrics.shared.objects import GROUP, VERSION

_READER = "system:aggregated-metrics-reader"


def serves_metrics(cluster: Cluster) -> bool:
    return cluster.registry.find(GROUP, VERSION, "pods") is not None


def metrics_policy() -> list[Object]:
    """Return the ClusterRole that lets subjects of view, edit and admin read metrics."""
    labels = {f"rbac.authorization.k8s.io/aggregate-to-{role}": "true" for role in ("admin", "edit", "view")}
    rule = {"apiGroups": [GROUP], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
    meta = {"name": _READER, "labels": {"k8s-app": "metrics-server", **labels}}
    return [{"apiVersion": API_VERSION, "kind": "ClusterRole", "metadata": meta, "rules": [rule]}]


def remove_metrics_api_service(cluster: Cluster) -> None:
    """Remove the APIService of an earlier server with built-in metrics, so that users can create their own."""
    storage, name = "apiservices.apiregistration.k8s.io", f"{VERSION}.{GROUP}"
    record = cluster.state.get(storage, name)
    if record is None or serves_metrics(cluster):
        return
    stored = decode_object(record.raw)
    own = metrics_api_service(cluster)["metadata"]["labels"]
    managers = {entry.get("manager") for entry in stored["metadata"].get("managedFields") or ()}
    if labels_of(stored) == own and managers <= {SERVER}:
        cluster.state.remove(storage, name, stored)


def metrics_api_service(cluster: Cluster) -> Object:
    """Return the APIService of the metrics API, with an Available condition.

    As in metrics-server's manifest it names a Service, but this server handles the requests itself.
    """
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": cluster.timestamp(),
        "reason": "Passed",
        "message": "all checks passed",
    }
    return {
        "metadata": {"name": f"{VERSION}.{GROUP}", "labels": {"k8s-app": "metrics-server"}},
        "spec": {
            "service": {"name": "metrics-server", "namespace": "kube-system"},
            "group": GROUP,
            "version": VERSION,
            "insecureSkipTLSVerify": True,
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
        },
        "status": {"conditions": [available]},
    }
