"""Builders of minimal Deployments and ReplicaSets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.actors.controllers.workloads.deployment.objects import (
    Deployment,
    ReplicaSet,
    parse_deployment,
    parse_replica_set,
)
from kcm.actors.simulation.driver import NOW
from kcm.protocols.objects import Object, owner_reference
from kcm.protocols.percentages import IntOrString
from kcm.protocols.times import format_time
from tests.support.objects import WEB, deployment, pod_template, replica_set

LABELS = WEB


def template(image: str = "web:1", **labels: str) -> Object:
    return pod_template(labels={**LABELS, **labels}, image=image)


def strategy(max_surge: IntOrString = 0, max_unavailable: IntOrString = 0) -> Object:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": max_surge, "maxUnavailable": max_unavailable},
    }


RECREATE = {"type": "Recreate"}


def web_deployment(
    replicas: int = 3,
    *,
    max_surge: IntOrString = 0,
    max_unavailable: IntOrString = 0,
    annotations: Mapping[str, str] | None = None,
    status: Object | None = None,
    meta: Object | None = None,
    **spec: Any,
) -> Object:
    """Return the Deployment web with the strategy RollingUpdate. spec, meta: further fields of spec and metadata."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "status": {},
        **deployment(
            replicas=replicas,
            labels=LABELS,
            metadata={"uid": "uid-of-web", "annotations": annotations or {}, **(meta or {})},
            spec={"template": template(), "strategy": strategy(max_surge, max_unavailable), **spec},
            status=status,
        ),
    }


def web_replica_set(
    name: str,
    replicas: int = 0,
    *,
    age: float = 0,  # seconds since its creation
    revision: int | str | None = None,
    sized_for: tuple[int, int] | None = None,  # (desired, max) of its annotations
    image: str = "web:1",
    annotations: Mapping[str, str] | None = None,
    status: Object | None = None,
    owner: Object | None = None,  # a Deployment
    **meta: Any,
) -> Object:
    """Return a ReplicaSet of the Deployment web."""
    noted = dict(annotations or {})
    if revision is not None:
        noted["deployment.kubernetes.io/revision"] = str(revision)
    if sized_for is not None:
        noted["deployment.kubernetes.io/desired-replicas"] = str(sized_for[0])
        noted["deployment.kubernetes.io/max-replicas"] = str(sized_for[1])
    metadata = {
        "uid": f"uid-of-{name}",
        "creationTimestamp": format_time(NOW - age),
        "labels": LABELS,
        "annotations": noted,
        **meta,
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "status": {},
        **replica_set(
            name,
            replicas=replicas,
            labels=LABELS,
            owner=None if owner is None else owner_reference(owner, api_version="apps/v1", kind="Deployment"),
            metadata=metadata,
            spec={"template": template(image)},
            status=status,
        ),
    }


def parsed_deployment(replicas: int = 3, **options: Any) -> Deployment:
    return parse_deployment(web_deployment(replicas, **options))


def parsed_replica_set(name: str, replicas: int = 0, **options: Any) -> ReplicaSet:
    return parse_replica_set(web_replica_set(name, replicas, **options))


def with_available(name: str, replicas: int, available: int, **options: Any) -> ReplicaSet:
    """Return a parsed ReplicaSet of which this number of pods is available."""
    return parsed_replica_set(name, replicas, status={"replicas": replicas, "availableReplicas": available}, **options)


def progressing(reason: str = "", status: str = "True", *, updated_at: float = NOW, changed_at: float = NOW) -> Object:
    """Return a condition Progressing."""
    return {
        "type": "Progressing",
        "status": status,
        "reason": reason,
        "lastUpdateTime": format_time(updated_at),
        "lastTransitionTime": format_time(changed_at),
    }
