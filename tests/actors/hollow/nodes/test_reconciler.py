from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from kcm.actors.hollow import behaviour
from kcm.actors.hollow.nodes.fleet import make_fleet
from kcm.actors.hollow.nodes.reconciler import HollowNodes, node_watches, spread
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Bench, Driven, bodies, drive, failing
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Create, Delete, Patch
from kcm.protocols.messages.outcomes import AlreadyExists, Conflict, NotFound, Outcome, Unknown
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import LEASES, NODES
from kcm.protocols.times import format_micro_time
from tests.actors.hollow.objects import FLEET, hollow_node, nodes

NAME = "hollow-node-0"
LEASE = f"kube-node-lease/{NAME}"
SILENT = {behaviour.SILENT: "true"}


class World:
    """A cluster with these nodes, and their kubelets."""

    def __init__(self, *there: Object, fleet: Object = FLEET) -> None:
        self.bench = Bench({NODES: there, LEASES: []})
        self.clock = self.bench.clock
        self.kubelets = HollowNodes(tables=self.bench.tables, clock=self.clock, fleet=fleet)

    def drive(self, key: str = NAME, answer: Callable[..., Any] | None = None, **options: Any) -> Driven:
        return drive(self.kubelets, key, answer or self.bench.accept, tables=self.bench.tables, **options)

    def beat(self, key: str = NAME) -> Driven:
        """Wait until the next sync is due, and sync."""
        self.clock.advance(self.drive(key).result.seconds)
        return self.drive(key)

    def node(self, name: str = NAME) -> Object:
        return self.bench.tables[NODES].get(name)

    def lease(self) -> Object:
        return self.bench.tables[LEASES].get(LEASE)

    def annotate(self, **annotations: str) -> None:
        shown = self.node()
        self.bench.show(NODES, {**shown, "metadata": {**shown["metadata"], "annotations": annotations}})


def kinds(driven: Driven) -> list[tuple[str | type[Any], ...]]:
    return [(type(command), command.resource) for command in driven.commands]


def test_a_node_registers_and_gets_its_lease() -> None:
    world = World()
    driven = world.drive()
    assert kinds(driven) == [(Create, NODES.id), (Patch, LEASES.id), (Patch, NODES.id), (Create, LEASES.id)]
    assert world.lease()["spec"]["holderIdentity"] == NAME
    assert world.lease()["metadata"]["ownerReferences"][0]["uid"] == world.node()["metadata"]["uid"]


def test_status_ignored_at_creation_is_written_afterwards() -> None:
    world = World()

    def forgetful(command: Command) -> Outcome:
        if isinstance(command, Create) and command.resource == NODES.id:
            bare = {**hollow_node(), "status": {}}
            return world.bench.accept(Create(NODES.id, "", encode_object(bare)))
        return world.bench.accept(command)

    driven = world.drive(answer=forgetful)
    assert [command.subresource for command in driven.of(Patch) if command.resource == NODES.id] == ["status"]
    assert {condition["type"] for condition in world.node()["status"]["conditions"]} >= {"Ready", "MemoryPressure"}


def test_restarted_kubelet_corrects_the_labels_of_its_node() -> None:
    old = hollow_node(labels={"topology.kubernetes.io/zone": "zone-z", "mine": "kept"})
    world = World(old)
    driven = world.drive()
    assert world.node()["metadata"]["labels"] == {**hollow_node()["metadata"]["labels"], "mine": "kept"}
    assert driven.of(Create)[0].resource == LEASES.id


def test_node_just_created_by_others_is_synced_soon() -> None:
    world = World()
    answer = failing(after=0, outcome=AlreadyExists(), to=Create, otherwise=world.bench.accept)
    driven = world.drive(answer=answer)
    assert (len(driven.commands), driven.result.seconds) == (1, 1)


def test_the_lease_is_renewed_every_ten_seconds_and_a_little() -> None:
    world = World(hollow_node())
    world.drive()
    world.beat()
    for _ in range(20):
        before = world.clock.monotonic()
        driven = world.beat()
        assert 10 <= world.clock.monotonic() - before <= 10.4
        renewal, *_ = bodies(driven, Patch)
        assert renewal["spec"]["renewTime"] == format_micro_time(world.clock.now())


