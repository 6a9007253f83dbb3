"""Calls to the cloud provider, which a reconciler yields. The Dispatcher runs each in a thread of the cloud's pool.

Objects are Kubernetes objects as JSON bytes; a route is encoded as in protocols/routes.py. The result of a call is the
JSON body of its Done. Other outcomes:

- NotFound: the object does not exist in the cloud.
- Invalid: the call is not supported (code 501), or another controller is responsible (code 421).
- Conflict: a concurrent change.
- Throttled: retry after retry_after seconds.
- ServerFailure: any other error that the cloud raised.
- Unknown: the call did not return in time.
- Refused: the call was not made.
"""

from __future__ import annotations

from typing import ClassVar

from kcm.protocols.messages.message import Message


class InstanceExists(Message, frozen=True, tag=130):
    """Check that the node's machine exists. Done.body: true or false."""

    resource: ClassVar[str] = ""  # no resource of the API server: write accounting ignores cloud calls
    node: bytes


class InstanceIsShutDown(Message, frozen=True, tag=131):
    """Check whether the machine exists but is shut down. Done.body: true or false."""

    resource: ClassVar[str] = ""
    node: bytes


class ListRoutes(Message, frozen=True, tag=132):
    """List the routes of the cluster of this name. Done.body: a list of routes."""

    resource: ClassVar[str] = ""
    cluster: str


class CreateRoute(Message, frozen=True, tag=133):
    """Create a route. hint: the uid of its node, from which the cloud may derive a name. Done.body: null."""

    resource: ClassVar[str] = ""
    cluster: str
    hint: str
    route: bytes


class DeleteRoute(Message, frozen=True, tag=134):
    """Delete the route. Done.body: null, also if the route does not exist."""

    resource: ClassVar[str] = ""
    cluster: str
    route: bytes


class GetLoadBalancer(Message, frozen=True, tag=135):
    """Get the load balancer's status. Done.body: the service's status.loadBalancer, or null without a load balancer."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes


class EnsureLoadBalancer(Message, frozen=True, tag=136):
    """Create or correct a load balancer. nodes: a list of Nodes, its targets. Done.body: the status.loadBalancer."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes
    nodes: bytes


class UpdateLoadBalancer(Message, frozen=True, tag=137):
    """Replace the targets of the load balancer by these Nodes. Done.body: null."""

    resource: ClassVar[str] = ""
    cluster: str
    service: bytes
    nodes: bytes


class DeleteLoadBalancer(Message, frozen=True, tag=138):
    """Delete the load balancer. Done.body: null, also if it does not exist."""

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
