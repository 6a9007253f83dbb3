"""The protocol of a cloud provider. Its methods may block: calls run in threads of their own.

Several threads call it at once. A part that the cloud does not have is None. An exception becomes the outcome of the
controller's command: the errors below have outcomes of their own, any other is a ServerFailure.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/cloud.go (Interface, InstancesV2, LoadBalancer, Routes).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object
from kcm.protocols.routes import Route


class InstanceNotFoundError(Exception):
    """The cloud has no instance for this node."""


class NotSupportedError(Exception):
    """The cloud does not support this call."""


class ImplementedElsewhereError(Exception):
    """Another controller does what this call is made for: of a load balancer, the Service is left to it."""


class CloudConflictError(Exception):
    """A concurrent change interfered; the same call may succeed later."""


class RetryAfterError(Exception):
    """The cloud asks for no further call within so many seconds."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMetadata:
    """A cloud's metadata of a node's instance. addresses: as in a node's status.addresses."""

    provider_id: str
    instance_type: str
    zone: str
    region: str
    addresses: tuple[tuple[str, str], ...]


class Instances(Protocol):
    """The machines behind nodes. Found by spec.providerID, or by name where a node has none."""

    def exists(self, node: Object) -> bool: ...

    def is_shut_down(self, node: Object) -> bool:
        """Raises NotSupportedError where machines cannot be switched off."""

    def metadata(self, node: Object) -> InstanceMetadata:
        """Raises InstanceNotFoundError."""


class Routes(Protocol):
    """cluster: --cluster-name, for clouds that hold several."""

    def list(self, cluster: str) -> Sequence[Route]: ...

    def create(self, cluster: str, hint: str, route: Route) -> None:
        """hint: something to name it by."""

    def delete(self, cluster: str, route: Route) -> None:
        """A route as `list` returned it."""


class LoadBalancers(Protocol):
    """What stands before services of type LoadBalancer. A status is that in status.loadBalancer."""

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
