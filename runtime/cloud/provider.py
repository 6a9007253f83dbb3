"""Protocol of a cloud provider. Its methods may block, because each call has its own thread.

Several threads use a provider at once. A cloud sets unsupported parts to None. An exception becomes the
outcome of the controller's command: the errors below have specific outcomes, any other is a ServerFailure.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/cloud.go (Interface, InstancesV2, LoadBalancer, Routes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from kcm.protocols.objects import Object
from kcm.protocols.routes import Route


class InstanceNotFoundError(Exception):
    """The cloud has no instance for this node."""


class NotSupportedError(Exception):
    """The cloud does not support this call."""


class ImplementedElsewhereError(Exception):
    """Another controller implements this call, and is responsible for the load balancer of the Service."""


class CloudConflictError(Exception):
    """A concurrent change interfered; the same call may succeed later."""


class RetryAfterError(Exception):
    """The cloud requests a pause before the next call. seconds: its length."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class InstanceMetadata(Struct, frozen=True, kw_only=True):
    """Metadata of a node's instance. addresses: as in a node's status.addresses."""

    provider_id: str
    instance_type: str
    zone: str
    region: str
    addresses: tuple[tuple[str, str], ...]


class Instances(Protocol):
    """Instances of nodes, found by spec.providerID, or by name for a node without a providerID."""

    def exists(self, node: Object) -> bool: ...

    def is_shut_down(self, node: Object) -> bool:
        """Report whether the instance is shut down. Raises NotSupportedError if the cloud cannot do that."""

    def metadata(self, node: Object) -> InstanceMetadata:
        """Return the metadata of a node's instance. Raises InstanceNotFoundError."""


class Routes(Protocol):
    """Routes of nodes. cluster: --cluster-name, for clouds with several clusters."""

    def list(self, cluster: str) -> Sequence[Route]: ...

    def create(self, cluster: str, hint: str, route: Route) -> None:
        """Create a route. hint: basis of its name, see CreateRoute."""

    def delete(self, cluster: str, route: Route) -> None:
        """Delete a route that `list` has returned."""


class LoadBalancers(Protocol):
    """Load balancers of Services. Returned statuses have the form of status.loadBalancer."""

    def get(self, cluster: str, service: Object) -> Object | None: ...

    def ensure(self, cluster: str, service: Object, nodes: Sequence[Object]) -> Object: ...

    def update(self, cluster: str, service: Object, nodes: Sequence[Object]) -> None: ...

    def delete(self, cluster: str, service: Object) -> None: ...


class CloudProvider(Protocol):
    @property
    def instances(self) -> Instances | None: ...

    @property
    def routes(self) -> Routes | None: ...

    @property
    def load_balancers(self) -> LoadBalancers | None: ...
