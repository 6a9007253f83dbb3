"""What a reconciler yields to have the cloud do: one call each. The Dispatcher hands them to the cloud's own threads.

Objects are Kubernetes objects as JSON bytes; a route is one as protocols/routes.py writes it. What a call answers is
the JSON body of its Done. Outcomes: NotFound, the cloud does not know the object; Invalid with code 501, it does not do
such things at all; Conflict, somebody else was at it; Throttled, ask again after so long; ServerFailure, anything else
that it raised; Unknown, it did not answer in time; Refused, it was not asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class InstanceExists:
    """Is the node's machine there? Done.body: true or false."""

    resource: ClassVar[str] = ""  # none of the API server's: whoever keeps account of writes passes it by
    node: bytes


@dataclass(frozen=True, slots=True)
class InstanceIsShutDown:
    """Is it there but switched off? Done.body: true or false."""

    resource: ClassVar[str] = ""
    node: bytes


@dataclass(frozen=True, slots=True)
class ListRoutes:
    """All routes of a cluster, by its name. Done.body: a list of routes."""

    resource: ClassVar[str] = ""
    cluster: str


@dataclass(frozen=True, slots=True)
class CreateRoute:
    """hint: what the cloud may name it by: the uid of its node. Done.body: null."""

    resource: ClassVar[str] = ""
    cluster: str
    hint: str
    route: bytes


@dataclass(frozen=True, slots=True)
class DeleteRoute:
    """Done.body: null, also if there is no such route any more."""

    resource: ClassVar[str] = ""
    cluster: str
    route: bytes


@dataclass(frozen=True, slots=True)
class GetLoadBalancer:
    """Done.body: the service's status.loadBalancer, or null if it has no balancer."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes


@dataclass(frozen=True, slots=True)
class EnsureLoadBalancer:
    """Make one, or make it right. nodes: a list of Nodes to send to. Done.body: its status.loadBalancer."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes
    nodes: bytes


@dataclass(frozen=True, slots=True)
class UpdateLoadBalancer:
    """The same balancer is to send to these Nodes. Done.body: null."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes
    nodes: bytes


@dataclass(frozen=True, slots=True)
class DeleteLoadBalancer:
    """Done.body: null, also if there is none any more."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes


CloudCall = (
    InstanceExists
    | InstanceIsShutDown
    | ListRoutes
    | CreateRoute
    | DeleteRoute
    | GetLoadBalancer
    | EnsureLoadBalancer
    | UpdateLoadBalancer
    | DeleteLoadBalancer
)
CLOUD_CALLS: tuple[type[CloudCall], ...] = (
    InstanceExists,
    InstanceIsShutDown,
    ListRoutes,
    CreateRoute,
    DeleteRoute,
    GetLoadBalancer,
    EnsureLoadBalancer,
    UpdateLoadBalancer,
    DeleteLoadBalancer,
)
NOT_SUPPORTED = 501  # the code of an Invalid: the cloud does not do such things
