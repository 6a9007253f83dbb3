"""Decisions about load balancers: which Services need one, which fields affect it, and which nodes are its targets.

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
MAX_NODE_NAMES = 20  # of nodes, in events
_PORT_FIELDS = ("name", "protocol", "port", "nodePort", "targetPort", "appProtocol")
_SPEC_FIELDS = (
    "loadBalancerSourceRanges",
    "sessionAffinity",
    "sessionAffinityConfig",
    "loadBalancerIP",
    "externalIPs",
    "externalTrafficPolicy",
    "healthCheckNodePort",
)


def wants_load_balancer(service: Object) -> bool:
    """Report whether this controller must provide a load balancer for the Service.

    The Service has type LoadBalancer and no loadBalancerClass, which would select another controller.
    """
    spec = service.get("spec") or {}
    return spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") is None


def has_finalizer(service: Object) -> bool:
    return FINALIZER in finalizers_of(service)


def needs_cleanup(service: Object) -> bool:
    """Report whether the Service may have a load balancer that it does not need any more.

    The Service has the cleanup finalizer, and is being deleted or has another type.
    """
    unneeded = is_deleting(service) or (service.get("spec") or {}).get("type") != "LoadBalancer"
    return unneeded and has_finalizer(service)


def desired_state(service: Object) -> Any:
    """Return the fields of a Service that may affect its load balancer, to compare two versions of the Service."""
    spec = service.get("spec") or {}
    return (
        uid_of(service),
        annotations_of(service),
        [spec.get(field) or None for field in _SPEC_FIELDS],
        [[port.get(field) for field in _PORT_FIELDS] for port in spec.get("ports") or ()],
        len(spec.get("ipFamilies") or ()),
    )


def needs_update(old: Object, new: Object) -> bool:
    """Report whether the load balancer must be created, updated or deleted after a change of the Service."""
    wanted, wants = wants_load_balancer(old), wants_load_balancer(new)
    return wanted != wants or (wants and desired_state(old) != desired_state(new))


Targets = dict[str, str]  # providerID by node name


def is_target(facts: NodeFacts) -> bool:
    """Report whether load balancers send traffic to the node.

    Nodes that are not ready are targets too, because load balancers have their own health checks. Nodes that are
    excluded by a label, or that are being deleted, are not targets.
    """
    return not (facts.balancer_excluded or facts.balancer_leaving)


def targets_of(nodes: Iterable[Entry]) -> Targets:
    return {node.key: node.facts.provider_id for node in nodes if is_target(node.facts)}


def format_node_names(names: Sequence[str]) -> str:
    """Format node names for an event, at most 20, as upstream: "[a b <3 more>]"."""
    shown = sorted(names[:MAX_NODE_NAMES])
    if len(names) > MAX_NODE_NAMES:
        shown.append(f"<{len(names) - MAX_NODE_NAMES} more>")
    return f"[{' '.join(shown)}]"
