"""Ports of endpoints: the ports of a Service, with each named targetPort resolved to a container port of the pod.

Source: kubernetes v1.36 staging/src/k8s.io/endpointslice/utils.go (getEndpointPorts, FindPort).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kcm.protocols.objects import Object
from kcm.runtime.tables.lister import Lister
from kcm.runtime.tables.table import Entry

ALWAYS = "Always"


class EndpointPort(NamedTuple):
    name: str
    port: int | None
    protocol: str
    app_protocol: str | None = None

    def as_object(self) -> Object:
        port: Object = {"name": self.name, "port": self.port, "protocol": self.protocol}
        return port if self.app_protocol is None else {**port, "appProtocol": self.app_protocol}


Ports = tuple[EndpointPort, ...]


def ports_of_slice(slice_: Mapping[str, Any]) -> Ports:
    """Return the ports of an EndpointSlice, sorted so that equal sets of ports compare equal.

    Ports of a subset of Endpoints have the same form, and are accepted too.
    """
    return sorted_ports(
        EndpointPort(port.get("name") or "", port.get("port"), port.get("protocol") or "TCP", port.get("appProtocol"))
        for port in slice_.get("ports") or ()
    )


def sorted_ports(ports: Iterable[EndpointPort]) -> Ports:
    return tuple(sorted(ports, key=lambda port: (port.name, port.port or 0, port.protocol, port.app_protocol or "")))


class PodPorts:
    """Cache of the endpoint ports of the pods of one Service. It never expires: container ports are immutable.

    by_number: whether no targetPort is named, so that all pods have the same ports, which are common_ports
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        """Create an empty cache for the pods of one Service. spec: the spec of the Service."""
        self.service_ports: Sequence[Mapping[str, Any]] = spec.get("ports") or ()
        self.by_number = not any(isinstance(port.get("targetPort"), str) for port in self.service_ports)
        self.common_ports = sorted_ports(self._endpoint_ports({})) if self.by_number else ()
        self._ports_by_uid: dict[str, Ports] = {}  # by the uid of the pod

    def ports_of_pod(self, pods: Lister, pod: Entry) -> Ports:
        """Return the ports of the Service for a pod, with the numbers that named targetPorts have in its containers.

        A named targetPort that no container has is left out.
        """
        if self.by_number:
            return self.common_ports
        found = self._ports_by_uid.get(pod.uid)
        if found is None:
            found = self._ports_by_uid[pod.uid] = sorted_ports(self._endpoint_ports(named_ports(pods.object_of(pod))))
        return found

    def retain(self, pods: Iterable[Entry]) -> None:
        """Keep the cached ports of these pods only; remove those of all other pods."""
        if self._ports_by_uid:
            known = self._ports_by_uid
            self._ports_by_uid = {pod.uid: known[pod.uid] for pod in pods if pod.uid in known}

    def _endpoint_ports(self, named: Mapping[tuple[str, str], int]) -> Iterable[EndpointPort]:
        for port in self.service_ports:
            target, protocol = port.get("targetPort"), port.get("protocol") or "TCP"
            number = named.get((target, protocol)) if isinstance(target, str) else target or port.get("port")
            if number is not None:
                yield EndpointPort(port.get("name") or "", number, protocol, port.get("appProtocol"))


def named_ports(pod: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return the numbers of a pod's named container ports, by (name, protocol).

    If several containers have a port with the same name, the first one is used; sidecars come last.
    """
    spec = pod.get("spec") or {}
    sidecars = [container for container in spec.get("initContainers") or () if container.get("restartPolicy") == ALWAYS]
    found: dict[tuple[str, str], int] = {}
    for container in (*(spec.get("containers") or ()), *sidecars):
        for port in container.get("ports") or ():
            if port.get("name"):
                found.setdefault((port["name"], port.get("protocol") or "TCP"), port.get("containerPort") or 0)
    return found
