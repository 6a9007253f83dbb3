from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from kcm.actors.hollow.nodes.fleet import make_fleet
from kcm.actors.hollow.scheduler.reconciler import HollowScheduler
from kcm.actors.hollow.scheduler.watches import scheduler_watches
from kcm.actors.reconciliation import Change
from kcm.actors.simulation.driver import Driven, bodies, drive
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Create, Patch
from kcm.protocols.messages.outcomes import Conflict, NotFound, Outcome, ServerFailure, Unknown
from kcm.protocols.objects import Object, decode_object, encode_object, key_of
from kcm.protocols.resources import NODES, PODS, Resource
from tests.actors.hollow.objects import FLEET, bench, bound, deleted, hollow_node, nodes, unassigned

KEY = "default/web"


class World:
    """A cluster with these pods and nodes, and its scheduler."""

    def __init__(self, *pods: Object, on: Sequence[Object] | None = None) -> None:
        self.bench = bench(pods=pods, nodes=nodes() if on is None else on)
        self.clock = self.bench.clock
        self.restart()

    def restart(self) -> None:
        self.scheduler = HollowScheduler(tables=self.bench.tables, clock=self.clock)

    def drive(self, key: str = KEY, answer: Callable[..., Any] | None = None, **options: Any) -> Driven:
        return drive(self.scheduler, key, answer or self.bench.accept, tables=self.bench.tables, **options)

    def schedule(self, name: str = "web") -> str | None:
        """Drive the scheduler and show the binding as the watch would. Returns the node, or None."""
        key = f"default/{name}"
        target = target_of(self.drive(key))
        if target is not None:
            pod = self.pod(key)
            self.bench.show(PODS, {**pod, "spec": {**pod["spec"], "nodeName": target}})
        return target

    def pod(self, key: str = KEY) -> Object:
        return self.bench.tables[PODS].get(key)

    def scheduled_condition(self, key: str = KEY) -> Object:
        (condition,) = [
            condition for condition in self.pod(key)["status"]["conditions"] if condition["type"] == "PodScheduled"
        ]
        return condition


def target_of(driven: Driven) -> str | None:
    names = [body["target"]["name"] for body in bodies(driven, Create)]
    assert len(names) <= 1
    return names[0] if names else None


def messages(driven: Driven) -> list[str]:
    return [message for _, _, message in driven.events]


HALF = {"cpu": "16"}
ALL = {"cpu": "32"}


def test_a_pod_is_bound_to_a_node() -> None:
    world = World(unassigned())
    driven = world.drive()
    (command,) = driven.commands
    assert (command.resource, command.namespace, command.name) == (PODS.id, "default", "web")
    assert command.subresource == "binding"
    assert decode_object(command.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-of-web"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "hollow-node-0"},
    }
    assert driven.events == [("Normal", "Scheduled", "Successfully assigned default/web to hollow-node-0")]


NOT_OURS = {
    "another scheduler's": unassigned(schedulerName="mine"),
    "assigned already": bound(),
    "being deleted": deleted(unassigned()),
    "over": {**unassigned(), "status": {"phase": "Failed"}},
    "held back by a gate": unassigned(schedulingGates=[{"name": "wait"}]),
}


@pytest.mark.parametrize("case", NOT_OURS)
def test_pods_that_are_not_to_be_scheduled_are_left_alone(case: str) -> None:
    driven = World(NOT_OURS[case]).drive()
    assert (driven.commands, driven.records, driven.result) == ([], [], None)


def test_deleted_pod_needs_no_commands() -> None:
    assert World().drive().commands == []


# Existing pods.


def test_our_own_bindings_count_before_the_watch_shows_them() -> None:
    names = [f"p{index}" for index in range(7)]
    world = World(*(unassigned(name, requests=HALF) for name in names))
    targets = [target_of(world.drive(f"default/{name}")) for name in names]
    assert sorted(targets[:6]) == sorted([*FLEET, *FLEET])
    assert targets[6] is None


def test_a_pod_is_not_bound_twice_while_the_watch_is_late() -> None:
    world = World(unassigned())
    world.drive()
    driven = world.drive()
    assert (driven.commands, driven.result) == ([], None)


def test_pods_that_run_already_count() -> None:
    world = World(*(bound(f"p{index}", to=f"hollow-node-{index}", requests=ALL) for index in (0, 1)), unassigned())
    world.bench.show(PODS, unassigned(requests=HALF))
    assert world.schedule() == "hollow-node-2"


def test_pods_that_are_over_do_not_count() -> None:
    over = {**bound("p", requests=ALL), "status": {"phase": "Succeeded"}}
    assert World(over, unassigned(requests=ALL), on=[hollow_node()]).schedule() == "hollow-node-0"


