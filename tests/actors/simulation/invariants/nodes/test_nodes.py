"""What may be known of nodes when routes are deleted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.simulation.invariants.nodes.nodes import ROUTES, YOUNG, RoutesOfNodesStay
from kcm.actors.simulation.invariants.observer import Committed, Submitted
from kcm.protocols.messages.cloud import DeleteRoute
from kcm.protocols.messages.commands import Submit
from kcm.protocols.objects import encode_object
from kcm.protocols.routes import Route, encode_route
from kcm.runtime.apiserver.storage.store import MODIFIED, Change
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.clock import VirtualClock
from tests.support.objects import node, stored


@pytest.mark.parametrize(
    ("faults", "seconds", "kept"),
    [("", YOUNG - 1, False), ("", YOUNG + 1, True), ("process-paused 1..20", YOUNG + 1, False)],
    ids=["the range is new", "the range is known", "the process was paused meanwhile"],
)
def test_a_route_stays_whose_range_the_controller_has_to_know(faults: str, seconds: float, kept: bool) -> None:
    clock, texts = VirtualClock(), list[str]()
    cluster: Any = SimpleNamespace(clock=clock, injector=SimpleNamespace(faults=parse_faults(faults)))
    system: Any = SimpleNamespace()
    invariant = RoutesOfNodesStay(cluster)
    ranged = stored(node("n1", spec={"podCIDRs": ["10.0.0.0/24"]}), 5)
    invariant.observe(Committed((Change(MODIFIED, "nodes", "n1", 5, encode_object(ranged), b""),)), texts.append)
    clock.advance_to(seconds)
    deletion = DeleteRoute("kubernetes", encode_route(Route(name="r", node="n1", destination="10.0.0.0/24")))
    invariant.observe(Submitted("manager", system, Submit(ROUTES, 1, "client", 1, (deletion,))), texts.append)
    assert texts == (["the route to 10.0.0.0/24 is deleted, which n1 holds"] if kept else [])
