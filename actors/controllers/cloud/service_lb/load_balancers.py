"""Which Services want a load balancer, what of them concerns it, and which nodes it sends to: pure.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/controllers/service/controller.go (wantsLoadBalancer,
needsCleanup, needsUpdate, stableNodeSetPredicates, nodesSufficientlyEqual, loggableNodeNames).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kcm.protocols.nodes import NodeFacts
from kcm.protocols.objects import Object, annotations_of, finalizers_of, is_deleting, uid_of
from kcm.runtime.tables.entry import Entry

FINALIZER = "service.kubernetes.io/load-balancer-cleanup"
MOST_NAMES = 20  # of nodes, in events
_OF_PORT = ("name", "protocol", "port", "nodePort", "targetPort", "appProtocol")
_OF_SPEC = (
    "loadBalancerSourceRanges",
    "sessionAffinity",
    "sessionAffinityConfig",
    "loadBalancerIP",
    "externalIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
)


def wants_balancer(service: Object) -> bool:
    """One of a class is another controller's."""
    spec = service.get("spec") or {}
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") is None


def has_finalizer(service: Object) -> bool:
    return FINALIZER in finalizers_of(service)


def needs_cleanup(service: Object) -> bool:
    """Whether a load balancer of ours may be there that nobody wants any more."""
    going = is_deleting(service) or (service.get("spec") or {}).get("type") != "LoadBalancer"
    return going and has_finalizer(service)


def wish_of(service: Object) -> Any:
    """All that a load balancer may depend on, to be compared with that of another version."""
    spec = service.get("spec") or {}
    return (
        uid_of(service),
        annotations_of(service),
        [spec.get(field) or None for field in _OF_SPEC],
        [[port.get(field) for field in _OF_PORT] for port in spec.get("ports") or ()],
        len(spec.get("ipFamilies") or ()),
    )


def needs_update(old: Object, new: Object) -> bool:
    """Whether the load balancer is to be ensured anew, or deleted."""
    wanted, wants = wants_balancer(old), wants_balancer(new)
    return wanted != wants or (wants and wish_of(old) != wish_of(new))


Targets = dict[str, str]  # by the node's name, its providerID


def is_target(facts: NodeFacts) -> bool:
    """Whether a load balancer sends to the node, ready or not: its own health checks find out."""
    return not (facts.balancer_excluded or facts.balancer_leaving)


def targets_of(nodes: Iterable[Entry]) -> Targets:
    return {node.key: node.facts.provider_id for node in nodes if is_target(node.facts)}


def loggable(names: Sequence[str]) -> str:
    """As upstream prints them: "[a b <3 more>]"."""
    shown = sorted(names[:MOST_NAMES])
    if len(names) > MOST_NAMES:
        shown.append(f"<{len(names) - MOST_NAMES} more>")
    return f"[{' '.join(shown)}]"
