"""Conversion of a CloudCall to a prepared call of the provider, and of the provider's errors to outcomes.

A provider's code may be slow: like every outside call it runs apart from the actors, see
runtime/calls/prepared_calls.py.
"""

from __future__ import annotations

from functools import partial

import orjson

from kcm.protocols.messages.cloud import (
    ELSEWHERE,
    NOT_SUPPORTED,
    CloudCall,
    CreateRoute,
    DeleteLoadBalancer,
    DeleteRoute,
    EnsureLoadBalancer,
    GetLoadBalancer,
    InstanceExists,
    InstanceIsShutDown,
    ListRoutes,
    UpdateLoadBalancer,
)
from kcm.protocols.messages.outcomes import (
    Conflict,
    Done,
    Invalid,
    NotFound,
    Outcome,
    ServerFailure,
    Throttled,
)
from kcm.protocols.objects import decode_object, key_of
from kcm.protocols.routes import decode_route, encode_routes
from kcm.runtime.calls.prepared_calls import PreparedCall
from kcm.runtime.cloud.provider import (
    CloudConflictError,
    CloudProvider,
    ImplementedElsewhereError,
    InstanceNotFoundError,
    Instances,
    LoadBalancers,
    NotSupportedError,
    RetryAfterError,
    Routes,
)

TIMEOUT = 120.0  # seconds: creating a load balancer may take a minute
CHANGES = (CreateRoute, DeleteRoute, EnsureLoadBalancer, UpdateLoadBalancer, DeleteLoadBalancer)
INSTANCES, ROUTES, BALANCERS = "instances", "routes", "loadbalancers"


def prepare_cloud_call(
    provider: CloudProvider, call: CloudCall, *, sender: str = "", incarnation: int = 0
) -> PreparedCall:
    scope = _scope_of(call)
    return PreparedCall(
        command=call,
        what=f"{type(call).__name__} {scope[1]}".rstrip(),
        scope=scope,
        run=partial(carry_out, provider, call),
        timeout=TIMEOUT,
        sender=sender,
        incarnation=incarnation,
        alone=isinstance(call, CHANGES),
    )


def _scope_of(call: CloudCall) -> tuple[str, str]:
    match call:
        case InstanceExists() | InstanceIsShutDown():
            resource = INSTANCES
        case ListRoutes() | CreateRoute() | DeleteRoute():
            resource = ROUTES
        case _:
            resource = BALANCERS
    return resource, subject_of(call)


def subject_of(call: CloudCall) -> str:
    """Return the object of a call: the node of an instance or route, or the service; "" for all routes."""
    match call:
        case InstanceExists(node=node) | InstanceIsShutDown(node=node):
            return key_of(decode_object(node))
        case ListRoutes():
            return ""
        case CreateRoute(route=route) | DeleteRoute(route=route):
            return decode_route(route).node
        case _:
            return key_of(decode_object(call.service))


def carry_out(provider: CloudProvider, call: CloudCall) -> Outcome:
    """Make the call. Never raises an Exception."""
    try:
        return Done(_answer(provider, call))
    except InstanceNotFoundError as err:
        return NotFound(str(err) or "instance not found")
    except NotSupportedError as err:
        return Invalid(str(err) or "unimplemented", code=NOT_SUPPORTED)
    except ImplementedElsewhereError as err:
        return Invalid(str(err) or "implemented by alternate to cloud provider", code=ELSEWHERE)
    except CloudConflictError as err:
        return Conflict(str(err))
    except RetryAfterError as err:
        return Throttled(str(err), retry_after=err.seconds)
    except Exception as err:  # any other exception of the provider
        return ServerFailure(str(err) or type(err).__name__)


def _answer(provider: CloudProvider, call: CloudCall) -> bytes:
    match call:
        case InstanceExists(node=node):
            return orjson.dumps(_instances(provider).exists(decode_object(node)))
        case InstanceIsShutDown(node=node):
            return orjson.dumps(_instances(provider).is_shut_down(decode_object(node)))
        case ListRoutes(cluster=cluster):
            return encode_routes(_routes(provider).list(cluster))
        case CreateRoute(cluster=cluster, hint=hint, route=route):
            _routes(provider).create(cluster, hint, decode_route(route))
        case DeleteRoute(cluster=cluster, route=route):
            _routes(provider).delete(cluster, decode_route(route))
        case GetLoadBalancer(cluster=cluster, service=service):
            return orjson.dumps(_balancers(provider).get(cluster, decode_object(service)))
        case EnsureLoadBalancer(cluster=cluster, service=service, nodes=nodes):
            return orjson.dumps(_balancers(provider).ensure(cluster, decode_object(service), orjson.loads(nodes)))
        case UpdateLoadBalancer(cluster=cluster, service=service, nodes=nodes):
            _balancers(provider).update(cluster, decode_object(service), orjson.loads(nodes))
        case DeleteLoadBalancer(cluster=cluster, service=service):
            _balancers(provider).delete(cluster, decode_object(service))
    return b"null"


def _instances(provider: CloudProvider) -> Instances:
    if provider.instances is None:
        raise NotSupportedError("cloud provider does not support instances")
    return provider.instances


def _routes(provider: CloudProvider) -> Routes:
    if provider.routes is None:
        raise NotSupportedError("cloud provider does not support routes")
    return provider.routes


def _balancers(provider: CloudProvider) -> LoadBalancers:
    if provider.load_balancers is None:
        raise NotSupportedError("the cloud provider does not support external load balancers")
    return provider.load_balancers
