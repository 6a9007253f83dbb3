"""Eviction rates of zones, computed from the nodes whose readiness the node lifecycle controller has determined."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcm.actors.controllers.nodes.node_lifecycle.zones import EvictionLimits
from kcm.actors.reconciliation.actor_names import controller_name
from kcm.actors.simulation.invariants.nodes.evictions import OLD, TaintsWithinTheRate
from kcm.actors.simulation.invariants.observer import OutcomeReceived, ProcessStarted, Submitted
from kcm.protocols.messages.commands import Get, Patch, Submit, Update
from kcm.protocols.messages.outcomes import Conflict, Done, Outcome, Refused, Unknown
from kcm.protocols.nodes import lease_facts, node_facts
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import LEASES, NODES, Resource
from kcm.protocols.times import format_time
from kcm.runtime.faults.vocabulary import parse_faults
from kcm.runtime.simulation.clock import VirtualClock
from kcm.runtime.tables.table import Table
from tests.support.objects import lease, node, stored, taint

LIFECYCLE = controller_name("node-lifecycle-controller")
LIMITS = EvictionLimits(eviction_rate=0.2, full_disruption_rate=0.2)
REFUSED, CUT_OFF, CONFLICT = Refused("connection refused"), Unknown("no response"), Conflict("")
# Zone a has rate 0 while a3 counts as ready; zone b exists so that not all zones are down.
NODES_OF_BOTH = {"a0": "Unknown", "a1": "Unknown", "a2": "Unknown", "a3": "True", "b0": "True"}


def zoned(name: str, ready: str, version: int = 5) -> Object:
    return stored(node(name, labels={"topology.kubernetes.io/zone": name[0]}, ready=ready), version)


def renewed(second: int) -> Object:
    return stored(lease("a3", spec={"renewTime": format_time(float(second))}), second)


STATUS = Update(NODES.id, "a3", encode_object(zoned("a3", "Unknown")), "status")
LABELS = Patch(NODES.id, "a3", b"{}")
READ = Get(NODES.id, "a3")
GIVEN_UP, READY = (Done(encode_object(zoned("a3", ready, 9))) for ready in ("Unknown", "True"))


class Judged:
    """Process with its tables, and the invariant that checks its taints."""

    def __init__(self, faults: str = "") -> None:
        self._tables = {NODES.id: Table(NODES, derive=node_facts), LEASES.id: Table(LEASES, derive=lease_facts)}
        self._writers = {resource: table.claim() for resource, table in self._tables.items()}
        self.show(NODES, *(zoned(name, ready) for name, ready in NODES_OF_BOTH.items()))
        self.show(LEASES, renewed(1))
        self._system: Any = SimpleNamespace(tables=self._tables)
        self._clock, self._texts = VirtualClock(), list[str]()
        cluster: Any = SimpleNamespace(clock=self._clock, injector=SimpleNamespace(faults=parse_faults(faults)))
        self._invariant = TaintsWithinTheRate(cluster, LIMITS)
        self._invariant.observe(ProcessStarted("manager", self._system), self._texts.append)

    def show(self, resource: Resource, *objects: Object) -> None:
        table = self._tables[resource.id]
        entries = [table.make_entry(obj, encode_object(obj)) for obj in objects]
        if not table.synced:
            self._writers[resource.id].replace(entries, 5)
        for entry in entries:
            self._writers[resource.id].put(entry)

    def settled(self, command: Get | Patch | Update, outcome: Outcome) -> None:
        received = OutcomeReceived("manager", self._system, LIFECYCLE, command, outcome)
        self._invariant.observe(received, self._texts.append)

    def later(self, seconds: float) -> None:
        """Advance the clock and sample the process, twice, so that older rates expire."""
        for _ in range(2):
            self._clock.advance_to(self._clock.monotonic() + seconds)
            self.settled(Get(NODES.id, "b0"), CUT_OFF)

    def tainted(self) -> list[str]:
        """Taint the node a0, and return the violations."""
        body = encode_object({"spec": {"taints": [taint("node.kubernetes.io/unreachable")]}})
        submit = Submit(LIFECYCLE, 1, "client", 1, (Patch(NODES.id, "a0", body),))
        self._invariant.observe(Submitted("manager", self._system, submit), self._texts.append)
        return self._texts


@pytest.fixture
def judged() -> Judged:
    return Judged()


NO_RATE = ["a0 is tainted, but the eviction rate of :a is 0"]


@pytest.mark.parametrize(
    ("outcomes", "wrong"),
    [
        ([], NO_RATE),
        ([(STATUS, REFUSED)], []),
        ([(STATUS, CUT_OFF)], []),
        ([(STATUS, GIVEN_UP)], []),
        ([(STATUS, CONFLICT), (READ, READY)], NO_RATE),
        ([(STATUS, CONFLICT), (READ, CUT_OFF)], []),
        ([(READ, CUT_OFF)], NO_RATE),
        ([(LABELS, REFUSED)], NO_RATE),
        ([(LABELS, READY)], NO_RATE),
    ],
    ids=[
        "the fourth is ready",
        "its status could not be written",
        "nobody knows whether it was written",
        "it was given up, and the watch is late",
        "it had changed, and was fetched",
        "it had changed, and could not be fetched",
        "it was not read, for another reason",
        "its labels could not be written",
        "its labels were written",
    ],
)
def test_a_zone_of_four_with_three_nodes_down_has_no_rate_unless_the_fourth_counts_no_more(
    judged: Judged, outcomes: list[tuple[Get | Patch | Update, Outcome]], wrong: list[str]
) -> None:
    # As upstream, a silent node whose status could not be written counts in no zone.
    for command, outcome in outcomes:
        judged.settled(command, outcome)
    assert judged.tainted() == wrong


@pytest.mark.parametrize(
    ("sign", "wrong"),
    [(None, []), ((LEASES, renewed(8)), NO_RATE), ((NODES, zoned("a3", "True", 8)), NO_RATE)],
    ids=["none", "its Lease is renewed", "its status is posted"],
)
def test_a_node_counts_again_after_a_sign_of_life(
    judged: Judged, sign: tuple[Resource, Object] | None, wrong: list[str]
) -> None:
    judged.settled(STATUS, REFUSED)
    if sign is not None:
        judged.show(*sign)
    judged.later(OLD + 1)
    assert judged.tainted() == wrong


def test_newer_table_entry_replaces_a_returned_node(judged: Judged) -> None:
    judged.settled(STATUS, GIVEN_UP)
    judged.show(NODES, zoned("a3", "True", 10))
    judged.later(OLD + 1)
    assert judged.tainted() == NO_RATE


@pytest.mark.parametrize(
    ("faults", "wrong"),
    [("", NO_RATE), ("process-paused 1..20 process=manager", [])],
    ids=["it had its passes meanwhile", "it was paused"],
)
def test_token_may_be_used_when_a_paused_process_resumes(faults: str, wrong: list[str]) -> None:
    # Its zone has lost its rate during the pause, and no pass has run since. Upstream taints the node as well.
    judged = Judged(faults)
    judged.show(NODES, zoned("a3", "Unknown", 6))
    judged.settled(LABELS, CUT_OFF)
    judged.show(NODES, zoned("a3", "True", 7))
    judged.later(OLD / 2 + 1)
    assert judged.tainted() == wrong
