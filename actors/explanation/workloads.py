"""Causes of Deployments, ReplicaSets, ReplicationControllers and DaemonSets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kcm.actors.explanation import pods
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line, is_lasting
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.placement import terms_in_words
from kcm.actors.explanation.refusals import refused
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, annotations_of, is_deleting, labels_of, name_of, uid_of
from kcm.protocols.selectors import NOTHING, LabelSelector, label_selector_of, map_selector

REVISION_HASH = "controller-revision-hash"  # label of the pods of StatefulSets and DaemonSets
REVISION = "deployment.kubernetes.io/revision"
LONGEST_DEADLINE = 600.0  # seconds; the default of progressDeadlineSeconds
PATIENCE = 60.0  # seconds; shorter waits for minReadySeconds are under way
OWNERS_OF_PODS = (r.REPLICASETS, r.REPLICATION_CONTROLLERS, r.STATEFULSETS, r.DAEMONSETS)


def selector_of(obj: Object) -> LabelSelector:
    """Return the selector of a workload; one that matches nothing if it is malformed."""
    selector = (obj.get("spec") or {}).get("selector")
    try:
        if obj.get("kind") == "ReplicationController":
            return map_selector(selector)
        return label_selector_of(selector)
    except (ValueError, AttributeError, TypeError):
        return NOTHING


def wanted(case: Case) -> int:
    replicas = case.spec.get("replicas")
    return 1 if replicas is None else int(replicas)


# Pods of an owner.


def troubled_pods(case: Case, found: Sequence[Object]) -> Iterator[Cause]:
    """Yield the causes of an owner's pods that are not ready, or are being deleted for too long."""
    unready = [pod for pod in found if pods.unready(Case(r.PODS, pod, case.evidence, nothing)) or is_deleting(pod)]
    followed = 0
    for pod in sorted(unready, key=is_deleting):
        if followed >= MOST_FOLLOWED:
            return
        causes = list(case.follow(r.PODS, pod))
        followed += bool(causes)
        yield from causes


def nothing(_case: Case) -> tuple[Cause, ...]:
    return ()


def failed_create(case: Case, condition: str = "ReplicaFailure") -> Iterator[Cause]:
    """Yield why the pods of an owner cannot be created."""
    failure = case.condition_is(condition, "True")
    event = case.event("FailedCreate", within=900.0)
    if failure is not None and failure.get("reason") in ("FailedCreate", None):
        yield from refused(
            case,
            str(failure.get("message")),
            what="pods cannot be created",
            shown_by=condition_line(failure),
            since=failure.get("lastTransitionTime"),
        )
    elif failure is None and event is not None:
        yield from refused(
            case, str(event.get("message")), what="pods cannot be created", shown_by=event_line(event), since=None
        )
    else:
        yield from _in_deleted_namespace(case)


def _in_deleted_namespace(case: Case) -> Iterator[Cause]:
    """Yield the deletion of the object's namespace, in which nothing can be created, not even an event."""
    namespace = case.evidence.get(r.NAMESPACES, case.namespace)
    if namespace is not None and is_deleting(namespace):
        yield case.cause(
            "namespace-terminating",
            "its namespace is being deleted, so nothing can be created in it",
            f"metadata.deletionTimestamp of namespace {case.namespace}: {namespace['metadata']['deletionTimestamp']}",
            since=namespace["metadata"]["deletionTimestamp"],
        )
        yield from case.follow(r.NAMESPACES, namespace)


