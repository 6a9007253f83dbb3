"""Service default/kubernetes, by which pods and programs reach the API server, and its endpoints.

A missing Service is created; an existing Service is not changed. Endpoints and EndpointSlice are created and corrected.

Source: kubernetes pkg/controlplane/controller/kubernetesservice/controller.go,
pkg/controlplane/reconcilers/{instancecount,endpointsadapter}.go, cmd/kube-apiserver/app/options (v1.36).
Differs: the address may be a loopback address, which kube-apiserver rejects in Endpoints.
"""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from kcm.protocols.objects import Object, decode_object, make_key
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.metadata import initialize
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.verbs.create import create_object

NAMESPACE, NAME = "default", "kubernetes"
EVERY = 10.0  # seconds between reconciliations
PORT = 443


class KubernetesService:
    """Creates and recreates the Service, the Endpoints and the EndpointSlice.

    host, port: IPv4 address and port at which clients reach the server.
    """

    def __init__(self, cluster: Cluster, *, host: str, port: int) -> None:
        self._cluster, self._host, self._port = cluster, host, port
        self._next = 0.0

    def is_due(self, now: float) -> bool:
        """Report whether it is time to reconcile again. now: Unix time in seconds."""
        return now >= self._next

    def tick(self, now: float) -> None:
        """Reconcile the objects. Raises StatusError if the cluster IP of the Service is already allocated."""
        self._next = now + EVERY
        self.reconcile()

    def reconcile(self) -> None:
        ports = [{"name": "https", "port": self._port, "protocol": "TCP"}]
        self._keep(
            self._cluster.registry.find("", "v1", "endpoints"),
            labels={"endpointslice.kubernetes.io/skip-mirror": "true"},
            content={"subsets": [{"addresses": [{"ip": self._host}], "ports": ports}]},
        )
        self._keep(
            self._cluster.registry.find("discovery.k8s.io", "v1", "endpointslices"),
            labels={"kubernetes.io/service-name": NAME},
            content={
                "addressType": "IPv4",
                "endpoints": [{"addresses": [self._host], "conditions": {"ready": True}}],
                "ports": ports,
            },
        )
        self._create_service(self._cluster.registry.find("", "v1", "services"))

    def _create_service(self, definition: ResourceDefinition | None) -> None:
        if definition is None or self._stored(definition) is not None:
            return
        service = _new(definition, {"component": "apiserver", "provider": "kubernetes"})
        service["spec"] = {
            "clusterIP": str(ip_network(self._cluster.service_ranges[0])[1]),
            "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": PORT, "protocol": "TCP", "targetPort": self._port}],
            "sessionAffinity": "None",
            "type": "ClusterIP",
        }
        create_object(self._cluster, definition, service)

    def _keep(self, definition: ResourceDefinition | None, *, labels: dict[str, str], content: dict[str, Any]) -> None:
        """Create the object of this kind, or correct its labels and content."""
        if definition is None:
            return
        stored = self._stored(definition)
        if stored is None:
            new = {**_new(definition, labels), **content}
            initialize(self._cluster, definition, new)
            definition.strategy.set_defaults(new)
            # Written directly to the store: a request with a loopback address would be rejected.
            self._cluster.state.put(definition.storage, make_key(NAMESPACE, NAME), new)
            return
        meta = stored["metadata"]
        wanted = {**stored, **content, "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}}}
        if wanted != stored:
            self._cluster.state.put(definition.storage, make_key(NAMESPACE, NAME), wanted)

    def _stored(self, definition: ResourceDefinition) -> Object | None:
        record = self._cluster.state.get(definition.storage, make_key(NAMESPACE, NAME))
        return None if record is None else decode_object(record.raw)


def _new(definition: ResourceDefinition, labels: dict[str, str]) -> Object:
    meta = {"name": NAME, "namespace": NAMESPACE, "labels": labels}
    return {"kind": definition.kind, "apiVersion": definition.api_version, "metadata": meta}
