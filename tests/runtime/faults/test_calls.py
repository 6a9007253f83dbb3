"""Faults on the way to a cloud: the outcome that the caller receives, its time, and the effect in the cloud."""

from __future__ import annotations

import pytest

from kcm.protocols.messages.cloud import CloudCall, CreateRoute, DeleteLoadBalancer, InstanceExists, ListRoutes
from kcm.protocols.messages.outcomes import Conflict, Done, Outcome, ServerFailure, Throttled, Unknown
from kcm.protocols.routes import Route, encode_route
from kcm.runtime.cloud.calls import prepare_cloud_call
from kcm.runtime.cloud.fake import FakeCloud
from kcm.runtime.faults.injection import Injector
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.calls import SimulatedCalls
from kcm.runtime.simulation.clock import VirtualClock

LATENCY = 2.0  # seconds
NODE = b'{"metadata":{"name":"n1"}}'
ROUTE = CreateRoute("c", "uid", encode_route(Route(destination="10.0.0.0/24", node="n1")))
LOST = Unknown("CreateRoute n1 did not return within 120 s (injected)")


class FaultyCloud:
    """A fake cloud behind faults. `outcomes` contains (time, outcome) of each call."""

    def __init__(self, faults: str) -> None:
        self.clock, self.cloud = VirtualClock(), FakeCloud()
        calls = SimulatedCalls(clock=self.clock, latency=LATENCY)
        calls.injector = Injector(parse_faults(faults), seed=1, clock=self.clock)
        self.way, self.calls = calls.of_process("manager"), calls
        self.outcomes: list[tuple[float, Outcome]] = []

    def create_route(self) -> list[tuple[float, Outcome]]:
        prepared = prepare_cloud_call(self.cloud, ROUTE)
        self.way.send(prepared, lambda outcome: self.outcomes.append((self.clock.monotonic(), outcome)))
        while (alarm := self.clock.next_alarm()) is not None:
            self.clock.advance_to(alarm)
            self.clock.run_due()
        return self.outcomes

    def routed(self) -> bool:
        return bool(self.cloud.routes.list("c"))


@pytest.mark.parametrize(
    ("faults", "when", "outcome", "routed"),
    [
        ("actor-crashed", LATENCY, Done(b"null"), True),
        ("call-lost", 120.0, LOST, False),
        ("call-delayed seconds=20", 20.0 + LATENCY, Done(b"null"), True),
        ("call-delayed seconds=130", 120.0, LOST, False),
        ("call-answered status=500", 0.0, ServerFailure("injected: the cloud returned 500"), False),
        ("call-answered status=409", 0.0, Conflict("injected: the cloud returned 409"), False),
        (
            "call-answered status=429 seconds=5",
            0.0,
            Throttled("injected: the cloud returned 429", retry_after=5.0),
            False,
        ),
        ("call-repeated", 2 * LATENCY, Conflict("10.0.0.0/24 is routed to n1"), True),
        ("answer-lost", 120.0, LOST, True),
        ("answer-delayed seconds=20", 20.0 + LATENCY, Done(b"null"), True),
        ("answer-delayed seconds=119", 120.0, LOST, True),
    ],
)
def test_fault_determines_outcome_time_and_effect_of_a_call(
    faults: str, when: float, outcome: Outcome, routed: bool
) -> None:
    way = FaultyCloud(faults)
    assert way.create_route() == [(when, outcome)]
    assert way.routed() is routed


def test_fault_strikes_only_calls_in_its_scope() -> None:
    assert FaultyCloud("call-lost resource=instances").create_route() == [(LATENCY, Done(b"null"))]
    assert FaultyCloud("call-lost object=n2").create_route() == [(LATENCY, Done(b"null"))]
    assert FaultyCloud("call-lost process=manager-2").create_route() == [(LATENCY, Done(b"null"))]
    assert FaultyCloud("call-lost process=manager resource=routes object=n*").create_route() == [(120.0, LOST)]


def test_scopes_of_calls() -> None:
    def scope_of(call: CloudCall) -> tuple[str, str]:
        return prepare_cloud_call(FakeCloud(), call).scope

    assert scope_of(InstanceExists(NODE)) == ("instances", "n1")
    assert scope_of(ListRoutes("c")) == ("routes", "")
    assert scope_of(ROUTE) == ("routes", "n1")
    service = b'{"metadata":{"name":"web","namespace":"default"}}'
    assert scope_of(DeleteLoadBalancer("c", service)) == ("loadbalancers", "default/web")
