"""Bootstrap objects of a cluster that is served at a network address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from kcm.runtime.apiserver.bootstrap.api_services import CustomApiServices
from kcm.runtime.apiserver.bootstrap.default_service_cidr import DefaultServiceCidr
from kcm.runtime.apiserver.bootstrap.flow_control import FlowControl
from kcm.runtime.apiserver.bootstrap.kubernetes_service import KubernetesService
from kcm.runtime.apiserver.bootstrap.legacy_tokens import create_tracking_config_map
from kcm.runtime.apiserver.bootstrap.metrics import remove_metrics_api_service
from kcm.runtime.apiserver.bootstrap.service_addresses import ServiceAddresses
from kcm.runtime.apiserver.bootstrap.system_objects import create_system_objects
from kcm.runtime.apiserver.core.cluster import Cluster, Reaction

# Types of the objects that react to changes of a ServedCluster.
REACTIONS: tuple[type[Reaction], ...] = (CustomApiServices, ServiceAddresses, FlowControl)


class ServedCluster:
    """Bootstrap objects of a served cluster, periodic jobs that maintain them, and reactions to store changes."""

    def __init__(self, cluster: Cluster, *, host: str, port: int) -> None:
        """Prepare the objects. The jobs from `initial_jobs` create them.

        host, port: IPv4 address and port of the endpoints of Service default/kubernetes.
        """
        self._cluster = cluster
        self._kubernetes_service = KubernetesService(cluster, host=host, port=port)
        self._flow_control = FlowControl(cluster)
        self._service_cidr = DefaultServiceCidr(cluster)
        self._api_services, self._addresses = CustomApiServices(cluster), ServiceAddresses(cluster)

    @property
    def reactions(self) -> tuple[Reaction, ...]:
        return self._api_services, self._addresses, self._flow_control

    def initial_jobs(self) -> Iterator[Callable[[], None]]:
        """Yield the jobs that create the objects. Run each in a transaction."""
        yield self._service_cidr.reconcile
        yield self._kubernetes_service.reconcile
        yield partial(create_tracking_config_map, self._cluster)
        yield partial(remove_metrics_api_service, self._cluster)
        yield partial(create_system_objects, self._cluster)

    def initial_reconciliations(self) -> Iterator[Callable[[], None]]:
        """Yield the jobs that reconcile existing objects. Run them once the reactions are registered."""
        yield self._api_services.reconcile
        yield self._addresses.reconcile
        yield self._flow_control.reconcile

    def due_jobs(self, now: float) -> Iterator[Callable[[], None]]:
        """Yield the periodic jobs that are due. now: Unix time in seconds."""
        if self._kubernetes_service.is_due(now):
            yield partial(self._kubernetes_service.tick, now)
        if self._service_cidr.is_due(now):
            yield partial(self._service_cidr.tick, now)
        if self._addresses.is_due(now):
            yield partial(self._addresses.tick, now)
        if self._flow_control.is_due(now):
            yield partial(self._flow_control.tick, now)
