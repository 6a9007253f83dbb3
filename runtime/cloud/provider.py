"""The protocol of a cloud provider. Its methods may take their time: each call is made on a thread of its own.

They are called from several threads at once. A part that a cloud does not have is None. What they raise becomes the
controller's outcome: the errors below have outcomes of their own, any other is a ServerFailure.

Source: kubernetes v1.36 staging/src/k8s.io/cloud-provider/cloud.go (Interface, InstancesV2, LoadBalancer, Routes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from protocols.objects import Object
from protocols.routes import Route


class InstanceNotFoundError(Exception):
    """The cloud has no such machine."""


class NotSupportedError(Exception):
    """This cloud does not do such things."""


class CloudConflictError(Exception):
    """A concurrent change got in the way; the same call again may work."""


class RetryAfterError(Exception):
    """The cloud wants to be left alone for so many seconds."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceMetadata:
    """What a cloud knows of a node's machine. addresses: as in a node's status.addresses."""

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
