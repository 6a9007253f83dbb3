"""Outcomes of calls to a cloud, with and without threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import orjson
import pytest

from kcm.protocols.messages.cloud import (
    CLOUD_CALLS,
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
from kcm.protocols.routes import Route, decode_routes, encode_route
from kcm.runtime.cloud.calls import carry_out
from kcm.runtime.cloud.fake import FakeCloud, FakeRoutes
from kcm.runtime.cloud.provider import (
    CloudConflictError,
    ImplementedElsewhereError,
    InstanceNotFoundError,
    NotSupportedError,
    RetryAfterError,
)

NODE = b'{"metadata":{"name":"n1","uid":"u1"}}'
NODES = b'[{"metadata":{"name":"n1","uid":"u1"}}]'
SERVICE = b'{"metadata":{"name":"web","namespace":"default","uid":"s1"}}'
ROUTE = encode_route(Route(destination="10.0.0.0/24", node="n1"))


class Raising(FakeRoutes):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def list(self, cluster: str) -> Sequence[Route]:
        raise self.error


class Stuck(FakeRoutes):
    """Routes whose list blocks until `released` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.released, self.entered = threading.Event(), threading.Event()

    def list(self, cluster: str) -> Sequence[Route]:
        self.entered.set()
        assert self.released.wait(30.0)
        return super().list(cluster)


def test_every_call_returns_its_result() -> None:
    cloud = FakeCloud()
    cloud.instances.shut_down("n1")
    ingress = {"ingress": [{"ip": "203.0.113.1", "ipMode": "VIP"}]}
    calls: list[tuple[CloudCall, object]] = [
        (InstanceExists(NODE), True),
        (InstanceIsShutDown(NODE), True),
        (GetLoadBalancer("c", SERVICE), None),
        (EnsureLoadBalancer("c", SERVICE, NODES), ingress),
        (GetLoadBalancer("c", SERVICE), ingress),
        (UpdateLoadBalancer("c", SERVICE, b"[]"), None),
        (DeleteLoadBalancer("c", SERVICE), None),
        (CreateRoute("c", "hint", ROUTE), None),
    ]
    for call, answer in calls:
        outcome = carry_out(cloud, call)
        assert isinstance(outcome, Done), call
        assert orjson.loads(outcome.body) == answer, call
    listed = carry_out(cloud, ListRoutes("c"))
    assert isinstance(listed, Done)
    (made,) = decode_routes(listed.body)
    assert (made.node, made.destination, made.name) == ("n1", "10.0.0.0/24", "c-hint-1")
    assert carry_out(cloud, DeleteRoute("c", encode_route(made))) == Done(b"null")
    assert carry_out(cloud, ListRoutes("c")) == Done(b"[]")
    assert {type(call) for call, _ in calls} | {ListRoutes, DeleteRoute} == set(CLOUD_CALLS)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (InstanceNotFoundError("who?"), NotFound("who?")),
        (InstanceNotFoundError(), NotFound("instance not found")),
        (NotSupportedError("not here"), Invalid("not here", code=501)),
        (ImplementedElsewhereError("the ingress"), Invalid("the ingress", code=421)),
        (CloudConflictError("busy"), Conflict("busy")),
        (RetryAfterError("quota", 42.0), Throttled("quota", retry_after=42.0)),
        (RuntimeError("rain"), ServerFailure("rain")),
        (ValueError(), ServerFailure("ValueError")),
    ],
)
def test_error_of_a_provider_becomes_an_outcome(error: Exception, outcome: Outcome) -> None:
    cloud = FakeCloud()
    cloud.routes = Raising(error)
    assert carry_out(cloud, ListRoutes("c")) == outcome


def test_call_of_a_missing_part_is_not_supported() -> None:
    class Bare:
        instances = routes = load_balancers = None

    for call in (InstanceExists(NODE), ListRoutes("c"), GetLoadBalancer("c", SERVICE)):
        outcome = carry_out(Bare(), call)
        assert isinstance(outcome, Invalid)
        assert outcome.code == 501
        assert "support" in outcome.message
