"""Which nodes a DaemonSet's pods run on: by name, labels and taints, as the scheduler has it.

Resources, ports and cordons play no part: the pod is made, and waits until the scheduler finds room.

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

MOST_NODES = 20_000  # forms of nodes that a placement remembers its verdicts on

_TOLERATED = (
    (NOT_READY, NO_EXECUTE),
    (UNREACHABLE, NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    (UNSCHEDULABLE, NO_SCHEDULE),
)
_TOLERATED_BY_HOST_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


class Verdict(NamedTuple):
    """should_run: a pod belongs on the node. may_stay: one that is there stays; only taints let these two differ."""

    should_run: bool
    may_stay: bool


NEITHER, STAY, BOTH = Verdict(False, False), Verdict(False, True), Verdict(True, True)


def daemon_tolerations(spec: Mapping[str, Any]) -> list[Object]:
    """The tolerations of a pod's spec, and those that every pod of a DaemonSet has. Source: as the module."""
    tolerations = list(spec.get("tolerations") or ())
    wanted = [*_TOLERATED, _TOLERATED_BY_HOST_NETWORK] if spec.get("hostNetwork") else _TOLERATED
    for key, effect in wanted:
        toleration = {"key": key, "operator": "Exists", "effect": effect}
        alike = [i for i, one in enumerate(tolerations) if _is_alike(one, toleration)]
        if not alike:
            tolerations.append(toleration)
        for i in alike:
            tolerations[i] = toleration  # without the seconds that it may have had
    return tolerations


def _is_alike(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all((one.get(part) or "") == (other.get(part) or "") for part in ("key", "operator", "effect", "value"))


class Placement:
    """Where the pods of a template run. Equal templates share one, so that each node is looked at once."""

    def __init__(
        self,
        *,
        node_name: str,
        selector: Mapping[str, str],
        terms: Sequence[Term] | None,
        tolerations: Sequence[Mapping[str, Any]],
        comparing: bool,
    ) -> None:
        """terms: alternatives of the required node affinity; None without one. comparing: Lt and Gt are known."""
        self._node_name, self._selector, self._terms = node_name, selector.items(), terms
        self._tolerations, self._comparing = tolerations, comparing
        self._verdicts: dict[bytes, Verdict] = {b"": NEITHER}

    def verdict(self, node: bytes) -> Verdict:
        """node: NodeFacts.placement; b"" for one that is not there."""
        known = self._verdicts.get(node)
        if known is None:
            if len(self._verdicts) > MOST_NODES:
                self._verdicts = {b"": NEITHER}
            name, labels, taints = orjson.loads(node)
            known = self._verdicts[node] = self._judge(name, labels, taints)
        return known

    def verdicts(self, nodes: Iterable[Entry]) -> dict[str, Verdict]:
        """By the nodes' names. Asked of all nodes at every sync."""
        known = self._verdicts.get
        return {
            node.key: known(node.facts.placement) or self.verdict(node.facts.placement)  # a verdict is never empty
            for node in nodes
        }

    def _judge(self, name: str, labels: Mapping[str, str], taints: Iterable[Mapping[str, Any]]) -> Verdict:
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


def placement_of(template: Mapping[str, Any], *, comparing: bool) -> Placement:
    """comparing: whether tolerations may compare numbers. Raises ValueError on a malformed template."""
    spec = template.get("spec") or {}
    parts = {name: spec.get(name) for name in ("nodeName", "nodeSelector", "affinity", "tolerations", "hostNetwork")}
    try:
        return _shared(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS), comparing)
    except (AttributeError, TypeError) as err:
        raise ValueError(f"spec.template.spec says in a form that is none where pods are to run: {err}") from err


@bounded_cache(256, longest=64 * 1024, size=first_size)
def _shared(parts: bytes, comparing: bool) -> Placement:
    spec = orjson.loads(parts)
    return Placement(
        node_name=spec["nodeName"] or "",
        selector=spec["nodeSelector"] or {},
        terms=required_terms(spec["affinity"]),
        tolerations=daemon_tolerations(spec),
        comparing=comparing,
    )
