"""Invariants of nodes: routes are kept, and pod garbage collection deletes garbage only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.reconciliation.derived import frozen_table
from kcm.actors.simulation.invariants.nodes.nodes import (
    POD_GC,
    ROUTES,
    YOUNG,
    OnlyGarbageIsRemoved,
    RoutesOfNodesAreKept,
)
from kcm.actors.simulation.invariants.observer import Committed, Submitted
from kcm.protocols.messages.cloud import DeleteRoute
from kcm.protocols.messages.commands import Delete, Submit
from kcm.protocols.objects import encode_object, uid_of
from kcm.protocols.resources import PODS
from kcm.protocols.routes import Route, encode_route
from kcm.runtime.apiserver.storage.store import MODIFIED, StoreChange
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.clock import VirtualClock
from tests.support.objects import node, pod, stored


@pytest.mark.parametrize(
    ("faults", "seconds", "kept"),
    [("", YOUNG - 1, False), ("", YOUNG + 1, True), ("process-paused 1..20", YOUNG + 1, False)],
    ids=["the range is new", "the range is known", "the process was paused meanwhile"],
)
def test_a_route_stays_whose_range_the_controller_has_to_know(faults: str, seconds: float, kept: bool) -> None:
    clock, texts = VirtualClock(), list[str]()
    cluster: Any = SimpleNamespace(clock=clock, injector=SimpleNamespace(faults=parse_faults(faults)))
    system: Any = SimpleNamespace()
    invariant = RoutesOfNodesAreKept(cluster)
    ranged = stored(node("n1", spec={"podCIDRs": ["10.0.0.0/24"]}), 5)
    invariant.observe(Committed((StoreChange(MODIFIED, "nodes", "n1", 5, encode_object(ranged), b""),)), texts.append)
    clock.advance_to(seconds)
    deletion = DeleteRoute("kubernetes", encode_route(Route(name="r", node="n1", destination="10.0.0.0/24")))
    invariant.observe(Submitted("manager", system, Submit(ROUTES, 1, "client", 1, (deletion,))), texts.append)
    assert texts == (["the route to 10.0.0.0/24 is deleted, but it is a CIDR of n1"] if kept else [])


@pytest.mark.parametrize("is_marked", [True, False])
def test_pod_that_the_collector_set_to_failed_counts_as_terminated_before_its_table_has_the_write(
    is_marked: bool,
) -> None:
    texts = list[str]()
    cluster: Any = SimpleNamespace(clock=VirtualClock())
    invariant = OnlyGarbageIsRemoved(cluster, threshold=1)
    invariant.observe(
        Committed((StoreChange(MODIFIED, "nodes", "n1", 4, encode_object(node("n1")), b""),)), texts.append
    )
    running = pod("terminating", node="n1", status={"phase": "Running"})
    succeeded = pod("succeeded", node="n1", status={"phase": "Succeeded"})
    table = frozen_table(PODS)
    objects = [stored(obj, 5) for obj in (running, succeeded)]
    table.claim().replace([table.make_entry(obj, encode_object(obj)) for obj in objects], 5)
    if is_marked:
        failed = stored({**running, "status": {"phase": "Failed"}}, 9)
        change = StoreChange(MODIFIED, "pods", "default/terminating", 9, encode_object(failed), b"")
        invariant.observe(Committed((change,)), texts.append)
    deletion = Delete(PODS.id, "default/succeeded", uid=uid_of(objects[1]))
    system: Any = SimpleNamespace(tables={PODS.id: table})
    invariant.observe(Submitted("manager", system, Submit(POD_GC, 1, "client", 1, (deletion,))), texts.append)
    assert texts == ([] if is_marked else ["default/succeeded is removed from node 'n1', which is not deleted"])
