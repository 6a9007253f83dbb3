"""Causes of objects that are being deleted: finalizers, dependents, what remains in namespaces, kubelets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from kcm.actors.explanation import responsible
from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.kinds import API_SERVICES, GARBAGE_COLLECTOR, KINDS
from kcm.actors.explanation.nodes import node_trouble
from kcm.actors.explanation.pods import stops_slowly
from kcm.protocols import resources as r
from kcm.protocols.objects import Object, finalizers_of, is_deleting, metadata, name_of
from kcm.protocols.resources import Resource
from kcm.protocols.volumes import claim_keys

SLOW = 30.0  # seconds that a working controller may take
BRAKED = 5.0  # seconds in which dependents are deleted unless the storm brake is engaged
CUSTOM_RESOURCES = "customresourcecleanup.apiextensions.k8s.io"
FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
CLAIM_PROTECTION, VOLUME_PROTECTION = "kubernetes.io/pvc-protection", "kubernetes.io/pv-protection"
# Finalizers of Kubernetes, with the controllers that remove them.
FINALIZERS: Mapping[str, str] = {
    FOREGROUND: GARBAGE_COLLECTOR,
    ORPHAN: GARBAGE_COLLECTOR,
    CLAIM_PROTECTION: "persistentvolumeclaim-protection-controller",
    VOLUME_PROTECTION: "persistentvolume-protection-controller",
    "kubernetes.io/vac-protection": "volumeattributesclass-protection-controller",
    "batch.kubernetes.io/job-tracking": "job-controller",
    "service.kubernetes.io/load-balancer-cleanup": "service-lb-controller",
    "networking.k8s.io/service-cidr-finalizer": "service-cidr-controller",
    "resource.kubernetes.io/delete-protection": "resourceclaim-controller",
    CUSTOM_RESOURCES: "",  # of the API server
    "scheduling.k8s.io/podgroup-protection": "podgroup-protection-controller",
}
DEPENDENTS = (
    r.PODS,
    r.REPLICASETS,
    r.JOBS,
    r.CONTROLLER_REVISIONS,
    r.PERSISTENT_VOLUME_CLAIMS,
    r.CONFIGMAPS,
    r.SECRETS,
    r.SERVICES,
    r.ENDPOINT_SLICES,
    r.DEPLOYMENTS,
    r.STATEFULSETS,
)
_GROUP_VERSION = re.compile(r"([a-z0-9-]+(?:\.[a-z0-9-]+)+)/(v\d+(?:(?:alpha|beta)\d+)?)")
_REMAINING = re.compile(r"([a-z0-9.-]+) has (\d+) resource instances")


def pending(case: Case) -> str:
    finalizers = finalizers_of(case.obj)
    return f"it is being deleted, with finalizers {', '.join(finalizers)}" if finalizers else "it is being deleted"


def causes(case: Case) -> Iterator[Cause]:
    if case.resource.kind == "Namespace":
        yield from _namespace(case)
    if case.resource.kind == "Pod":
        yield from _pod(case)
    # Finalizers of others are often removed after those of Kubernetes.
    for finalizer in sorted(finalizers_of(case.obj), key=lambda finalizer: finalizer not in FINALIZERS):
        yield from _finalizer(case, finalizer)


def _for(case: Case) -> float:
    """Return for how many seconds it has been being deleted, beyond a grace period."""
    return case.now - (case.deleted if case.deleted is not None else case.now)


def _finalizer(case: Case, finalizer: str) -> Iterator[Cause]:
    controller = FINALIZERS.get(finalizer)
    if controller is None:
        yield case.cause(
            "finalizer",
            f"the finalizer {finalizer} was not removed by {_whose(case, finalizer)}",
            f"metadata.finalizers: {', '.join(finalizers_of(case.obj))}",
            since=case.deleted,
        )
        return
    idle = list(responsible.not_working(case, (controller,))) if controller else []
    for trouble in idle:
        yield case.cause(
            "finalizer-controller",
            f"the finalizer {finalizer} is removed by {controller}, which does not work: {trouble.summary}",
            *trouble.evidence,
            controller=controller,
            since=case.deleted,
            commands=trouble.commands,
        )
    if finalizer == FOREGROUND:
        yield from _dependents(case)
    elif finalizer == CUSTOM_RESOURCES:
        yield from _custom_resources(case)
    elif finalizer == CLAIM_PROTECTION:
        users = [pod for pod in case.evidence.list(r.PODS, case.namespace) if _uses_claim(case, pod)]
        yield from _in_use(case, r.PODS, users)
    elif finalizer == VOLUME_PROTECTION:
        claim = case.spec.get("claimRef") or {}
        found = case.evidence.get(r.PERSISTENT_VOLUME_CLAIMS, f"{claim.get('namespace')}/{claim.get('name')}")
        yield from _in_use(case, r.PERSISTENT_VOLUME_CLAIMS, [] if found is None else [found])
    elif not idle and controller and _for(case) > SLOW:
        yield from responsible.braked(case)
        yield from responsible.hindered(case)


def _custom_resources(case: Case) -> Iterator[Cause]:
    """Yield the causes of the custom resources that must be deleted before their definition."""
    names, group = case.spec.get("names") or {}, case.spec.get("group") or ""
    versions = [version.get("name") or "" for version in case.spec.get("versions") or () if version.get("served")]
    resource = Resource(
        group=group,
        version=versions[0] if versions else "",
        plural=names.get("plural") or "",
        kind=names.get("kind") or "",
        namespaced=case.spec.get("scope") == "Namespaced",
    )
    remaining = case.evidence.list(resource)
    for obj in sorted(remaining, key=lambda obj: not is_deleting(obj))[:MOST_FOLLOWED]:
        yield from case.follow(resource, obj)
    if remaining:
        named = ", ".join(name_of(obj) for obj in remaining[:MOST_FOLLOWED])
        yield case.cause(
            "instances-remain",
            f"{len(remaining)} {resource.plural} must be deleted first: {named}",
            condition_line(case.condition("Terminating")),
            since=case.deleted,
        )


def _whose(case: Case, finalizer: str) -> str:
    """Return who manages a finalizer, if managedFields contain it."""
    written = case.written("f:metadata", "f:finalizers", f'v:"{finalizer}"')
    if written is None or written[0] == "unknown":  # of a client without a name
        return "its owner, which is not a controller of Kubernetes"
    return f"{written[0]}, which wrote it at {written[1]}"


def _uses_claim(case: Case, pod: Object) -> bool:
    """Report whether a pod protects the claim. Pods that have ended protect it as well, until they are deleted."""
    return bool((pod.get("spec") or {}).get("nodeName")) and case.key in claim_keys(pod)


def _in_use(case: Case, resource: Resource, users: Sequence[Object]) -> Iterator[Cause]:
    for user in users[:MOST_FOLLOWED]:
        if is_deleting(user):
            yield from case.follow(resource, user)
    if users:
        named = ", ".join(name_of(user) for user in users[:MOST_FOLLOWED])
        yield case.cause(
            "in-use",
            f"it is still used by {len(users)} {resource.plural}: {named}",
            f"metadata.deletionTimestamp {metadata(case.obj).get('deletionTimestamp')}, "
            f"metadata.finalizers: {', '.join(finalizers_of(case.obj))}",
            since=case.deleted,
        )
    elif _for(case) > SLOW:
        yield from responsible.hindered(case)


def _dependents(case: Case) -> Iterator[Cause]:
    """Yield the causes of dependents that must be deleted before their owner."""
    blocking: list[tuple[Resource, Object]] = []
    for resource in DEPENDENTS:
        for obj in case.evidence.list(resource, case.namespace):
            references = metadata(obj).get("ownerReferences") or ()
            if any(ref.get("uid") == case.uid and ref.get("blockOwnerDeletion") for ref in references):
                blocking.append((resource, obj))
    if any(not is_deleting(obj) for _, obj in blocking) and _for(case) > BRAKED:
        yield from responsible.braked(case)
    for resource, obj in sorted(blocking, key=lambda found: not is_deleting(found[1]))[:MOST_FOLLOWED]:
        yield from case.follow(resource, obj)
    if blocking:
        named = ", ".join(f"{resource.kind.lower()} {name_of(obj)}" for resource, obj in blocking[:MOST_FOLLOWED])
        yield case.cause(
            "foreground-deletion",
            f"{len(blocking)} dependents must be deleted first: {named}",
            f"metadata.finalizers: {', '.join(finalizers_of(case.obj))}",
            controller=GARBAGE_COLLECTOR,
            since=case.deleted,
        )
    elif _for(case) > SLOW:
        yield from responsible.hindered(case)


def _pod(case: Case) -> Iterator[Cause]:
    late = _for(case)
    node = case.evidence.get(r.NODES, case.spec["nodeName"]) if case.spec.get("nodeName") else None
    if node is not None and (trouble := node_trouble(node)) is not None:
        code, text, condition = trouble
        yield case.cause(
            code,
            f"its node {name_of(node)} {text}, so its kubelet does not stop it",
            f"{case.about} is on it",
            condition_line(condition),
            since=(condition or {}).get("lastTransitionTime"),
            about=f"node {name_of(node)}",
            commands=(f"kubectl describe node {name_of(node)}",),
        )
    elif late > SLOW and not finalizers_of(case.obj):
        yield case.cause(
            "kubelet-does-not-stop-pod",
            f"its grace period ended {late:.0f} s ago, and the kubelet has not removed it",
            f"node {case.spec.get('nodeName') or 'none'}",
            since=case.deleted,
        )


def _stopping_pods(case: Case) -> Iterator[Cause]:
    """Yield the pods of a namespace whose grace period is long."""
    for pod in case.evidence.list(r.PODS, case.name):
        seconds, until = stops_slowly(pod, case.now)
        if until is not None and until > case.now:
            yield case.cause(
                "namespace-not-empty",
                f"it still contains pod {name_of(pod)}, which is terminating, with a grace period of {seconds:g} s",
                f"metadata.deletionTimestamp of pod {name_of(pod)}: {metadata(pod)['deletionTimestamp']}",
                since=until - seconds,
                next_attempt=until,
            )
            return


def _remaining_lines(remaining: Sequence[tuple[Resource, Object]]) -> Iterator[str]:
    """Yield the first objects that remain, those with finalizers first: by name, since when they are being deleted."""
    shown = sorted(remaining, key=lambda found: not finalizers_of(found[1]))[:MOST_FOLLOWED]
    for resource, obj in shown:
        deleted, finalizers = metadata(obj).get("deletionTimestamp"), ", ".join(finalizers_of(obj)) or "none"
        state = f"is being deleted since {deleted}" if deleted else "is not being deleted"
        yield f"{resource.kind.lower()} {name_of(obj)} {state}, with finalizers: {finalizers}"
    if len(remaining) > len(shown):
        yield f"and {len(remaining) - len(shown)} more objects"


def _namespace(case: Case) -> Iterator[Cause]:
    idle = list(responsible.not_working(case, ("namespace-controller",)))
    yield from idle
    failed = case.condition_is("NamespaceDeletionDiscoveryFailure", "True")
    if failed is not None:
        yield case.cause(
            "namespace-discovery",
            f"its contents cannot be listed: {failed.get('message')}",
            condition_line(failed),
            controller="namespace-controller",
            since=failed.get("lastTransitionTime"),
        )
        for group, version in list(dict.fromkeys(_GROUP_VERSION.findall(str(failed.get("message")))))[:MOST_FOLLOWED]:
            yield from case.follow(API_SERVICES, case.evidence.get(API_SERVICES, f"{version}.{group}"))
    content = case.condition_is("NamespaceContentRemaining", "True")
    finalizers = case.condition_is("NamespaceFinalizersRemaining", "True")
    failure = case.condition_is("NamespaceDeletionContentFailure", "True")
    followed = 0
    message = str((content or {}).get("message") or "")
    # Pods are deleted first, and while they remain, the conditions do not contain them.
    named = {found[1].rstrip(".") for found in _REMAINING.finditer(message)} or {r.PODS.name}
    resources = [known.resource for known in KINDS if known.resource.namespaced and known.resource.name in named]
    for name in named - {resource.name for resource in resources}:
        plural, _, group = name.partition(".")
        if (other := case.evidence.find(group, plural)) is not None:
            resources.append(other)
    remaining = [(resource, obj) for resource in resources for obj in case.evidence.list(resource, case.name)]
    for resource, obj in remaining:
        if followed < MOST_FOLLOWED and is_deleting(obj):
            found = list(case.follow(resource, obj))
            followed += bool(found)
            yield from found
    if not followed:
        yield from _stopping_pods(case)
    if failure is not None:
        yield case.cause(
            "namespace-not-empty",
            f"its contents cannot be deleted: {failure.get('message')}",
            *_remaining_lines(remaining),
            since=failure.get("lastTransitionTime"),
        )
    elif content is not None or finalizers is not None:
        lines = [condition_line(condition) for condition in (content, finalizers)]
        yield case.cause(
            "namespace-not-empty",
            "it still contains objects: "
            + "; ".join(f"{found[2]} {found[1]}" for found in _REMAINING.finditer(message)),
            *lines,
            *_remaining_lines(remaining),
            controller="namespace-controller",
            since=(content or finalizers or {}).get("lastTransitionTime"),
        )
    elif not idle and _for(case) > SLOW:
        yield from responsible.hindered(case)