def overlapping(case: Case, found: Sequence[Object]) -> Iterator[Cause]:
    """Yield another owner whose selector matches the pods of this one. found: its own pods."""
    selector = selector_of(case.obj)
    others = [
        pod
        for pod in case.evidence.selected(r.PODS, case.namespace, selector)
        if pod not in found and not is_deleting(pod)
    ]
    template = ((case.spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for resource in OWNERS_OF_PODS:
        if resource.kind != case.resource.kind and not others:
            continue
        for other in case.evidence.list(resource, case.namespace):
            if uid_of(other) == case.uid or not selector_of({**other, "kind": resource.kind}).matches(template):
                continue
            if _same_owner(case.obj, other):
                continue
            yield case.cause(
                "selector-overlap",
                f"{resource.kind.lower()} {name_of(other)} selects the same pods: {selector}",
                f"pods that match and belong to others: {len(others)}"
                + (f", such as {', '.join(name_of(pod) for pod in others[:MOST_FOLLOWED])}" if others else ""),
            )


def _same_owner(obj: Object, other: Object) -> bool:
    """Report whether both have the same owner, as the ReplicaSets of a Deployment have."""
    owners = {ref.get("uid") for ref in (obj.get("metadata") or {}).get("ownerReferences") or ()}
    others = {ref.get("uid") for ref in (other.get("metadata") or {}).get("ownerReferences") or ()}
    return bool(owners & others)


# ReplicaSets and ReplicationControllers.


def replicaset_pending(case: Case) -> str:
    replicas, ready = wanted(case), case.status.get("readyReplicas") or 0
    if not case.is_observed:
        return "its controller has not seen its newest specification"
    if (case.status.get("replicas") or 0) != replicas:
        return f"it has {case.status.get('replicas') or 0} of {replicas} pods"
    if ready < replicas:
        return f"{ready} of {replicas} pods are ready"
    if (available := case.status.get("availableReplicas") or 0) < replicas:
        return f"{available} of {replicas} pods are available"
    return ""


def replicaset_causes(case: Case) -> Iterator[Cause]:
    if not replicaset_pending(case):
        return
    own = case.evidence.owned(case.obj, r.PODS)
    yield from failed_create(case)
    yield from troubled_pods(case, own)
    yield from _delayed_replacements(case, own)
    if (case.status.get("replicas") or 0) < wanted(case):
        yield from overlapping(case, own)
    yield from min_ready(case)


def _delayed_replacements(case: Case, own: Sequence[Object]) -> Iterator[Cause]:
    failed = [pod for pod in own if (pod.get("status") or {}).get("phase") == "Failed"]
    if not failed or len(own) - len(failed) >= wanted(case):
        return
    for pod in failed[:1]:
        yield from case.follow(r.PODS, pod)
    yield case.cause(
        "failing-pods-backoff",
        f"{len(failed)} pods have failed, and replacements are delayed",
        *(f"pod {name_of(pod)}: {(pod.get('status') or {}).get('reason')}" for pod in failed[:3]),
    )


def min_ready(case: Case) -> Iterator[Cause]:
    """Yield that the pods of a workload are ready, but not yet available."""
    seconds, status = case.spec.get("minReadySeconds") or 0, case.status
    if "desiredNumberScheduled" in status:  # a DaemonSet
        desired, ready, available = (
            status.get(field) or 0 for field in ("desiredNumberScheduled", "numberReady", "numberAvailable")
        )
    else:
        desired, ready, available = wanted(case), status.get("readyReplicas") or 0, status.get("availableReplicas") or 0
    if seconds > PATIENCE and ready >= desired > available:
        yield case.cause(
            "not-available-yet",
            f"its pods are ready, but {ready - available} of {ready} not for minReadySeconds ({seconds} s) yet",
        )


# Deployments.


def deployment_pending(case: Case) -> str:
    replicas, status = wanted(case), case.status
    if not case.is_observed:
        return "its controller has not seen its newest specification"
    updated, total = status.get("updatedReplicas") or 0, status.get("replicas") or 0
    if updated < replicas:
        return f"{updated} of {replicas} pods are up to date"
    if total > updated:
        return f"{total - updated} old pods remain"
    if total > replicas:
        return f"{total - replicas} surplus pods remain"
    if (available := status.get("availableReplicas") or 0) < replicas:
        return f"{available} of {replicas} pods are available"
    return ""


def deployment_causes(case: Case) -> Iterator[Cause]:
    if not deployment_pending(case):
        return
    if case.spec.get("paused"):
        new = _newest(case.evidence.owned(case.obj, r.REPLICASETS))
        condition = case.condition("Progressing")
        if new is None or (case.status.get("updatedReplicas") or 0) < wanted(case):
            yield case.cause(
                "rollout-paused",
                "the rollout is paused: spec.paused",
                condition_line(condition),
                since=(condition or {}).get("lastTransitionTime"),
            )
    sets = case.evidence.owned(case.obj, r.REPLICASETS)
    newest = _newest(sets)
    old = [obj for obj in sets if obj is not newest and ((obj.get("status") or {}).get("replicas") or 0)]
    found = list(_of_sets(case, sets, newest, old))
    yield from found
    progressing = case.condition_is("Progressing", "False")
    if progressing is not None and progressing.get("reason") == "ProgressDeadlineExceeded":
        yield case.cause(
            "progress-deadline",
            f"the rollout made no progress in {case.spec.get('progressDeadlineSeconds', 600)} s",
            condition_line(progressing),
            since=progressing.get("lastTransitionTime"),
        )
    if is_lasting(found) or not _progresses(case):
        yield from _rollout_limits(case, sets, old)
    if newest is None:
        yield from overlapping(case, ())


def _of_sets(case: Case, sets: Sequence[Object], newest: Object | None, old: Sequence[Object]) -> Iterator[Cause]:
    """Yield the causes of the ReplicaSets of a Deployment, and of their pods. old: those that still have pods."""
    yield from _recreate(case, sets)
    if newest is not None:  # first, because its condition is the original, and its controller makes the next attempt
        yield from case.follow(r.REPLICASETS, newest)
    yield from failed_create(case)
    for obj in old[:MOST_FOLLOWED]:
        yield from case.follow(r.REPLICASETS, obj)
        yield from troubled_pods(case, case.evidence.owned(obj, r.PODS))


def _progresses(case: Case) -> bool:
    """Report whether a rollout has made progress within its deadline, so that its limits do not keep it waiting."""
    progressing = case.condition_is("Progressing", "True")
    age = case.evidence.age((progressing or {}).get("lastUpdateTime"))
    deadline = min(case.spec.get("progressDeadlineSeconds") or LONGEST_DEADLINE, LONGEST_DEADLINE)
    return age is not None and age <= deadline


def _recreate(case: Case, sets: Sequence[Object]) -> Iterator[Cause]:
    """Yield the pod that the strategy Recreate waits for: it creates no pod while an old one is stopping."""
    is_waiting = (case.status.get("updatedReplicas") or 0) < wanted(case)
    if (case.spec.get("strategy") or {}).get("type") != "Recreate" or not is_waiting:
        return
    own = [pod for obj in sets for pod in case.evidence.owned(obj, r.PODS)]
    yield from stopping(case, own, "the strategy Recreate")


def stopping(case: Case, own: Iterable[Object], what: str) -> Iterator[Cause]:
    """Yield the pods that have been terminating for long, and for which the rollout waits. what: what waits."""
    for pod in [pod for pod in own if is_deleting(pod)][:MOST_FOLLOWED]:
        yield from case.follow(r.PODS, pod)
        seconds, until = pods.stops_slowly(pod, case.now)
        if until is not None:
            yield case.cause(
                "rollout-limits",
                f"{what} waits until pod {name_of(pod)} has stopped: it is terminating, with a grace period of "
                f"{seconds:g} s",
                f"metadata.deletionTimestamp of pod {name_of(pod)}: {pod['metadata']['deletionTimestamp']}",
                since=until - seconds,
                next_attempt=until,
            )


def _newest(sets: Sequence[Object]) -> Object | None:
    """Return the ReplicaSet of the newest revision."""

    def revision(obj: Object) -> int:
        text = annotations_of(obj).get(REVISION, "0")
        return int(text) if text.isdecimal() else 0

    return max(sets, key=revision, default=None)


def _rollout_limits(case: Case, sets: Sequence[Object], old: Sequence[Object]) -> Iterator[Cause]:
    limits = (case.spec.get("strategy") or {}).get("rollingUpdate") or {}
    total, available = case.status.get("replicas") or 0, case.status.get("availableReplicas") or 0
    if old and total >= wanted(case) and available < total:
        names = ", ".join(name_of(obj) for obj in old[:MOST_FOLLOWED])
        own = [pod for obj in sets for pod in case.evidence.owned(obj, r.PODS)]
        unready = [name_of(pod) for pod in own if pods.unready(Case(r.PODS, pod, case.evidence, nothing))]
        yield case.cause(
            "rollout-limits",
            f"the rollout continues when more pods are available: {available} of {total} are, "
            f"maxSurge {limits.get('maxSurge')}, maxUnavailable {limits.get('maxUnavailable')}",
            f"old ReplicaSets: {names}",
            f"pods that are not ready: {', '.join(sorted(unready)[:MOST_FOLLOWED])}" if unready else "",
        )


# DaemonSets.


def daemonset_pending(case: Case) -> str:
    status = case.status
    if not case.is_observed:
        return "its controller has not seen its newest specification"
    desired = status.get("desiredNumberScheduled") or 0
    if (ready := status.get("numberReady") or 0) < desired:
        return f"{ready} of {desired} pods are ready"
    if (updated := status.get("updatedNumberScheduled") or 0) < desired:
        return f"{updated} of {desired} pods are up to date"
    if (available := status.get("numberAvailable") or 0) < desired:
        return f"{available} of {desired} pods are available"
    return ""


def _node_rules(case: Case, pod_spec: Object) -> Iterator[str]:
    """Yield the rules of a pod template about its nodes, in words."""
    if selector := pod_spec.get("nodeSelector"):
        wanted_labels, nodes = map_selector(selector), case.evidence.list(r.NODES)
        number = sum(wanted_labels.matches(labels_of(node)) for node in nodes)
        yield f"{number} of them match the node selector {wanted_labels}"
    affinity = (pod_spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    if terms := required.get("nodeSelectorTerms"):
        yield f"the node affinity requires {terms_in_words(terms)}"


def daemonset_causes(case: Case) -> Iterator[Cause]:
    desired = case.status.get("desiredNumberScheduled") or 0
    template = (case.spec.get("template") or {}).get("spec") or {}
    if case.is_observed and not desired and "desiredNumberScheduled" in case.status:
        nodes, rules = case.evidence.list(r.NODES), list(_node_rules(case, template))
        if nodes and rules:
            yield case.cause(
                "no-matching-nodes",
                f"none of {len(nodes)} nodes is eligible: {', and '.join(rules)}",
                f"status.desiredNumberScheduled {desired}",
            )
    if not daemonset_pending(case):
        return
    own = case.evidence.owned(case.obj, r.PODS)
    yield from failed_create(case)
    yield from troubled_pods(case, own)
    strategy = (case.spec.get("updateStrategy") or {}).get("type")
    updated = case.status.get("updatedNumberScheduled") or 0
    if strategy == "OnDelete" and updated < desired and (case.status.get("numberReady") or 0) >= desired:
        yield case.cause(
            "manual-update",
            f"{desired - updated} pods keep the old revision: the update strategy is OnDelete",
            *old_pods(own, _newest_hash(case)),
        )
    if updated < desired:
        yield from stopping(case, own, "the rollout")
    yield from _delayed_replacements_of_daemons(case, own)
    yield from min_ready(case)


def _newest_hash(case: Case) -> str:
    """Return the hash of the newest revision of a DaemonSet; "" if it is unknown."""
    revisions = case.evidence.owned(case.obj, r.CONTROLLER_REVISIONS)
    newest = max(revisions, key=lambda found: found.get("revision") or 0, default={})
    return labels_of(newest).get(REVISION_HASH) or ""


def old_pods(own: Sequence[Object], newest: str) -> Iterator[str]:
    """Yield a line with the pods of old revisions. newest: value of their label REVISION_HASH; "" if unknown."""
    names = sorted(name_of(pod) for pod in own if newest and labels_of(pod).get(REVISION_HASH) != newest)
    if names:
        more = f" and {len(names) - MOST_FOLLOWED} more" if len(names) > MOST_FOLLOWED else ""
        yield f"pods of the old revision: {', '.join(names[:MOST_FOLLOWED])}{more}"


def _delayed_replacements_of_daemons(case: Case, own: Sequence[Object]) -> Iterator[Cause]:
    event = case.event("FailedDaemonPod")
    if event is not None and len(own) < (case.status.get("desiredNumberScheduled") or 0):
        yield case.cause(
            "failing-pods-backoff", f"failed pods are replaced with delay: {event.get('message')}", event_line(event)
        )
