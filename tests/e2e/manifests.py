"""Manifests of workloads, with kind and apiVersion, as users apply them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.e2e.kubectl import Object
from tests.support import objects


def pod(
    name: str,
    *,
    requests: Mapping[str, str] | None = None,
    limits: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    metadata: Object | None = None,
    **spec: Any,
) -> Object:
    """Return a pod with one container.

    requests, limits: resources of the container.
    labels: app=NAME by default.
    """
    resources = {key: dict(part) for key, part in (("requests", requests), ("limits", limits)) if part}
    [container] = objects.pod_spec()["containers"]
    containers = [{**container, "resources": resources}] if resources else [container]
    labels = {"app": name} if labels is None else labels
    whole = {"containers": containers, **spec}
    built = objects.pod(name, namespace="", labels=labels, metadata=metadata, spec=whole)
    return {"apiVersion": "v1", "kind": "Pod", **built}


def deployment(name: str, replicas: int, **spec: Any) -> Object:
    """Return a Deployment whose pods have the label app=NAME."""
    built = objects.deployment(name, namespace="", replicas=replicas, spec=spec)
    return {"apiVersion": "apps/v1", "kind": "Deployment", **built}


def job(name: str, *, metadata: Object | None = None, pod: Object | None = None, **spec: Any) -> Object:
    """Return a Job. pod: more fields of the spec of its pods, which are not restarted by default."""
    template = objects.pod_template(labels={"app": name}, spec={"restartPolicy": "Never", **(pod or {})})
    built = objects.custom_object(name, namespace="", metadata=metadata, spec={"template": template, **spec})
    return {"apiVersion": "batch/v1", "kind": "Job", **built}
