"""Calls to the cloud provider, as a reconciler yields them. The Dispatcher runs each on a thread of the cloud's own.

Objects are Kubernetes objects as JSON bytes; a route is encoded as in protocols/routes.py. The result of a call is the
JSON body of its Done. Other outcomes: NotFound, the cloud does not know the object; Invalid with code 501, it does not
support the call, or with code 421, another controller does that; Conflict, a concurrent change; Throttled, retry after
so long; ServerFailure, any other error that it raised; Unknown, it did not return in time; Refused, the call was not
made.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct


class InstanceExists(Struct, frozen=True):
    """Whether the node's machine exists. Done.body: true or false."""

    resource: ClassVar[str] = ""  # none of the API server's: the accounts of writes leave cloud calls out
    node: bytes


class InstanceIsShutDown(Struct, frozen=True):
    """Whether the machine exists but is shut down. Done.body: true or false."""

    resource: ClassVar[str] = ""
    node: bytes


class ListRoutes(Struct, frozen=True):
    """All routes of a cluster, by its name. Done.body: a list of routes."""

    resource: ClassVar[str] = ""
    cluster: str


class CreateRoute(Struct, frozen=True):
    """hint: the uid of the route's node, for the cloud's own name of it. Done.body: null."""

    resource: ClassVar[str] = ""
    cluster: str
    hint: str
    route: bytes


class DeleteRoute(Struct, frozen=True):
    """Done.body: null, also if the route is gone already."""

    resource: ClassVar[str] = ""
    cluster: str
    route: bytes


class GetLoadBalancer(Struct, frozen=True):
    """Done.body: the service's status.loadBalancer, or null if it has no balancer."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes


class EnsureLoadBalancer(Struct, frozen=True):
    """Create or correct one. nodes: a list of Nodes, its targets. Done.body: the status.loadBalancer."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes
    nodes: bytes


class UpdateLoadBalancer(Struct, frozen=True):
    """Replace the targets of the load balancer by these Nodes. Done.body: null."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes
    nodes: bytes


class DeleteLoadBalancer(Struct, frozen=True):
    """Done.body: null, also if it is gone already."""

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
# Codes of an Invalid: the cloud does not support the call; another controller does what it is made for.
NOT_SUPPORTED, ELSEWHERE = 501, 421
