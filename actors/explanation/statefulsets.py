"""Causes of StatefulSets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from kcm.actors.explanation import pods
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, is_lasting
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.workloads import (
    REVISION_HASH,
    failed_create,
    min_ready,
    nothing,
    old_pods,
    overlapping,
    stopping,
    troubled_pods,
    wanted,
)
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, controller_of, is_deleting, labels_of, metadata, name_of

SLOW_START = 60.0  # seconds
OF_TEMPLATE = frozenset(  # codes of causes that a change of the template can correct
    {
        "config-missing",
        "container-cannot-start",
        "crash-loop",
        "image-invalid",
        "image-never-pull",
        "image-pull",
        "init-container",
        "insufficient-resources",
        "node-affinity",
        "out-of-memory",
        "readiness-probe",
        "startup-probe",
    }
)


def pending(case: Case) -> str:
    replicas, status = wanted(case), case.status
    if not case.is_observed:
        return "its controller has not seen its newest specification"
    if (status.get("replicas") or 0) != replicas:
        return f"it has {status.get('replicas') or 0} of {replicas} pods"
    if (ready := status.get("readyReplicas") or 0) < replicas:
        return f"{ready} of {replicas} pods are ready"
    if (available := status.get("availableReplicas") or 0) < replicas:
        return f"{available} of {replicas} pods are available"
    current, update = status.get("currentRevision"), status.get("updateRevision")
    updated = status.get("updatedReplicas") or 0
    if update and current != update and updated < replicas:
        return f"{updated} of {replicas} pods are up to date"
    return ""


def causes(case: Case) -> Iterator[Cause]:
    if not pending(case):
        return
    own = case.evidence.owned(case.obj, r.PODS)
    missing = _missing(case, own)
    yield from _deleted_claims(case, missing)
    yield from _taken_names(case, missing)
    yield from failed_create(case)
    found = list(troubled_pods(case, own))
    yield from _broken_revision(case, own, found)
    yield from found
    strategy = case.spec.get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    updated, replicas = case.status.get("updatedReplicas") or 0, wanted(case)
    ready = case.status.get("readyReplicas") or 0
    if ready >= replicas and updated < replicas and (strategy.get("type") == "OnDelete" or partition):
        why = "OnDelete" if strategy.get("type") == "OnDelete" else f"RollingUpdate with partition {partition}"
        yield case.cause(
            "manual-update",
            f"{replicas - updated} pods keep the old revision: the update strategy is {why}",
            *old_pods(own, case.status.get("updateRevision") or ""),
        )
    if updated < replicas:
        yield from stopping(case, own, "the rollout")
    ordered = (case.spec.get("podManagementPolicy") or "OrderedReady") == "OrderedReady"
    if ordered and ready < replicas and (case.status.get("replicas") or 0) < replicas and own:
        unready = [pod for pod in own if pods.unready(Case(r.PODS, pod, case.evidence, nothing))]
        waits = [name_of(pod) for pod in unready if is_lasting(found) or (not found and _is_late(case, pod))]
        if waits:
            yield case.cause(
                "ordered-pods", f"further pods are created once {', '.join(sorted(waits)[:3])} is ready (OrderedReady)"
            )
    yield from min_ready(case)
    if (case.status.get("replicas") or 0) < replicas:
        yield from overlapping(case, own)


def _is_late(case: Case, pod: Object) -> bool:
    """Report whether a pod has existed for longer than most pods need to become ready."""
    age = case.evidence.age(metadata(pod).get("creationTimestamp"))
    return age is not None and age > SLOW_START


def _missing(case: Case, own: Sequence[Object]) -> list[str]:
    """Return the names of the pods that it does not have, the first of them only."""
    start, existing = (case.spec.get("ordinals") or {}).get("start") or 0, {name_of(pod) for pod in own}
    names = (f"{case.name}-{ordinal}" for ordinal in range(start, start + wanted(case)))
    return list(islice((name for name in names if name not in existing), MOST_FOLLOWED))


def _deleted_claims(case: Case, missing: Sequence[str]) -> Iterator[Cause]:
    """Yield why claims of missing pods are still being deleted: a pod is created after its claims."""
    for pod in missing:
        for template in case.spec.get("volumeClaimTemplates") or ():
            claim = case.evidence.get(r.PERSISTENT_VOLUME_CLAIMS, f"{case.namespace}/{name_of(template)}-{pod}")
            if claim is not None and is_deleting(claim):
                yield from case.follow(r.PERSISTENT_VOLUME_CLAIMS, claim)


def _taken_names(case: Case, missing: Sequence[str]) -> Iterator[Cause]:
    """Yield the pods of others that have the names of missing pods."""
    for name in missing:
        pod = case.evidence.get(r.PODS, f"{case.namespace}/{name}")
        if pod is None or is_deleting(pod):
            continue
        owner = controller_of(pod)
        if owner is not None and owner.uid == case.uid:
            continue  # created since the pods were listed
        whose = "has no controller" if owner is None else f"belongs to {owner.kind.lower()} {owner.name}"
        labels = ", ".join(f"{key}={value}" for key, value in sorted(labels_of(pod).items()))
        yield case.cause(
            "write-refused",
            f"pod {name} cannot be created, because a pod of this name exists, which {whose}",
            f"labels of pod {name}: {labels or 'none'}",
            since=metadata(pod).get("creationTimestamp"),
        )


def _broken_revision(case: Case, own: Sequence[Object], found: Sequence[Cause]) -> Iterator[Cause]:
    """Yield a pod of an old revision that keeps the StatefulSet from applying its template, which was repaired since.

    found: causes of its pods.
    """
    strategy, newest = case.spec.get("updateStrategy") or {}, case.status.get("updateRevision")
    ordered = (case.spec.get("podManagementPolicy") or "OrderedReady") == "OrderedReady"
    if not ordered or not newest or strategy.get("type") == "OnDelete":
        return
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    for pod in own:
        name, revision = name_of(pod), labels_of(pod).get(REVISION_HASH)
        ordinal = name.rpartition("-")[2]
        its = [cause for cause in found if cause.about == f"pod {case.namespace}/{name}" and cause.code in OF_TEMPLATE]
        if revision in (None, newest) or is_deleting(pod) or not ordinal.isdecimal() or int(ordinal) < partition:
            continue
        for cause in its[:1]:
            yield case.cause(
                "old-revision-broken",
                f"pod {name} is of an old revision and not ready, and the changed template is not applied before: "
                "delete the pod",
                f"pod {name}: {cause.summary}",
                f"label {REVISION_HASH} {revision}, status.updateRevision {newest}",
                since=cause.since,
                commands=(f"kubectl delete pod {name} -n {case.namespace}",),
            )
