"""Counts of the status, and the DaemonSets that changes of nodes enqueue."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kcm.actors.controllers.workloads.daemonset.watches import NodeChange
from kcm.actors.reconciliation import Enqueue
from kcm.actors.simulation.driver import drive_steps
from kcm.protocols.messages.command_error import CommandError
from kcm.protocols.messages.commands import Command, Get, Update
from kcm.protocols.messages.outcomes import Conflict, Outcome
from kcm.protocols.nodes import node_facts
from kcm.protocols.objects import Object, name_of
from kcm.protocols.resources import NODES
from tests.actors.controllers.workloads.daemonset.scene import KEY, Scene, daemon_set, node, nodes, owned

Build = Callable[..., Scene]


def test_nodes_are_counted(scene: Build) -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    there = [*nodes(3), node("tainted", taints=[taint])]
    env = scene(daemon_set(), nodes=there, pods=[owned("z", "tainted")])
    env.sync()
    assert env.status() == {
        "desiredNumberScheduled": 3,
        "currentNumberScheduled": 3,
        "updatedNumberScheduled": 3,
        "numberUnavailable": 3,
        "numberReady": 0,
        "numberMisscheduled": 1,
        "observedGeneration": 1,
    }
    env.bench.catch_up()
    for pod in env.pods():
        if pod["metadata"]["name"] != "z":
            env.edit(pod, lambda each: {**each, "status": {"phase": "Running", "conditions": [READY]}})
    env.sync()
    assert (env.status()["numberReady"], env.status()["numberAvailable"]) == (3, 3)
    assert "numberUnavailable" not in env.status()


READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def test_set_is_requeued_until_the_next_pod_is_available(scene: Build) -> None:
    env = scene(daemon_set(minReadySeconds=15), nodes=nodes(2))
    env.counted()
    env.make_ready(seconds_ago=10.0)
    driven = env.sync()
    assert driven.result is not None
    assert driven.result.seconds == pytest.approx(5.0)


def test_status_rejected_twice_is_an_error(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))

    def answer(command: Command) -> Outcome:
        return Conflict("changed") if isinstance(command, Update) else env.bench.accept(command)

    driven = env.sync(answer, raises=CommandError)
    assert (len(driven.of(Update)), len(driven.of(Get))) == (2, 1)


FAST, SLOW = node("n0", disk="fast"), node("n0", disk="slow")


@pytest.mark.parametrize(
    ("before", "after", "concerned"),
    [
        (SLOW, FAST, True),
        (FAST, SLOW, True),
        (None, FAST, True),
        (None, SLOW, False),
        (FAST, None, True),
        (SLOW, None, False),
        (SLOW, node("n0", disk="slower"), False),
        (FAST, node("n0", disk="fast", zone="a"), False),
        (FAST, node("n0", disk="fast", taints=[{"key": "gpu", "effect": "NoSchedule"}]), True),
    ],
)
def test_node_change_enqueues_affected_daemon_sets(
    scene: Build, before: Object | None, after: Object | None, concerned: bool
) -> None:
    env = scene(daemon_set(pod={"nodeSelector": {"disk": "fast"}}), nodes=[each for each in (before,) if each])
    env.sync()
    if after is not None:
        env.bench.show(NODES, after)
    elif before is not None:
        env.bench.hide(NODES, "n0")
    change = NodeChange("n0", b"" if before is None else node_facts(before).placement)
    driven = drive_steps(env.reconciler.node_changed(change), env.bench.accept, tables=env.tables)
    assert driven.enqueued == ([Enqueue("daemonset", KEY)] if concerned else [])


@pytest.mark.parametrize(("back", "concerned"), [(SLOW, True), (node("n1"), False)])
def test_returned_node_enqueues_daemon_set_with_a_pod_there(scene: Build, back: Object, concerned: bool) -> None:
    """The pod was scheduled before the set got a node selector that the node does not match."""
    obj = daemon_set(pod={"nodeSelector": {"disk": "fast"}}, updateStrategy={"type": "OnDelete"})
    env = scene(obj, pods=[owned("z", "n0")])
    env.sync()
    env.bench.show(NODES, back)
    driven = drive_steps(
        env.reconciler.node_changed(NodeChange(name_of(back), b"")), env.bench.accept, tables=env.tables
    )
    assert driven.enqueued == ([Enqueue("daemonset", KEY)] if concerned else [])


def test_unsynced_daemon_set_is_not_enqueued_by_nodes(scene: Build) -> None:
    env = scene(daemon_set(), nodes=nodes(1))
    driven = drive_steps(env.reconciler.node_changed(NodeChange("n0", b"")), env.bench.accept, tables=env.tables)
    assert driven.enqueued == []
