"""PodSecurity admission of pods, workloads and namespaces.

A pod that violates the enforced level is refused. A workload whose pod template violates a level causes warnings and
audit annotations only.

Source: pod-security-admission admission/{admission,pods}.go, kubernetes
plugin/pkg/admission/security/podsecurity/admission.go (v1.36).
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

from kcm.protocols.admission_plugins import POD_SECURITY
from kcm.protocols.errors import aggregate
from kcm.protocols.objects import Object, decode_object, labels_of, name_of
from kcm.runtime.apiserver.admission.pod_security.evaluator import described, findings
from kcm.runtime.apiserver.admission.pod_security.levels import (
    LEVELS,
    NO_POLICY,
    PREFIX,
    PRIVILEGED,
    LevelVersion,
    NamespacePolicy,
    policy_of,
)
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.admission_settings import BY_DEFAULT, PodSecuritySettings

NAMESPACES, PODS = "namespaces", "pods"
_NO_SETTINGS = BY_DEFAULT.pod_security
MOST_PODS = 3000  # pods evaluated when the level of a namespace changes
_IGNORED = ("binding", "eviction", "status")  # subresources of pods
# Paths of the pod templates.
_TEMPLATES = {
    "podtemplates": ("template",),
    "replicationcontrollers": ("spec", "template"),
    "replicasets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
}


def check(cluster: Cluster, call: RoutedRequest, obj: Object, old: Object | None = None) -> None:
    """Check a pod, a workload with a pod template, or the labels of a Namespace. Other objects are ignored.

    old: the object that an update replaces; None for a creation

    Raises StatusError: 403 for a refused pod, 422 for invalid labels of a Namespace.
    """
    storage, subresource = call.definition.storage, call.route.subresource
    if storage not in _TEMPLATES and storage not in (NAMESPACES, PODS):
        return
    if POD_SECURITY not in cluster.settings.plugins or subresource in _IGNORED or (storage != PODS and subresource):
        return
    if storage == NAMESPACES:
        _check_namespace(cluster, call, obj, old)
        return
    namespace, settings = obj["metadata"]["namespace"], cluster.settings.admission.pod_security
    if settings is not _NO_SETTINGS and (exempt := _exemption(settings, namespace, call.user.name)):
        call.annotate(f"{PREFIX}exempt", exempt)
        return
    record = cluster.state.get(NAMESPACES, namespace)
    if record is None:
        return
    defaults, errors = _defaults(settings), list[FieldError]()
    policy = defaults
    if any(label.startswith(PREFIX) for label in record.labels):
        policy, errors = policy_of(record.labels, defaults)
    if errors:
        call.annotate(f"{PREFIX}error", f"Failed to parse policy: {aggregate(map(str, errors))}")
    elif policy.allows_all:
        if storage == PODS:
            call.annotate(f"{PREFIX}enforce-policy", str(policy.enforce))
        return
    if storage == PODS and old is not None and _images(obj) == _images(old):
        return
    pod = obj
    for part in _TEMPLATES.get(storage, ()):
        pod = pod.get(part) or {}
    if (pod.get("spec") or {}).get("runtimeClassName") in settings.runtime_classes:
        call.annotate(f"{PREFIX}exempt", "runtimeClass")
    elif pod.get("spec"):
        _evaluate(call, policy, pod, enforced=storage == PODS)


def _exemption(settings: PodSecuritySettings, namespace: str, user: str) -> str:
    """Return why the configuration exempts a request: "namespace" or "user"; "" if it is not exempt."""
    if namespace in settings.namespaces:
        return "namespace"
    return "user" if user in settings.users else ""


@cache
def _defaults_of(defaults: tuple[tuple[str, str], ...]) -> NamespacePolicy:
    labels = {f"{PREFIX}{mode}": value for mode, value in defaults}
    whole = {name: labels.get(name, PRIVILEGED) for name in (f"{PREFIX}{mode}" for mode in NamespacePolicy._fields)}
    return policy_of({**labels, **whole})[0]


def _defaults(settings: PodSecuritySettings) -> NamespacePolicy:
    """Return the Pod Security policy of namespaces without labels. A mode without a default is privileged."""
    return NO_POLICY if not settings.defaults else _defaults_of(tuple(settings.defaults.items()))


def _evaluate(call: RoutedRequest, policy: NamespacePolicy, pod: Object, *, enforced: bool) -> None:
    """Evaluate a pod against the levels of a namespace's policy, and add warnings and audit annotations.

    enforced: whether a violation of the enforced level raises StatusError (403)
    """
    definition = call.definition
    refusal: status_errors.StatusError | None = None
    if enforced:
        call.annotate(f"{PREFIX}enforce-policy", str(policy.enforce))
        found = findings(policy.enforce, pod)
        if found:
            because = f'violates PodSecurity "{policy.enforce}": {described(found)}'
            name = call.route.name or name_of(pod)
            refusal = status_errors.forbidden(definition.group, definition.plural, name, because)
    found = findings(policy.audit, pod)
    if found:
        call.annotate(f"{PREFIX}audit-violations", f'would violate PodSecurity "{policy.audit}": {described(found)}')
    if refusal is not None:
        raise refusal
    found = findings(policy.warn, pod)
    if found:
        call.warn(f'would violate PodSecurity "{policy.warn}": {described(found)}')


def _images(pod: Object) -> list[list[tuple[str, str]]]:
    """Return (name, image) of each container, by type of container. Updates that change no image are not evaluated."""
    spec = pod["spec"]
    return [
        [(container.get("name") or "", container.get("image") or "") for container in spec.get(field) or ()]
        for field in ("containers", "initContainers", "ephemeralContainers")
    ]


def _check_namespace(cluster: Cluster, call: RoutedRequest, obj: Object, old: Object | None) -> None:
    """Validate the labels of a Namespace, and warn about its pods that violate a new, stricter level.

    Raises StatusError (422) if the labels are invalid.
    """
    settings = cluster.settings.admission.pod_security
    defaults = _defaults(settings)
    policy, errors = policy_of(labels_of(obj), defaults)
    before, errors_before = (NO_POLICY, []) if old is None else policy_of(labels_of(old), defaults)
    if errors and errors != errors_before:
        raise status_errors.invalid("", "Namespace", name_of(obj), errors)
    is_exempt = name_of(obj) in settings.namespaces
    if old is None and is_exempt:
        _warn_of_exemption(call, obj, policy, defaults)
    if old is None or policy.enforce == before.enforce or policy.enforce.name == PRIVILEGED:
        return
    relaxed = LEVELS.index(policy.enforce.name) <= LEVELS.index(before.enforce.name)
    if policy.enforce.minor == before.enforce.minor and relaxed:
        return
    if is_exempt:
        _warn_of_exemption(call, obj, policy, defaults)
        return
    call.warn_all(_warnings(cluster, name_of(obj), policy.enforce))


def _warn_of_exemption(
    call: RoutedRequest, namespace: Object, policy: NamespacePolicy, defaults: NamespacePolicy
) -> None:
    if policy.allows_all or policy == defaults:
        return
    labels = labels_of(namespace)
    shown = ", ".join(
        f"{mode}={level}"
        for mode, level in zip(NamespacePolicy._fields, policy, strict=True)
        if level.name != PRIVILEGED and (f"{PREFIX}{mode}" in labels or f"{PREFIX}{mode}-version" in labels)
    )
    call.warn(f'namespace "{name_of(namespace)}" is exempt from Pod Security, and the policy ({shown}) will be ignored')


def _warnings(cluster: Cluster, namespace: str, level: LevelVersion) -> list[str]:
    """Return the warnings about existing pods that violate a new enforce level."""
    pods = cluster.state.collection(PODS)
    keys = pods.keys(namespace)
    names: defaultdict[str, list[str]] = defaultdict(list)
    for key in keys[:MOST_PODS]:
        pod = decode_object(pods.records[key].raw)
        if pod["spec"].get("runtimeClassName") in cluster.settings.admission.pod_security.runtime_classes:
            continue
        found = findings(level, pod)
        if found:
            names[", ".join(finding.reason for finding in found)].append(name_of(pod))
    warnings = []
    if len(keys) > MOST_PODS:
        warnings.append(
            f"new PodSecurity enforce level only checked against the first {MOST_PODS} of {len(keys)} existing pods"
        )
    if names:
        warnings.append(f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{level}"')
    return warnings + sorted(f"{_counted(pods)}: {reason}" for reason, pods in names.items())


def _counted(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other {'pod' if others == 1 else 'pods'})"
