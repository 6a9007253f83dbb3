"""Eligibility of nodes for a DaemonSet's pods: by node name, node selector, required node affinity, and taints.

Resource requests, host ports and cordons do not affect eligibility: the pod is created, and remains pending until the
scheduler can bind it.

Source: kubernetes v1.36 pkg/controller/daemon/daemon_controller.go (NodeShouldRunDaemonPod) and
daemon/util/daemonset_util.go (AddOrUpdateDaemonPodTolerations).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson

from kcm.protocols.bounded_cache import bounded_cache, first_size
from kcm.protocols.node_affinity import Term, required_terms
from kcm.protocols.nodes import NO_EXECUTE, NO_SCHEDULE, NOT_READY, UNREACHABLE, UNSCHEDULABLE
from kcm.protocols.objects import Object
from kcm.protocols.tolerations import find_toleration
from kcm.runtime.tables.table import Entry

MAX_VERDICTS = 20_000  # distinct NodeFacts.placement for which a PodPlacement caches its verdict

_TOLERATED = (
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE, NO_SCHEDULE),
)
_TOLERATED_BY_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


class NodeVerdict(NamedTuple):
    """Decision whether a node should run the DaemonSet's pod.

    Only an untolerated NoSchedule taint makes the two fields differ.

    Source: the results of NodeShouldRunDaemonPod.
    """

    should_run: bool  # create a pod if the node has no pod
    may_stay: bool  # keep an existing pod


NEITHER, STAY, BOTH = NodeVerdict(False, False), NodeVerdict(False, True), NodeVerdict(True, True)


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Object]:
    """Return the tolerations of a pod spec, plus the tolerations that every DaemonSet pod gets.

    Source: AddOrUpdateDaemonPodTolerations.
    """
    tolerations = list(spec.get("tolerations") or ())
    wanted = [*_TOLERATED, _TOLERATED_BY_HOST_NETWORK] if spec.get("hostNetwork") else _TOLERATED
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        matching = [i for i, known in enumerate(tolerations) if _matches(known, toleration)]
        if not matching:
            tolerations.append(toleration)
        for i in matching:
            tolerations[i] = toleration  # drops tolerationSeconds
    return tolerations


def _matches(toleration: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(
        (toleration.get(part) or "") == (other.get(part) or "") for part in ("key", "operator", "effect", "value")
    )


class PodPlacement:
    """Decides which nodes are eligible for a pod template, and caches each verdict.

    Templates with equal scheduling constraints share an instance.
    """

    def __init__(
        self,
        *,
        node_name: str,  # "" for any
        selector: Mapping[str, str],
        terms: Sequence[Term] | None,  # of the required node affinity, any of which must match; None without affinity
        tolerations: Sequence[Mapping[str, Any]],
        comparing: bool,  # whether the operators Lt and Gt are supported
    ) -> None:
        self._node_name, self._selector, self._terms = node_name, selector.items(), terms
        self._tolerations, self._comparing = tolerations, comparing
        self._verdicts: dict[bytes, NodeVerdict] = {b"": NEITHER}

    def verdict(self, node: bytes) -> NodeVerdict:
        """Return the verdict on a node, given its encoded NodeFacts.placement; b"" for a missing node."""
        known = self._verdicts.get(node)
        if known is None:
            if len(self._verdicts) > MAX_VERDICTS:
                self._verdicts = {b"": NEITHER}
            name, labels, taints = orjson.loads(node)
            known = self._verdicts[node] = self._decide(name, labels, taints)
        return known

    def verdicts(self, nodes: Iterable[Entry]) -> dict[str, NodeVerdict]:
        """Return the verdict on each node, by node name."""
        # Every sync of a DaemonSet calls this for all nodes.
        known = self._verdicts.get
        return {
            node.key: known(node.facts.placement) or self.verdict(node.facts.placement)  # a verdict is never empty
            for node in nodes
        }

    def _decide(self, name: str, labels: Mapping[str, str], taints: Iterable[Mapping[str, Any]]) -> NodeVerdict:
        if self._node_name not in ("", name):
            return NEITHER
        if not self._selector <= labels.items():
            return NEITHER
        if self._terms is not None and not any(term.matches(name, labels) for term in self._terms):
            return NEITHER
        effects = {taint.get("effect") for taint in taints if not self._tolerates(taint)}
        if NO_EXECUTE in effects:
            return NEITHER
        return STAY if NO_SCHEDULE in effects else BOTH

    def _tolerates(self, taint: Mapping[str, Any]) -> bool:
        return find_toleration(self._tolerations, taint, comparing=self._comparing) is not None


def placement_of(template: Mapping[str, Any], *, comparing: bool) -> PodPlacement:
    """Return the PodPlacement of a pod template. Raises ValueError if the scheduling constraints are malformed.

    comparing: whether tolerations may use the operators Lt and Gt.
    """
    spec = template.get("spec") or {}
    parts = {name: spec.get(name) for name in ("nodeName", "nodeSelector", "affinity", "tolerations", "hostNetwork")}
    try:
        return _shared(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), comparing)
    except (AttributeError, TypeError) as err:
        raise ValueError(f"spec.template.spec has malformed scheduling constraints: {err}") from err


@bounded_cache(256, longest=64 * 1024, size=first_size)
def _shared(parts: bytes, comparing: bool) -> PodPlacement:
    spec = orjson.loads(parts)
    return PodPlacement(
        node_name=spec["nodeName"] or "",
        selector=spec["nodeSelector"] or {},
        terms=required_terms(spec["affinity"]),
        tolerations=daemon_tolerations(spec),
        comparing=comparing,
    )
