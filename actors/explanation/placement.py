"""Evidence for the reasons of the scheduler: amounts, labels, zones, nodes and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case
from kcm.protocols.node_affinity import REQUIRED
from kcm.protocols.objects import Object, controller_of, labels_of, name_of, namespace_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from kcm.protocols.tolerations import tolerates
from kcm.protocols.volumes import claim_keys, is_pod_ended, volume_name_of

MOST_SHOWN = 8  # nodes, labels or domains of one line


def details(case: Case, code: str, reason: str, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield lines of evidence for a reason of the scheduler.

    reason: of the scheduler, such as "Insufficient cpu".
    nodes: those that the pod selects; all of them if it selects none.
    """
    if code == "insufficient-resources" and reason.startswith("Insufficient "):
        yield from _amounts(case, reason.removeprefix("Insufficient ").split()[0], nodes)
    elif code == "node-affinity":
        yield selection(case)
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


def _domains(case: Case, nodes: Sequence[Object]) -> Iterator[str]:
    """Yield the domains of each constraint with their nodes, as cordoned nodes count as domains."""
    for constraint in case.spec.get("topologySpreadConstraints") or ():
        key = constraint.get("topologyKey")
        domains: dict[str, list[str]] = {}
        for node in nodes:
            if key in labels_of(node):
                shown = f"{name_of(node)} (cordoned)" if _is_cordoned(node) else name_of(node)
                domains.setdefault(labels_of(node)[key], []).append(shown)
        parts = [f"{domain}: {', '.join(names[:MOST_SHOWN])}" for domain, names in sorted(domains.items())]
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
