"""Causes of pods without a node, from the scheduler's message and from the nodes.

The message of the scheduler is the only place where its reasons are: "0/3 nodes are available: 1 Insufficient cpu, 2
node(s) had untolerated taint(s). …". Source of the texts: kubernetes v1.36 pkg/scheduler/framework/plugins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kcm.actors.explanation.case import MOST_FOLLOWED, Case, condition_line, event_line
from kcm.actors.explanation.cause import Cause
from kcm.actors.explanation.devices import requests
from kcm.actors.explanation.nodes import node_trouble
from kcm.actors.explanation.placement import claims_of, details, device_claims_of, taint_lines, untolerated
from kcm.actors.explanation.storage import unmatched_claims
from kcm.protocols.node_affinity import required_terms
from kcm.protocols.objects import Object, is_deleting, labels_of, metadata, name_of, namespace_of
from kcm.protocols.resources import NODES, PERSISTENT_VOLUME_CLAIMS, PODS, RESOURCE_CLAIMS
from kcm.protocols.selectors import map_selector

UNSCHEDULED = 10.0  # seconds after which a scheduler should have handled a pod
EARLY = 5.0  # seconds in which the claims of a pod are created
_PARTS = re.compile(r"(?:^|[:,] )(\d+) ((?:[^,.]|\.(?!\s|$)|,(?! \d))+)")
# Beginnings of the scheduler's reasons, with the code and what it means.
REASONS: tuple[tuple[str, str, str], ...] = (
    ("Insufficient ", "insufficient-resources", "there is not enough free {rest}"),
    ("Too many pods", "insufficient-resources", "the nodes have as many pods as they can"),
    ("node(s) had untolerated taint", "untolerated-taint", "the pod does not tolerate their taints"),
    ("node(s) were unschedulable", "nodes-unschedulable", "the nodes are cordoned"),
    ("node(s) didn't match Pod's node affinity/selector", "node-affinity", "they do not match its node selector"),
    ("node(s) didn't satisfy plugin(s) [NodeAffinity]", "node-affinity", "they do not match its node affinity"),
    ("node(s) didn't match the requested node name", "node-affinity", "they are not the requested node"),
    ("node(s) didn't match pod affinity rules", "pod-affinity", "no pod that it must run beside is there"),
    ("node(s) didn't match pod anti-affinity rules", "pod-affinity", "pods that it must not run beside are there"),
    ("node(s) didn't satisfy existing pods anti-affinity rules", "pod-affinity", "pods there refuse it beside them"),
    ("node(s) didn't match pod topology spread constraints", "topology-spread", "it would be spread too unevenly"),
    ("node(s) didn't have free ports", "host-port", "its host port is taken there"),
    ("node(s) exceed max volume count", "too-many-volumes", "they cannot attach another volume"),
    ("node(s) didn't find available persistent volumes", "claim-no-volume", "no free volume matches its claim"),
    ("node(s) didn't match PersistentVolume's node affinity", "volume-not-reachable", "its volume is elsewhere"),
    ("node(s) had volume node affinity conflict", "volume-not-reachable", "its volume is elsewhere"),
    ("node(s) had no available volume zone", "volume-not-reachable", "its volume is in another zone"),
    ("node(s) unavailable due to one or more pvc(s) bound", "volume-not-reachable", "its volume does not exist"),
    (
        "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode",
        "claim-in-use",
        "another pod uses its claim, which only one pod may use",
    ),
    ("cannot allocate all claims", "device-unavailable", "no free devices meet its claims"),
    ("node(s) had no free device", "device-unavailable", "no free devices meet its claims"),
)


def causes(case: Case) -> Iterator[Cause]:
    """Yield the causes of a pod that is not bound to a node."""
    spec = case.spec
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or ()]
    if gates:
        yield case.cause(
            "scheduling-gates",
            f"the pod is not scheduled before its gates are removed: {', '.join(map(str, gates))}",
            condition_line(case.condition("PodScheduled")),
            since=case.created,
        )
        return
    condition = case.condition_is("PodScheduled", "False")
    if condition is None:
        age = 0.0 if case.created is None else case.now - case.created
        # The scheduler does not try pods whose claims do not exist, and writes no condition.
        waits = list(waits_for_claims(case, "scheduler: has not tried to place the pod")) if age > EARLY else []
        yield from waits or (_ignored(case) if age > UNSCHEDULED else ())
        return
    yield from _unschedulable(case, condition)


def _ignored(case: Case) -> Iterator[Cause]:
    if not case.evidence.list(NODES) and not case.evidence.notes:
        yield case.cause("no-nodes", "the cluster has no nodes", since=case.created)
        return
    name = case.spec.get("schedulerName") or "default-scheduler"
    yield case.cause(
        "no-scheduler",
        f"no scheduler has handled the pod: its schedulerName is {name}",
        "no condition PodScheduled",
        since=case.created,
    )


def parts_of(message: str) -> list[tuple[int, str]]:
    """Return the numbers of nodes with the reasons of the scheduler, most nodes first."""
    text = message.partition(" preemption:")[0].partition("nodes are available: ")[2]
    found = [(int(number), reason.strip()) for number, reason in _PARTS.findall(f": {text}")]
    return sorted(found, key=lambda part: -part[0])


def _unschedulable(case: Case, condition: Mapping[str, Any]) -> Iterator[Cause]:
    message, since = str(condition.get("message") or ""), condition.get("lastTransitionTime")
    line = condition_line(condition)
    waits = list(waits_for_claims(case, f"scheduler: {message}"))
    yield from waits
    if case.status.get("nominatedNodeName"):
        node = case.status["nominatedNodeName"]
        stopping = [
            pod
            for pod in case.evidence.list(PODS)
            if (pod.get("spec") or {}).get("nodeName") == node and is_deleting(pod)
        ]
        named = ", ".join(f"{namespace_of(pod)}/{name_of(pod)}" for pod in stopping[:MOST_FOLLOWED])
        yield case.cause(
            "preempting",
            f"pods of lower priority on {node} are being stopped for it" + (f": {named}" if named else ""),
            line,
            *(
                f"pod {name_of(pod)} has a grace period of {metadata(pod).get('deletionGracePeriodSeconds')} s, until "
                f"{metadata(pod)['deletionTimestamp']}"
                for pod in stopping[:MOST_FOLLOWED]
            ),
            since=since,
        )
    if "no nodes available" in message:
        yield case.cause("no-nodes", "the cluster has no nodes", line, since=since)
        return
    known = bool(waits)
    for number, reason in sorted(parts_of(message), key=lambda part: _is_elsewhere(case, part[1])):
        code, meaning = code_of(reason)
        if not code:
            continue
        known = True
        if code == "untolerated-taint":
            if not _is_elsewhere(case, reason):
                yield from _tainted(case, number, line, since)
            continue
        nodes = _selected_nodes(case) or case.evidence.list(NODES)
        if code == "device-unavailable":
            lines = requests(case)
        elif code == "claim-no-volume":
            lines = unmatched_claims(case)
        else:
            lines = details(case, code, reason, nodes)
        yield case.cause(code, f"{number} nodes are excluded: {meaning}", line, *lines, since=since)
    age = case.evidence.age(since)
    is_recent = age is not None and age < UNSCHEDULED  # the claims may have been bound since
    if not known and not (is_recent and "persistentvolumeclaim" in message.lower()):
        yield case.cause("unschedulable", f"the scheduler found no node: {message}", line, since=since)


def _is_elsewhere(case: Case, reason: str) -> bool:
    """Report whether a reason concerns only nodes that the pod does not select, while other nodes match."""
    code, selected = code_of(reason)[0], _selected_nodes(case)
    if code == "untolerated-taint":
        return bool(selected) and all(node_trouble(node) is None and not untolerated(case, [node]) for node in selected)
    return code == "node-affinity" and bool(selected)


def _selected_nodes(case: Case) -> list[Object]:
    """Return the nodes that match the pod's node selector and its required node affinity."""
    selector, terms = map_selector(case.spec.get("nodeSelector")), required_terms(case.spec.get("affinity"))
    return [
        node
        for node in case.evidence.list(NODES)
        if selector.matches(labels_of(node))
        and (terms is None or any(term.matches(name_of(node), labels_of(node)) for term in terms))
    ]


