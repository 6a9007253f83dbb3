"""Rules of each kind: what it needs to reach its desired state, and its causes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from kcm.actors.explanation import (
    autoscaling,
    batch,
    budgets,
    devices,
    networking,
    nodes,
    pods,
    server_objects,
    statefulsets,
    storage,
    volumes,
    workloads,
)
from kcm.actors.explanation.case import Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.protocols.resources import Resource

GOOD = ("Ready", "Available", "Synced", "Reconciled", "NamesAccepted", "Established", "Accepted")
BAD = ("Failed", "Degraded", "Stalled", "Failure")


class Rules(Struct, frozen=True):
    """Rules of a kind.

    pending: returns what the object still needs to reach its desired state, in words; "" if it has reached it.
    causes: yields its causes, roots first.
    """

    pending: Callable[[Case], str]
    causes: Callable[[Case], Iterable[Cause]]


def other_pending(case: Case) -> str:
    """Return what an object of any other kind needs, by the conventions for conditions."""
    if not case.status:
        return ""
    if "observedGeneration" in case.status and not case.is_observed:
        return "its controller has not seen its newest specification"
    troubled = _troubled_conditions(case)
    return condition_line(troubled[0]) if troubled else ""


def other_causes(case: Case) -> Iterator[Cause]:
    for condition in _troubled_conditions(case):
        since = condition.get("lastTransitionTime")
        age = case.evidence.age(since)
        if age is None or age > 10.0:
            yield case.cause(
                "condition-false",
                f"its status reports {condition.get('type')}={condition.get('status')}: "
                f"{condition.get('message') or condition.get('reason')}",
                condition_line(condition),
                since=since,
            )


def _troubled_conditions(case: Case) -> list[Mapping[str, Any]]:
    conditions = case.status.get("conditions")
    if not isinstance(conditions, list):
        return []
    return [
        condition
        for condition in conditions
        if (condition.get("type") in GOOD and condition.get("status") != "True")
        or (condition.get("type") in BAD and condition.get("status") == "True")
    ]


def node_causes(case: Case) -> Iterator[Cause]:
    if case.spec.get("unschedulable"):
        yield from budgets.blocking(case)
    yield from nodes.causes(case)


OTHER = Rules(other_pending, other_causes)
RULES: Mapping[str, Rules] = {
    "pods": Rules(pods.pending, pods.causes),
    "nodes": Rules(nodes.pending, node_causes),
    "deployments.apps": Rules(workloads.deployment_pending, workloads.deployment_causes),
    "replicasets.apps": Rules(workloads.replicaset_pending, workloads.replicaset_causes),
    "replicationcontrollers": Rules(workloads.replicaset_pending, workloads.replicaset_causes),
    "statefulsets.apps": Rules(statefulsets.pending, statefulsets.causes),
    "daemonsets.apps": Rules(workloads.daemonset_pending, workloads.daemonset_causes),
    "jobs.batch": Rules(batch.job_pending, batch.job_causes),
    "cronjobs.batch": Rules(batch.cronjob_pending, batch.cronjob_causes),
    "horizontalpodautoscalers.autoscaling": Rules(autoscaling.pending, autoscaling.causes),
    "poddisruptionbudgets.policy": Rules(budgets.pending, budgets.causes),
    "services": Rules(networking.service_pending, networking.service_causes),
    "ingresses.networking.k8s.io": Rules(networking.ingress_pending, networking.ingress_causes),
    "persistentvolumeclaims": Rules(storage.claim_pending, storage.claim_causes),
    "persistentvolumes": Rules(volumes.volume_pending, volumes.volume_causes),
    "volumeattachments.storage.k8s.io": Rules(volumes.attachment_pending, volumes.attachment_causes),
    "resourceclaims.resource.k8s.io": Rules(devices.pending, devices.causes),
    "certificatesigningrequests.certificates.k8s.io": Rules(
        server_objects.request_pending, server_objects.request_causes
    ),
    "apiservices.apiregistration.k8s.io": Rules(server_objects.api_service_pending, server_objects.api_service_causes),
}


def rules_of(resource: Resource) -> Rules:
    return RULES.get(resource.name, OTHER)