def test_terminating_pod_counts_until_it_is_deleted() -> None:
    world = World(deleted(bound("p", requests=ALL)), unassigned(requests=HALF), on=[hollow_node()])
    assert world.schedule() is None
    world.bench.hide(PODS, "default/p")
    world.drive("default/p")
    world.clock.advance(1)
    assert world.schedule() == "hollow-node-0"


def test_pod_bound_by_another_scheduler_counts() -> None:
    world = World(unassigned(requests=HALF), on=[hollow_node()])
    world.bench.show(PODS, unassigned("other", requests=ALL, schedulerName="mine"))
    world.drive("default/other")
    world.bench.show(PODS, bound("other", requests=ALL, schedulerName="mine"))
    world.drive("default/other")
    assert world.schedule() is None


def test_a_namesake_of_a_pod_we_have_bound_is_another_pod() -> None:
    world = World(unassigned(requests=ALL), on=[hollow_node()])
    world.drive()
    namesake = unassigned(requests=ALL)
    namesake["metadata"]["uid"] = "another"
    world.bench.show(PODS, namesake)
    assert world.schedule() == "hollow-node-0"


def test_malformed_pod_does_not_prevent_scheduling_of_another_pod() -> None:
    world = World(bound("broken", requests={"cpu": "lots"}), unassigned())
    assert world.schedule() in FLEET
    world.drive("default/broken", raises=ValueError)


def test_new_scheduler_counts_existing_pods() -> None:
    world = World(*(unassigned(f"p{index}", requests=ALL) for index in range(3)), unassigned())
    for index in range(3):
        world.schedule(f"p{index}")
    world.restart()
    world.bench.show(PODS, unassigned(requests=HALF))
    assert world.schedule() is None


# Selection of the node.


def test_pods_of_one_owner_are_spread_over_zones_and_nodes() -> None:
    names = [f"p{index}" for index in range(4)]
    world = World(*(unassigned(name, owner="rs") for name in names))
    zones = [FLEET[world.schedule(name)].zone for name in names]
    assert sorted(zones) == ["zone-a", "zone-a", "zone-b", "zone-b"]


def test_unrelated_pods_go_to_the_emptiest_node() -> None:
    names = [f"p{index}" for index in range(9)]
    world = World(*(unassigned(name) for name in names))
    targets = [world.schedule(name) for name in names]
    assert {name: targets.count(name) for name in FLEET} == dict.fromkeys(FLEET, 3)


