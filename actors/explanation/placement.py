"""Evidence for the reasons of the scheduler: amounts, labels, zones, nodes and volumes."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case
from kcm.actors.explanation.evidence import MOST_LISTED
from kcm.protocols.node_affinity import REQUIRED
from kcm.protocols.objects import Object, controller_of, labels_of, name_of, namespace_of
from kcm.protocols.pod_resources import pod_requests
from kcm.protocols.quantities import format_quantity, parse_quantity, read_quantity
from kcm.protocols.resources import CSI_NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.selectors import NOTHING, LabelSelector, label_selector_of
from kcm.protocols.tolerations import tolerates
from kcm.protocols.volumes import claim_keys, is_pod_ended, volume_name_of

MOST_SHOWN = 8  # nodes, labels or domains of one line


def details(case: Case, code: str, reason: str, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield lines of evidence for a reason of the scheduler.

    reason: of the scheduler, such as "Insufficient cpu".
    nodes: those that the pod selects; all of them if it selects none.
    """
    if code == "insufficient-resources" and reason.startswith("Insufficient "):
        resource = reason.removeprefix("Insufficient ").split()[0]
        yield from _amounts(case, resource, nodes)
        yield from _free(case, resource, nodes)
    elif code == "insufficient-resources":
        yield from _free(case, "pods", nodes)
    elif code == "node-affinity":
        yield selection(case)
    elif code == "pod-affinity":
        yield from _affinity(case, reason)
    elif code == "too-many-volumes":
        yield from _attachable(case, nodes)
    elif code == "topology-spread":
        yield from _domains(case, nodes)
    elif code == "nodes-unschedulable":
        yield f"cordoned: {_names(node for node in nodes if _is_cordoned(node))}"
    elif code == "volume-not-reachable":
        yield from _places_of_volumes(case)
    elif code == "host-port":
        yield from _holders_of_ports(case, nodes)
    elif code == "claim-in-use":
        yield from _users_of_claims(case)