def code_of(reason: str) -> tuple[str, str]:
    """Return the code of a scheduler's reason, with its meaning; "" for an unknown one."""
    for beginning, code, meaning in REASONS:
        if reason.startswith(beginning):
            return code, meaning.format(rest=reason.removeprefix(beginning))
    return "", ""


def waits_for_claims(case: Case, line: str) -> Iterator[Cause]:
    """Yield the causes of the claims that the pod waits for. line: evidence for a claim that does not exist."""
    for claim in claims_of(case):
        key = f"{case.namespace}/{claim}"
        found = case.evidence.get(PERSISTENT_VOLUME_CLAIMS, key)
        if found is not None:
            if (found.get("status") or {}).get("phase") != "Bound" or is_deleting(found):
                yield from case.follow(PERSISTENT_VOLUME_CLAIMS, found)
        elif case.evidence.is_missing(PERSISTENT_VOLUME_CLAIMS, key):
            yield case.cause("claim-missing", f"its PersistentVolumeClaim {claim} does not exist", line)
    for name in device_claims_of(case):
        claim_of_devices = case.evidence.get(RESOURCE_CLAIMS, f"{case.namespace}/{name}")
        if claim_of_devices is not None:
            if not (claim_of_devices.get("status") or {}).get("allocation"):
                yield from case.follow(RESOURCE_CLAIMS, claim_of_devices)
        elif case.evidence.is_missing(RESOURCE_CLAIMS, f"{case.namespace}/{name}"):
            yield case.cause("device-claim-missing", f"its ResourceClaim {name} does not exist", line)


def _tainted(case: Case, number: int, line: str, since: Any) -> Iterator[Cause]:
    """Yield why nodes are tainted: they do not respond, are cordoned, or were tainted by people."""
    nodes = _selected_nodes(case) or case.evidence.list(NODES)
    lost = [(node, trouble) for node in nodes if (trouble := node_trouble(node)) is not None]
    for node, (code, text, condition) in lost[:MOST_FOLLOWED]:
        yield case.cause(
            code,
            f"the node {name_of(node)} {text}",
            condition_line(condition),
            since=(condition or {}).get("lastTransitionTime"),
            about=f"node {name_of(node)}",
            commands=(f"kubectl describe node {name_of(node)}",),
        )
    if len(lost) >= number:
        return
    cordoned = [node for node in nodes if (node.get("spec") or {}).get("unschedulable")]
    if cordoned and len(cordoned) + len(lost) >= number:
        named = ", ".join(name_of(node) for node in cordoned[:MOST_FOLLOWED])
        yield case.cause("nodes-unschedulable", f"{len(cordoned)} nodes are cordoned: {named}", line, since=since)
        return
    taints = untolerated(case, nodes)
    yield case.cause(
        "untolerated-taint",
        f"the pod does not tolerate the taints of {number} nodes: {', '.join(taints)}",
        line,
        *taint_lines(taints),
        since=since,
    )


def scheduler_line(case: Case) -> str:
    return event_line(case.event("FailedScheduling"))