def test_nothing_is_written_before_the_next_heartbeat() -> None:
    world = World(hollow_node())
    world.drive()
    due = world.drive().result.seconds
    world.clock.advance(due / 2)
    driven = world.drive()
    assert driven.commands == []
    assert driven.result.seconds == pytest.approx(due / 2)


def test_the_status_is_written_every_five_minutes_though_nothing_changes() -> None:
    world = World(hollow_node())
    world.drive()
    for _ in range(31):  # until the first heartbeat, which is early at random
        world.beat()
    times = [world.clock.monotonic() for _ in range(100) if len(world.beat().of(Patch)) == 2]
    assert len(times) >= 3
    assert all(300 <= after - before <= 325 for before, after in pairwise(times))


def test_foreign_status_change_is_corrected_with_the_next_heartbeat() -> None:
    world = World(hollow_node())
    world.drive()
    lost = {
        **hollow_node(),
        "status": {**hollow_node()["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]},
    }
    world.bench.show(NODES, lost)
    assert world.drive().commands == []
    driven = world.beat()
    assert [command.resource for command in driven.commands] == [LEASES.id, NODES.id]
    ready = [condition for condition in world.node()["status"]["conditions"] if condition["type"] == "Ready"]
    assert [condition["status"] for condition in ready] == ["True"]


def test_nodes_that_started_together_drift_apart() -> None:
    fleet = make_fleet(nodes=200, zones=2)
    world = World(*nodes(fleet), fleet=fleet)
    delays = [world.drive(name).result.seconds for name in fleet]
    assert all(0 <= delay < 10 for delay in delays)
    tenths = [sum(low <= delay < low + 1 for delay in delays) for low in range(10)]
    assert min(tenths) >= 8  # of 20 on average


def test_the_spread_is_the_same_in_every_run_and_even() -> None:
    shares = [spread(f"node-{index}", 3) for index in range(1000)]
    assert shares == [spread(f"node-{index}", 3) for index in range(1000)]
    assert 0.45 < sum(shares) / 1000 < 0.55


def test_deleted_lease_is_created_again() -> None:
    world = World(hollow_node())
    world.drive()
    world.bench.catch_up()
    world.bench.hide(LEASES, LEASE)
    driven = world.beat()
    assert kinds(driven)[-1] == (Create, LEASES.id)
    assert world.lease() is not None


def test_silent_node_writes_nothing_until_it_resumes() -> None:
    world = World(hollow_node())
    world.drive()
    world.annotate(**SILENT)
    world.clock.advance(60)
    driven = world.drive()
    assert (driven.commands, driven.result) == ([], None)
    world.annotate()
    assert world.drive().commands[0].resource == LEASES.id


def test_deleted_node_is_not_registered_again_before_a_restart() -> None:
    world = World(hollow_node())
    world.drive()
    world.bench.hide(NODES, NAME)
    world.clock.advance(60)
    driven = world.drive()
    assert (driven.commands, driven.result) == ([], None)
    world.kubelets = HollowNodes(tables=world.bench.tables, clock=world.clock, fleet=FLEET)
    assert kinds(world.drive())[0] == (Create, NODES.id)


def test_node_recreated_by_hand_is_managed_again() -> None:
    world = World(hollow_node())
    world.drive()
    world.bench.hide(NODES, NAME)
    world.clock.advance(60)
    world.bench.show(NODES, {"metadata": {"name": NAME, "uid": "by-hand"}})
    driven = world.drive()
    assert [command.resource for command in driven.of(Patch)] == [LEASES.id, NODES.id]


def test_node_deleted_during_a_heartbeat_causes_no_error() -> None:
    world = World(hollow_node())
    answer = failing(after=0, outcome=NotFound(), to=Patch, otherwise=lambda _: NotFound())
    assert world.drive(answer=answer).result is not None


def test_failed_heartbeat_is_still_due() -> None:
    world = World(hollow_node())
    world.drive(answer=lambda _: Unknown("timeout"), raises=CommandError)
    assert kinds(world.drive())[0] == (Patch, LEASES.id)


def test_hollow_nodes_of_an_earlier_larger_fleet_are_deleted() -> None:
    world = World(hollow_node("hollow-node-2"), fleet=make_fleet(nodes=2, zones=1))
    (command,) = world.drive("hollow-node-2").commands
    assert isinstance(command, Delete)
    assert (command.key, command.uid) == ("hollow-node-2", "uid-of-hollow-node-2")


@pytest.mark.parametrize("outcome", [NotFound(), Conflict()])
def test_surplus_node_that_is_deleted_or_replaced_causes_no_error(outcome: Outcome) -> None:
    world = World(hollow_node("hollow-node-2"), fleet=make_fleet(nodes=2, zones=1))
    assert world.drive("hollow-node-2", answer=lambda _: outcome).result is None


def test_nodes_that_are_not_hollow_are_left_alone() -> None:
    real = {"metadata": {"name": "n1"}, "status": {"nodeInfo": {"containerRuntimeVersion": "containerd://2.1.0"}}}
    assert World(real).drive("n1").commands == []


# event type, key, whether the key is enqueued
EVENTS = [
    ("ADDED", "hollow-node-1", True),
    ("MODIFIED", "hollow-node-1", True),
    ("DELETED", "hollow-node-1", True),
    ("ADDED", "hollow-node-7", True),
    ("MODIFIED", "n1", False),
]


@pytest.mark.parametrize("type, key, looked_at", EVENTS)
def test_fleet_nodes_are_enqueued_on_changes_and_others_on_creation(type: str, key: str, looked_at: bool) -> None:
    (watch,) = node_watches(FLEET)
    change = Change(type=type, key=key, raw=b"{}", controller=None)
    assert list(watch.to(change, World().bench.tables)) == ([key] if looked_at else [])


def test_flapping_node_is_silent_in_every_other_period() -> None:
    world = World(hollow_node())
    world.drive()
    world.annotate(**{behaviour.FLAP: "60"})
    spoken = []
    for _ in range(240):
        world.clock.advance(1.0)
        if world.drive().commands:
            spoken.append(int(world.clock.now()) // 60 % 2)
    assert spoken
    assert set(spoken) == {0}


def test_flapping_node_is_requeued_for_its_next_period() -> None:
    world = World(hollow_node(annotations={behaviour.FLAP: "60"}))
    world.clock.advance(60 - world.clock.now() % 60 + (0 if world.clock.now() // 60 % 2 == 0 else 60))
    driven = world.drive()
    assert driven.commands == []
    assert driven.result.seconds == pytest.approx(60.0)
    world.clock.advance(driven.result.seconds)
    assert world.drive().commands


def test_a_node_that_lags_speaks_less_often() -> None:
    world = World(hollow_node(annotations={behaviour.HEARTBEAT: "60"}))
    world.drive()
    world.beat()
    assert 60.0 <= world.drive().result.seconds <= 60.0 * 1.04


def test_shorter_heartbeat_interval_applies_at_once() -> None:
    world = World(hollow_node())
    world.drive()
    world.beat()
    world.annotate(**{behaviour.HEARTBEAT: "1"})
    assert world.drive().result.seconds <= 1.04


def test_unready_node_is_reported_until_it_is_ready() -> None:
    world = World(hollow_node())
    world.drive()

    def ready() -> list[str]:
        return [c["status"] for c in world.node()["status"]["conditions"] if c["type"] == "Ready"]

    world.bench.catch_up()
    world.annotate(**{behaviour.READY: "false"})
    world.beat()
    assert ready() == ["False"]
    world.bench.catch_up()
    world.annotate()
    world.beat()
    assert ready() == ["True"]


def test_invalid_annotation_is_reported_once_and_the_node_continues() -> None:
    world = World(hollow_node(annotations={behaviour.ATTACH_LIMIT: "-5", behaviour.FLAP: "x" * 200_000}))
    events = world.drive().events
    assert [event[:2] for event in events] == [("Warning", "InvalidAnnotation")] * 2
    assert events[1][2] == "annotation hollow.kcm.dev/attach-limit: '-5' is not a number from 0 to 2147483647"
    assert all(len(event[2]) < 200 for event in events)
    driven = world.beat()
    assert driven.events == []
    assert (Patch, LEASES.id) in kinds(driven)
    world.annotate()
    assert world.drive().events == []
    world.annotate(**{behaviour.ATTACH_LIMIT: "-5"})
    assert len(world.drive().events) == 1
