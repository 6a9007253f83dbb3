"""In-memory cloud, `--cloud-provider=fake`: for the embedded cluster, demonstrations and tests.

Every node has a running instance until code calls `terminate` or `shut_down`, or the node is annotated, which also
works for a cloud in another process:

    kubectl annotate node hollow-node-1 cloud.kcm.dev/instance=gone       (or =stopped; undo with instance-)

Routes and load balancers are kept until the process ends. Implements kcm.runtime.cloud.provider.CloudProvider.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from ipaddress import IPv4Network

from kcm.protocols.objects import Object, annotations_of, labels_of, name_of, uid_of
from kcm.protocols.routes import Route
from kcm.runtime.cloud.provider import CloudConflictError, InstanceMetadata, InstanceNotFoundError

INSTANCE = "cloud.kcm.dev/instance"
GONE, STOPPED = "gone", "stopped"
BALANCERS = IPv4Network("203.0.113.0/24")  # addresses for documentation (RFC 5737): routed nowhere


class FakeInstances:
    def __init__(self) -> None:
        self._gone: set[str] = set()
        self._stopped: set[str] = set()

    # State of instances, by node name.

    def terminate(self, *names: str) -> None:
        self._gone |= set(names)

    def shut_down(self, *names: str) -> None:
        self._stopped |= set(names)

    def start(self, *names: str) -> None:
        """Undo shut_down and terminate of this node's instance."""
        self._gone -= set(names)
        self._stopped -= set(names)

    # Instances.

    def exists(self, node: Object) -> bool:
        return name_of(node) not in self._gone and annotations_of(node).get(INSTANCE) != GONE

    def is_shut_down(self, node: Object) -> bool:
        return name_of(node) in self._stopped or annotations_of(node).get(INSTANCE) == STOPPED

    def metadata(self, node: Object) -> InstanceMetadata:
        if not self.exists(node):
            raise InstanceNotFoundError(f"no machine of node {name_of(node)}")
        labels = labels_of(node)
        addresses = (node.get("status") or {}).get("addresses") or ()
        return InstanceMetadata(
            provider_id=(node.get("spec") or {}).get("providerID") or f"fake:///{name_of(node)}",
            instance_type=labels.get("node.kubernetes.io/instance-type", "fake"),
            zone=labels.get("topology.kubernetes.io/zone", ""),
            region=labels.get("topology.kubernetes.io/region", ""),
            addresses=tuple((each["type"], each["address"]) for each in addresses),
        )


class FakeRoutes:
    """Routes by cluster, one per destination. to_addresses: routes lead to addresses of nodes instead of machines."""

    def __init__(self, *, to_addresses: bool = False) -> None:
        self._to_addresses = to_addresses
        self._lock = threading.Lock()
        self._routes: dict[tuple[str, str], Route] = {}  # (cluster, name)
        self._count = 0

    def list(self, cluster: str) -> Sequence[Route]:
        with self._lock:
            return [route for (owner, _), route in self._routes.items() if owner == cluster]

    def create(self, cluster: str, hint: str, route: Route) -> None:
        with self._lock:
            for (owner, _), other in self._routes.items():
                if owner == cluster and other.destination == route.destination:
                    raise CloudConflictError(f"{route.destination} is routed to {other.node}")
            self._count += 1
            name = f"{cluster}-{hint}-{self._count}"
            addresses = route.addresses if self._to_addresses else None
            made = Route(destination=route.destination, node=route.node, name=name, addresses=addresses)
            self._routes[cluster, name] = made

    def delete(self, cluster: str, route: Route) -> None:
        with self._lock:
            self._routes.pop((cluster, route.name), None)


class FakeLoadBalancers:
    """Load balancers with one address each: spec.loadBalancerIP, that of the status, or a free documentation address.

    nodes: names of the target nodes, by the service's uid.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: dict[tuple[str, str], str] = {}  # (cluster, uid of the service)
        self.nodes: dict[str, tuple[str, ...]] = {}

    def get(self, cluster: str, service: Object) -> Object | None:
        with self._lock:
            address = self._addresses.get((cluster, uid_of(service)))
        return None if address is None else _status(address)

    def ensure(self, cluster: str, service: Object, nodes: Sequence[Object]) -> Object:
        """Return the status of the load balancer. Raises RuntimeError if there are no addresses left."""
        key = (cluster, uid_of(service))
        with self._lock:
            if key not in self._addresses:
                taken = set(self._addresses.values())
                had = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
                requested = [
                    str((service.get("spec") or {}).get("loadBalancerIP") or ""),
                    *(ingress.get("ip") for ingress in had),
                ]
                ours = map(str, BALANCERS.hosts())
                free = next((address for address in (*filter(None, requested), *ours) if address not in taken), None)
                if free is None:
                    raise RuntimeError(f"all addresses of {BALANCERS} are taken")
                self._addresses[key] = free
            self.nodes[uid_of(service)] = tuple(map(name_of, nodes))
            return _status(self._addresses[key])

    def update(self, cluster: str, service: Object, nodes: Sequence[Object]) -> None:
        with self._lock:
            if (cluster, uid_of(service)) not in self._addresses:
                raise RuntimeError(f"service {name_of(service)} has no load balancer")
            self.nodes[uid_of(service)] = tuple(map(name_of, nodes))

    def delete(self, cluster: str, service: Object) -> None:
        with self._lock:
            self._addresses.pop((cluster, uid_of(service)), None)
            self.nodes.pop(uid_of(service), None)


class FakeCloud:
    def __init__(self) -> None:
        self.instances = FakeInstances()
        self.routes = FakeRoutes()
        self.load_balancers = FakeLoadBalancers()


def _status(address: str) -> Object:
    return {"ingress": [{"ip": address, "ipMode": "VIP"}]}
