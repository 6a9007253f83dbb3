"""Facts about Services, and the labels and annotations of their Endpoints and EndpointSlices.

Source: kubernetes v1.36 api/core/v1/annotation_key_constants.go, api/discovery/v1/well_known_labels.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kcm.protocols.objects import Object

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
HEADLESS = "service.kubernetes.io/headless"
SKIP_MIRROR = "endpointslice.kubernetes.io/skip-mirror"
TRIGGER_TIME = "endpoints.kubernetes.io/last-change-trigger-time"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
LEADER = "control-plane.alpha.kubernetes.io/leader"
NO_CLUSTER_IP = "None"


class ServiceFacts(NamedTuple):
    """Facts of one version of a Service.

    selector: (label, value) pairs; None without a selector, which selects nothing.
    """

    selector: tuple[tuple[str, str], ...] | None
    selects: bool


def service_facts(service: Object) -> ServiceFacts:
    """Return the facts of a Service. Raises ValueError if the selector is not a map of strings."""
    selector = (service.get("spec") or {}).get("selector")
    if selector is None:
        return ServiceFacts(None, selects=False)
    if not isinstance(selector, Mapping) or not all(isinstance(value, str) for value in selector.values()):
        raise ValueError(f"spec.selector is a map of strings, got {selector!r}")
    return ServiceFacts(tuple(selector.items()), selects=True)


def has_cluster_ip(spec: Mapping[str, Any]) -> bool:
    """Report whether the Service has a cluster IP; otherwise it is headless."""
    return spec.get("clusterIP") not in (None, "", NO_CLUSTER_IP)
