"""Deployments and ReplicaSets as small as the decisions about them allow."""

from actors.simulation.driving import NOW
from protocols.objects import owner_reference
from protocols.times import format_time

LABELS = {"app": "web"}


def template(image="web:1", **labels):
    return {"metadata": {"labels": {**LABELS, **labels}}, "spec": {"containers": [{"name": "web", "image": image}]}}


def strategy(max_surge=0, max_unavailable=0):
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": max_surge, "maxUnavailable": max_unavailable},
    }


RECREATE = {"type": "Recreate"}


def deployment(replicas=3, *, max_surge=0, max_unavailable=0, annotations=None, status=None, meta=None, **spec):
    """A Deployment web that rolls. spec: further fields of its spec; meta: of its metadata."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "web",
            "namespace": "default",
            "uid": "uid-of-web",
            "annotations": annotations or {},
            **(meta or {}),
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": LABELS},
            "template": template(),
            "strategy": strategy(max_surge, max_unavailable),
            **spec,
        },
        "status": status or {},
    }


def replica_set(
    name,
    replicas=0,
    *,
    age=0,
    revision=None,
    sized_for=None,
    image="web:1",
    annotations=None,
    status=None,
    owner=None,
    **meta,
):
    """age: seconds since its creation. sized_for: (desired, max) of its annotations. owner: a Deployment."""
    noted = dict(annotations or {})
    if revision is not None:
        noted["deployment.kubernetes.io/revision"] = str(revision)
    if sized_for is not None:
        noted["deployment.kubernetes.io/desired-replicas"] = str(sized_for[0])
        noted["deployment.kubernetes.io/max-replicas"] = str(sized_for[1])
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-of-{name}",
        "creationTimestamp": format_time(NOW - age),
        "labels": LABELS,
        "annotations": noted,
        **meta,
    }
    if owner is not None:
        metadata["ownerReferences"] = [owner_reference(owner, api_version="apps/v1", kind="Deployment")]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": metadata,
        "spec": {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": template(image)},
        "status": status or {},
    }


def with_available(name, replicas, available, **options):
    """A ReplicaSet whose status says that so many of its pods are available."""
    return replica_set(name, replicas, status={"replicas": replicas, "availableReplicas": available}, **options)


def progressing(reason="", status="True", *, updated_at=NOW, changed_at=NOW):
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "lastUpdateTime": format_time(updated_at),
        "lastTransitionTime": format_time(changed_at),
    }
