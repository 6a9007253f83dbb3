"""Evaluator of Services, which counts Services, node ports and load balancers.

Source: kubernetes v1.36 pkg/quota/v1/evaluator/core/services.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcm.protocols.objects import Object
from kcm.protocols.quota.amounts import ONE, ZERO, Amounts, count
from kcm.protocols.quota.evaluators import CREATE, UPDATE, Evaluator
from kcm.protocols.quota.names import count_of

SERVICES, NODE_PORTS, LOAD_BALANCERS = "services", "services.nodeports", "services.loadbalancers"
NAMES = frozenset({count_of("services"), SERVICES, NODE_PORTS, LOAD_BALANCERS})


class Services(Evaluator):
    needs_objects = has_essence = True

    def __init__(self) -> None:
        super().__init__("services")

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        return NAMES.intersection(names)

    def usage(self, obj: Object, /) -> Amounts:
        # Counts the requested node ports, because they are not allocated yet when a Service is admitted.
        spec = obj.get("spec") or {}
        ports = spec.get("ports") or ()
        used = {count_of("services"): ONE, SERVICES: ONE, LOAD_BALANCERS: ZERO, NODE_PORTS: ZERO}
        match spec.get("type"):
            case "NodePort":
                used[NODE_PORTS] = count(len(ports))
            case "LoadBalancer":
                if spec.get("allocateLoadBalancerNodePorts") is False:
                    ports = [port for port in ports if port.get("nodePort")]
                used[NODE_PORTS] = count(len(ports))
                used[LOAD_BALANCERS] = ONE
        return used

    def essence(self, obj: Object, /) -> Object:
        spec = obj.get("spec") or {}
        ports = [{"nodePort": True} if port.get("nodePort") else {} for port in spec.get("ports") or ()]
        names = ("type", "allocateLoadBalancerNodePorts")
        return {"spec": {**{name: spec[name] for name in names if name in spec}, "ports": ports}}

    def handles(self, operation: str, subresource: str, _new: Object, _old: Object | None, /) -> bool:
        return operation in (CREATE, UPDATE) and not subresource
