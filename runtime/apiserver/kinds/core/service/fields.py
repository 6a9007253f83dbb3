"""Predicates of a Service's type and fields, shared by defaults, allocation and validation.

Source: kubernetes pkg/api/service/util.go, pkg/registry/core/service/strategy.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CLUSTER_IP, NODE_PORT, LOAD_BALANCER, EXTERNAL_NAME = "ClusterIP", "NodePort", "LoadBalancer", "ExternalName"
SINGLE_STACK, PREFER_DUAL_STACK, REQUIRE_DUAL_STACK = "SingleStack", "PreferDualStack", "RequireDualStack"
HEADLESS = "None"  # as a cluster IP

Spec = Mapping[str, Any]


def has_node_ports(spec: Spec) -> bool:
    return spec.get("type") in (NODE_PORT, LOAD_BALANCER)


def is_external(spec: Spec) -> bool:
    """Report whether the Service accepts traffic from outside the cluster: by node ports or externalIPs."""
    return has_node_ports(spec) or (spec.get("type") == CLUSTER_IP and bool(spec.get("externalIPs")))


def needs_health_check(spec: Spec) -> bool:
    return spec.get("type") == LOAD_BALANCER and spec.get("externalTrafficPolicy") == "Local"


def is_headless(spec: Spec) -> bool:
    return spec.get("clusterIPs") == [HEADLESS]


def node_ports(spec: Spec) -> set[int]:
    return {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