def test_daemon_pod_is_bound_to_its_target_node() -> None:
    field = {"key": "metadata.name", "operator": "In", "values": ["hollow-node-2"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    assert World(unassigned(affinity=affinity)).schedule() == "hollow-node-2"


def test_deleted_node_gets_no_pods() -> None:
    world = World(*(unassigned(f"p{index}") for index in range(4)))
    world.schedule("p0")
    world.bench.hide(NODES, "hollow-node-1")
    world.bench.hide(NODES, "hollow-node-2")
    assert {world.schedule(f"p{index}") for index in (1, 2, 3)} == {"hollow-node-0"}


def test_all_nodes_of_a_large_cluster_get_pods() -> None:
    fleet = make_fleet(nodes=200, zones=3)
    world = World(*(unassigned(f"p{index}") for index in range(180)), on=nodes(fleet))
    targets = {target_of(world.drive(f"default/p{index}")) for index in range(180)}
    assert len(targets) == 180


# Unschedulable pods.


def test_unschedulable_pod_gets_event_and_condition() -> None:
    there = [
        hollow_node("hollow-node-0", spec={"unschedulable": True}),
        hollow_node("hollow-node-1", spec={"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}),
        hollow_node("hollow-node-2", allocatable={"cpu": "1"}),
    ]
    driven = World(unassigned(requests={"cpu": "2"}), on=there).drive()
    message = (
        "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable."
    )
    assert driven.events == [("Warning", "FailedScheduling", message)]
    (command,) = driven.commands
    assert (command.key, command.subresource) == (KEY, "status")
    (patch,) = bodies(driven, Patch)
    assert patch == {
        "metadata": {"uid": "uid-of-web"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message,
                    "lastTransitionTime": "2027-01-15T08:00:00Z",
                }
            ]
        },
    }


def test_cluster_without_nodes_is_reported() -> None:
    assert messages(World(unassigned(), on=[]).drive()) == ["no nodes available to schedule pods"]


def full() -> World:
    """Return a world with a pod that does not fit on the only node, after the scheduler has reported it."""
    world = World(bound("p", requests=ALL), unassigned(requests=HALF), on=[hollow_node()])
    assert world.drive().result.seconds == 1
    return world


def test_unchanged_failure_is_not_reported_again() -> None:
    world = full()
    waits = []
    for _ in range(8):
        world.clock.advance(waits[-1] if waits else 1)
        driven = world.drive()
        assert (driven.commands, driven.records) == ([], [])
        waits.append(driven.result.seconds)
    assert waits == [1, 2, 4, 8, 10, 10, 10, 10]


def test_unschedulable_pod_is_not_retried_before_its_backoff() -> None:
    world = full()
    world.bench.show(NODES, hollow_node("hollow-node-1"))
    world.clock.advance(0.25)
    assert world.drive().result.seconds == 0.75
    world.clock.advance(0.75)
    assert world.schedule() == "hollow-node-1"


CHANGES = {
    "a node has come": lambda world: world.bench.show(NODES, hollow_node("hollow-node-1")),
    "a node has grown": lambda world: world.bench.show(NODES, hollow_node(allocatable={"cpu": "64"})),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_of_the_nodes_is_worth_a_try(case: str) -> None:
    world = full()
    CHANGES[case](world)
    world.clock.advance(1)
    assert world.schedule() is not None


def test_pod_with_reduced_requests_is_retried_at_once() -> None:
    world = full()
    pod = world.pod()
    smaller = {**pod["spec"], "containers": [{"name": "web", "image": "nginx"}]}
    world.bench.show(PODS, {**pod, "spec": smaller, "metadata": {"name": "web", "namespace": "default"}})
    assert world.schedule() == "hollow-node-0"


def test_each_failure_makes_the_next_try_wait_longer() -> None:
    world, waits = full(), []
    for index in range(6):
        world.clock.advance(10)
        world.bench.show(NODES, hollow_node(labels={"turn": str(index)}))
        waits.append(world.drive().result.seconds)
    assert waits == [2, 4, 8, 10, 10, 10]


def test_condition_is_written_only_if_it_changes() -> None:
    world = full()
    since = world.scheduled_condition()["lastTransitionTime"]
    world.clock.advance(10)
    world.bench.show(NODES, hollow_node(labels={"x": "y"}))
    driven = world.drive()
    assert (driven.commands, len(driven.records)) == ([], 1)
    world.clock.advance(10)
    world.bench.show(NODES, hollow_node(spec={"unschedulable": True}))
    world.drive()
    assert world.scheduled_condition()["message"].endswith("1 node(s) were unschedulable.")
    assert world.scheduled_condition()["lastTransitionTime"] == since


# Errors.


@pytest.mark.parametrize("outcome", [NotFound(), Conflict("is already assigned")])
def test_deleted_or_already_bound_pod_causes_no_error(outcome: Outcome) -> None:
    world = World(unassigned(requests=ALL), unassigned("next", requests=ALL), on=[hollow_node()])
    driven = world.drive(answer=lambda _: outcome)
    assert (driven.records, driven.result) == ([], None)
    assert world.schedule("next") == "hollow-node-0"


@pytest.mark.parametrize("outcome", [Unknown("timeout"), ServerFailure("down")])
def test_failed_binding_is_retried(outcome: Outcome) -> None:
    world = World(unassigned(requests=ALL), on=[hollow_node()])
    assert world.drive(answer=lambda _: outcome, raises=CommandError).records == []
    assert world.schedule() == "hollow-node-0"


# Enqueued keys.


def woken(world: World, resource: Resource, type: str, new: Object, old: Object | None = None) -> list[str]:
    raw = encode_object(new)
    previous = b"" if old is None else encode_object(old)
    change = Change(type=type, key=key_of(new), raw=raw, controller=None, previous=previous)
    (watch,) = [watch for watch in scheduler_watches() if watch.resource == resource]
    return sorted(watch.to(change, world.bench.tables))


WAITING = ["default/a", "default/b"]
OVER = {**bound("c"), "status": {"phase": "Succeeded"}}
EVENTS = {
    "a pod that changes wakes itself": (PODS, "MODIFIED", bound("c"), None, ["default/c"]),
    "a pod that goes makes room": (PODS, "DELETED", bound("c"), None, [*WAITING, "default/c"]),
    "a node that comes": (NODES, "ADDED", hollow_node(), None, WAITING),
    "a heartbeat": (
        NODES,
        "MODIFIED",
        hollow_node(),
        {**hollow_node(), "status": {**hollow_node()["status"], "conditions": []}},
        [],
    ),
    "a taint that goes": (
        NODES,
        "MODIFIED",
        hollow_node(),
        hollow_node(spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}),
        WAITING,
    ),
    "a node that goes": (NODES, "DELETED", hollow_node(), hollow_node(), []),
}


@pytest.mark.parametrize("case", EVENTS)
def test_waiting_pods_are_woken_by_what_may_help_them(case: str) -> None:
    resource, type, new, old, keys = EVENTS[case]
    world = World(unassigned("a"), unassigned("b"), bound("c"))
    assert woken(world, resource, type, new, old) == keys


def test_a_pod_that_is_over_makes_room() -> None:
    assert woken(World(unassigned("a"), OVER), PODS, "MODIFIED", OVER) == ["default/a", "default/c"]
