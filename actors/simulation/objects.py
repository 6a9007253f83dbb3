"""Builders of API objects for tests: the smallest valid object, and the fields that a test is about.

    pod("web-1", node="n1", status={"phase": "Running"})
    node(labels={ZONE: "a"}, taints=[taint("drain", "NoExecute")])
    replica_set(replicas=3, spec={"minReadySeconds": 5})

A builder fills in the fields that an API server requires. `metadata`, `spec` and `status` are merged over these fields:
each given field replaces the built field completely. Other keyword arguments are abbreviations of fields that many
tests set. The objects have no kind and no apiVersion, like the items of a list. They have no uid and no
resourceVersion, like objects that no server has stored yet; `stored` adds these two.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object, name_of
from kcm.protocols.times import format_time

__all__ = [
    "WEB",
    "custom_object",
    "deployment",
    "lease",
    "namespace",
    "node",
    "owned_by",
    "pod",
    "pod_spec",
    "pod_template",
    "replica_set",
    "running_pod",
    "service",
    "stored",
    "taint",
    "toleration",
]
WEB = {"app": "web"}

Fields = Mapping[str, Any] | None


def stored(obj: Object, version: int) -> Object:
    """Return the object as a server would store it: with a resourceVersion, and by default with the uid `uid-NAME`."""
    meta = {"uid": f"uid-{name_of(obj)}", "resourceVersion": str(version), **obj["metadata"]}
    return {**obj, "metadata": meta}


def pod(
    name: str = "web",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    node: str = "",
    tolerations: Iterable[Object] = (),
    version: int | None = None,
    metadata: Fields = None,
    spec: Fields = None,
    status: Fields = None,
) -> Object:
    """Build a pod with one container.

    owner: controller of the pod, for its owner reference.
    node: "" while unscheduled.
    version: resourceVersion of a pod that a server has stored; None for neither resourceVersion nor uid.
    """
    built = _object(
        _metadata(name, namespace, labels, owner, metadata),
        spec={**pod_spec(), **_unless_empty(nodeName=node, tolerations=list(tolerations)), **(spec or {})},
        status=status,
    )
    return built if version is None else stored(built, version)


def running_pod(
    name: str = "web",
    *,
    ready: bool = True,
    ready_since: float | None = NOW - 3600,
    created: float | None = NOW - 7200,
    node: str = "n1",
    phase: str = "Running",
    status: Fields = None,
    **options: Any,
) -> Object:
    """Build a pod with the status that a kubelet would write; by default ready for an hour. options: see `pod`.

    ready, ready_since: status and last transition of the condition Ready.
    created: creationTimestamp.

    Times are Unix seconds; None omits them.
    """
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    if ready_since is not None:
        condition["lastTransitionTime"] = format_time(ready_since)
    if created is not None:
        options["metadata"] = {"creationTimestamp": format_time(created), **(options.get("metadata") or {})}
    return pod(name, node=node, status={"phase": phase, "conditions": [condition], **(status or {})}, **options)


def pod_spec(*, image: str = "nginx:1") -> Object:
    """Build a pod spec with one container."""
    return {"containers": [{"name": "c", "image": image}]}


def pod_template(*, labels: Mapping[str, str] = WEB, image: str = "nginx:1", spec: Fields = None) -> Object:
    """Build a workload's spec.template."""
    return {"metadata": {"labels": dict(labels)}, "spec": {**pod_spec(image=image), **(spec or {})}}


def replica_set(
    name: str = "web",
    *,
    namespace: str = "default",
    replicas: int = 1,
    labels: Mapping[str, str] | None = None,
    image: str = "nginx:1",
    owner: Object | None = None,
    metadata: Fields = None,
    spec: Fields = None,
    status: Fields = None,
) -> Object:
    """Build a ReplicaSet with one container per pod.

    labels: labels of the selector and of the pod template; by default {"app": NAME}.
    """
    labels = {"app": name} if labels is None else labels
    return _object(
        _metadata(name, namespace, None, owner, metadata),
        spec={
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels)},
            "template": pod_template(labels=labels, image=image),
            **(spec or {}),
        },
        status=status,
    )


def deployment(name: str = "web", **options: Any) -> Object:
    """Build a Deployment without a strategy, unless `spec` has one. options: see `replica_set`."""
    return replica_set(name, **options)


def node(
    name: str = "n1",
    *,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[Object] = (),
    ready: str | None = None,
    metadata: Fields = None,
    spec: Fields = None,
    status: Fields = None,
) -> Object:
    """Build a node. ready: status of the condition Ready ("True", "False" or "Unknown"); None for no conditions."""
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return _object(
        _metadata(name, "", labels, None, metadata),
        spec={**_unless_empty(taints=list(taints)), **(spec or {})},
        status={**_unless_empty(conditions=conditions), **(status or {})},
    )


def owned_by(uid: str, *, kind: str = "ReplicaSet", name: str = "rs") -> Object:
    """Build an owner reference to a controller, for the parameter `owner` of a builder."""
    return {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def taint(key: str = "drain", effect: str = "NoExecute", **fields: Any) -> Object:
    """Build an element of a node's spec.taints."""
    return {"key": key, "effect": effect, **fields}


def toleration(key: str = "drain", *, seconds: int | None = None, **fields: Any) -> Object:
    """Build a toleration for NoExecute taints with this key, limited to the given seconds."""
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"key": key, "operator": "Exists", "effect": "NoExecute", **limit, **fields}


def lease(
    name: str = "n1", *, namespace: str = "kube-node-lease", metadata: Fields = None, spec: Fields = None
) -> Object:
    """Build a Lease. By default it is the heartbeat of node n1, which is its holder."""
    return _object(_metadata(name, namespace, None, None, metadata), spec={"holderIdentity": name, **(spec or {})})


def service(
    name: str = "web",
    *,
    namespace: str = "default",
    selector: Mapping[str, str] | None = None,
    metadata: Fields = None,
    spec: Fields = None,
    status: Fields = None,
) -> Object:
    """Build a Service with one port."""
    return _object(
        _metadata(name, namespace, None, None, metadata),
        spec={"ports": [{"port": 80}], **_unless_empty(selector=selector), **(spec or {})},
        status=status,
    )


def namespace(name: str = "default", *, metadata: Fields = None, spec: Fields = None, status: Fields = None) -> Object:
    return _object(_metadata(name, "", None, None, metadata), spec=spec, status=status)


def custom_object(
    name: str,
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    metadata: Fields = None,
    spec: Fields = None,
    status: Fields = None,
) -> Object:
    """Build an object of any other resource, built in or custom. namespace: "" for a cluster-scoped object."""
    return _object(_metadata(name, namespace, labels, owner, metadata), spec=spec, status=status)


def _metadata(
    name: str, namespace: str, labels: Mapping[str, str] | None, owner: Object | None, fields: Fields
) -> Object:
    built: Object = {"name": name, **_unless_empty(namespace=namespace)}
    if labels is not None:
        built["labels"] = dict(labels)
    if owner is not None:
        built["ownerReferences"] = [owner]
    return {**built, **(fields or {})}


def _object(metadata: Object, *, spec: Fields = None, status: Fields = None) -> Object:
    parts: Object = {"metadata": metadata}
    if spec:
        parts["spec"] = dict(spec)
    if status:
        parts["status"] = dict(status)
    return parts


def _unless_empty(**fields: Any) -> Object:
    return {field: value for field, value in fields.items() if value}
