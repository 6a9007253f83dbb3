"""Evidence for the reasons of the scheduler: amounts, labels, zones, nodes and volumes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case
from kcm.protocols.node_affinity import REQUIRED
from kcm.protocols.objects import Object, labels_of, name_of
from kcm.protocols.quantities import parse_quantity
from kcm.protocols.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from kcm.protocols.tolerations import tolerates
from kcm.protocols.volumes import volume_name_of

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