def selection(case: Case) -> str:
    """Return the node selector and the required node affinity of a pod."""
    terms = (((case.spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED) or {}).get("nodeSelectorTerms")
    parts = [f"{key}={value}" for key, value in sorted((case.spec.get("nodeSelector") or {}).items())]
    if terms:
        parts.append(terms_in_words(terms))
    return f"it requires nodes with {', '.join(parts[:MOST_SHOWN])}" if parts else ""


def untolerated(case: Case, nodes: Sequence[Object]) -> dict[str, list[str]]:
    """Return the taints that the pod does not tolerate, with the names of their nodes."""
    tolerations = case.spec.get("tolerations") or ()
    found: dict[str, list[str]] = {}
    for node in nodes:
        for taint in (node.get("spec") or {}).get("taints") or ():
            is_soft = taint.get("effect") == "PreferNoSchedule"
            if not is_soft and not any(tolerates(toleration, taint) for toleration in tolerations):
                value = f"={taint['value']}" if taint.get("value") else ""
                found.setdefault(f"{taint.get('key')}{value}:{taint.get('effect')}", []).append(name_of(node))
    return found


def taint_lines(taints: Mapping[str, Sequence[str]]) -> list[str]:
    return [f"taint {taint} of {', '.join(names[:MOST_SHOWN])}" for taint, names in taints.items()]


def _names(nodes: Iterator[Object]) -> str:
    names = [name_of(node) for node in nodes]
    more = f" and {len(names) - MOST_SHOWN} more" if len(names) > MOST_SHOWN else ""
    return ", ".join(names[:MOST_SHOWN]) + more


def _is_cordoned(node: Object) -> bool:
    return bool((node.get("spec") or {}).get("unschedulable"))


def _amounts(case: Case, resource: str, nodes: Sequence[Object]) -> Iterator[str]:
    requested = [
        f"{amount} by {container.get('name')}"
        for container in (*(case.spec.get("initContainers") or ()), *(case.spec.get("containers") or ()))
        if (amount := ((container.get("resources") or {}).get("requests") or {}).get(resource)) is not None
    ]
    known = [
        str(amount)
        for node in nodes
        if (amount := ((node.get("status") or {}).get("allocatable") or {}).get(resource)) is not None
    ]
    largest = max(known, key=parse_quantity) if known else "none"
    line = f"requested {resource}: {', '.join(requested) or 'none'}; the largest node has {largest} in all"
    yield line + (f" ({_names(iter(nodes))})" if len(nodes) <= MOST_FOLLOWED else "")


def _free(case: Case, resource: str, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield how much of a resource is free on each of a few nodes, and which pod there requests most of it.

    resource: "pods" for the number of pods.
    """
    placed = _placed_pods(case)
    if len(nodes) > MOST_FOLLOWED or placed is None:
        return
    for node in nodes:
        room = ((node.get("status") or {}).get("allocatable") or {}).get(resource)
        here = [pod for pod in placed if pod["spec"]["nodeName"] == name_of(node)]
        if room is None:
            continue
        if resource == "pods":
            yield f"node {name_of(node)} has {len(here)} of {room} pods"
            continue
        taken = [(amount, pod) for pod in here if (amount := _requested(pod, resource))]
        total = read_quantity(room)
        free = format_quantity(total.value - sum(amount for amount, _ in taken), total.form)
        line = f"node {name_of(node)} has {free} of {room} {resource} free"
        if taken:
            most, pod = max(taken, key=lambda found: found[0])
            line += f"; pod {namespace_of(pod)}/{name_of(pod)} requests most of it, {format_quantity(most, total.form)}"
        yield line


def _requested(pod: Object, resource: str) -> Decimal:
    with contextlib.suppress(ValueError):
        if (amount := pod_requests(pod).get(resource)) is not None:
            return amount.value
    return Decimal(0)


def _placed_pods(case: Case) -> list[Object] | None:
    """Return the pods that are on a node and have not ended; None if there are too many to be read."""
    pods = case.evidence.list(PODS)
    if len(pods) >= MOST_LISTED:
        return None
    return [pod for pod in pods if (pod.get("spec") or {}).get("nodeName") and not is_pod_ended(pod)]


def _affinity(case: Case, reason: str) -> Iterator[str]:
    """Yield the rules about other pods that exclude nodes, and the pods that they concern."""
    placed = _placed_pods(case) or []
    if "existing pods" in reason:
        rules = [(pod, term) for pod in placed for term in _pod_terms(pod, "podAntiAffinity")]
        for pod, term in [found for found in rules if _concerns(found[1], found[0], case.obj)][:MOST_SHOWN]:
            yield (
                f"pod {namespace_of(pod)}/{name_of(pod)} on {pod['spec']['nodeName']} forbids pods with "
                f"{_selector_of(term)} in its {term.get('topologyKey')}"
            )
        return
    kind = "podAntiAffinity" if "anti-affinity" in reason else "podAffinity"
    for term in _pod_terms(case.obj, kind):
        found = [f"{name_of(pod)} on {pod['spec']['nodeName']}" for pod in placed if _concerns(term, case.obj, pod)]
        more = f" and {len(found) - MOST_SHOWN} more" if len(found) > MOST_SHOWN else ""
        yield (
            f"its {kind} {'forbids' if 'Anti' in kind else 'requires'} pods with {_selector_of(term)} in the same "
            f"{term.get('topologyKey')}: {', '.join(found[:MOST_SHOWN]) or 'there are none'}{more}"
        )


def _pod_terms(pod: Object, kind: str) -> Sequence[Mapping[str, Any]]:
    """Return the required terms of podAffinity or podAntiAffinity."""
    return (((pod.get("spec") or {}).get("affinity") or {}).get(kind) or {}).get(REQUIRED) or ()


def _concerns(term: Mapping[str, Any], pod: Object, other: Object) -> bool:
    """Report whether a term of a pod selects another one. The selector of namespaces is taken to match all of them."""
    namespaces = term.get("namespaces") or (namespace_of(pod),)
    is_there = namespace_of(other) in namespaces or term.get("namespaceSelector") is not None
    return is_there and _selector_of(term).matches(labels_of(other))


def _selector_of(term: Mapping[str, Any]) -> LabelSelector:
    """Return the label selector of a term or a constraint; one that matches nothing if it is malformed."""
    try:
        return label_selector_of(term.get("labelSelector"))
    except (ValueError, AttributeError, TypeError):
        return NOTHING


def _attachable(case: Case, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield how many volumes each driver can attach to each of a few nodes."""
    for node in nodes[:MOST_FOLLOWED]:
        found = case.evidence.get(CSI_NODES, name_of(node))
        for driver in ((found or {}).get("spec") or {}).get("drivers") or ():
            count = (driver.get("allocatable") or {}).get("count")
            if count is not None:
                yield f"driver {driver.get('name')} attaches at most {count} volumes to node {name_of(node)}"


def _domains(case: Case, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield the domains of each constraint with their nodes, as cordoned nodes count as domains."""
    placed = _placed_pods(case)
    for constraint in case.spec.get("topologySpreadConstraints") or ():
        key, selector = constraint.get("topologyKey"), _selector_of(constraint)
        own = [pod for pod in placed or () if namespace_of(pod) == case.namespace and selector.matches(labels_of(pod))]
        counts = Counter(pod["spec"]["nodeName"] for pod in own)
        numbers: Counter[str] = Counter()
        domains: dict[str, list[str]] = {}
        for node in nodes:
            if key in labels_of(node):
                shown = f"{name_of(node)} (cordoned)" if _is_cordoned(node) else name_of(node)
                domains.setdefault(labels_of(node)[key], []).append(shown)
                numbers[labels_of(node)[key]] += counts[name_of(node)]
        parts = [
            f"{domain}: {', '.join(names[:MOST_SHOWN])}" + ("" if placed is None else f" with {numbers[domain]} pods")
            for domain, names in sorted(domains.items())
        ]
        yield f"maxSkew {constraint.get('maxSkew')} over {key}: {'; '.join(parts[:MOST_SHOWN]) or 'no node has it'}"


def _host_ports(pod: Object) -> set[tuple[int, str]]:
    """Return the host ports of a pod, by (number, protocol)."""
    spec = pod.get("spec") or {}
    return {
        (port["hostPort"], port.get("protocol") or "TCP")
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }


def _holders_of_ports(case: Case, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield the pods that have the host ports of this one on the nodes. Host addresses are not compared."""
    wanted, owner = _host_ports(case.obj), controller_of(case.obj)
    names = {name_of(node) for node in nodes}
    shown = 0
    for pod in case.evidence.list(PODS):
        node, taken = (pod.get("spec") or {}).get("nodeName"), wanted & _host_ports(pod)
        if node not in names or not taken or is_pod_ended(pod) or shown >= MOST_SHOWN:
            continue
        shown += 1
        ports, other = ", ".join(f"{number}/{protocol}" for number, protocol in sorted(taken)), controller_of(pod)
        is_old = owner is not None and other is not None and other.uid == owner.uid and owner.kind == "DaemonSet"
        yield f"pod {namespace_of(pod)}/{name_of(pod)} on {node} has host port {ports}" + (
            "; it is the old pod of the same DaemonSet, which stays until this one is ready (maxSurge)"
            if is_old
            else ""
        )


def _users_of_claims(case: Case) -> Iterator[str]:
    """Yield the other pods that use the claims of a pod that only one pod may use."""
    for name in claims_of(case):
        claim = case.evidence.get(PERSISTENT_VOLUME_CLAIMS, f"{case.namespace}/{name}")
        if claim is None or "ReadWriteOncePod" not in ((claim.get("spec") or {}).get("accessModes") or ()):
            continue
        for pod in case.evidence.list(PODS, case.namespace):
            placed = (pod.get("spec") or {}).get("nodeName")
            if (
                name_of(pod) != case.name
                and placed
                and not is_pod_ended(pod)
                and f"{case.namespace}/{name}" in claim_keys(pod)
            ):
                yield f"claim {name} is ReadWriteOncePod, and pod {name_of(pod)} on {placed} uses it"


def claims_of(case: Case) -> list[str]:
    """Return the names of the PersistentVolumeClaims of a pod, with those of its ephemeral volumes."""
    volumes: Sequence[Mapping[str, Any]] = case.spec.get("volumes") or ()
    names = [(volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in volumes]
    names += [f"{case.name}-{volume.get('name')}" for volume in volumes if volume.get("ephemeral")]
    return [name for name in names if name]


def device_claims_of(case: Case) -> list[str]:
    """Return the names of the ResourceClaims of a pod, with those that were made from templates."""
    names = [claim.get("resourceClaimName") for claim in case.spec.get("resourceClaims") or ()]
    names += [status.get("resourceClaimName") for status in case.status.get("resourceClaimStatuses") or ()]
    return list(dict.fromkeys(name for name in names if name))


def _places_of_volumes(case: Case) -> Iterator[str]:
    for volume in case.spec.get("volumes") or ():
        name = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        claim = case.evidence.get(PERSISTENT_VOLUME_CLAIMS, f"{case.namespace}/{name}") if name else None
        if claim is None or not volume_name_of(claim):
            continue
        found = case.evidence.get(PERSISTENT_VOLUMES, volume_name_of(claim))
        if found is None and case.evidence.is_missing(PERSISTENT_VOLUMES, volume_name_of(claim)):
            yield f"claim {name} is bound to volume {volume_name_of(claim)}, which does not exist"
        required = (((found or {}).get("spec") or {}).get("nodeAffinity") or {}).get("required") or {}
        if required.get("nodeSelectorTerms"):
            where = terms_in_words(required["nodeSelectorTerms"])
            yield f"claim {name} is bound to volume {volume_name_of(claim)}, which is reachable from nodes with {where}"


def terms_in_words(terms: Sequence[Mapping[str, Any]]) -> str:
    """Return the alternatives of a node selector in words."""
    return " or ".join(
        " and ".join(
            f"{rule.get('key')} {rule.get('operator')} {', '.join(rule.get('values') or ())}".strip()
            for rule in (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
        )
        for term in terms[:MOST_FOLLOWED]
    )
