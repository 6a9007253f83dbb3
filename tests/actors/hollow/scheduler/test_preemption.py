"""Choice of the pods to preempt, and preemption by the hollow scheduler."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from kcm.actors.hollow.scheduler.demand import Demand
from kcm.actors.hollow.scheduler.preemption import (
    Budget,
    Victim,
    Victims,
    best_candidate,
    budgets_of,
    candidates_to_find,
    select_victims,
)
from kcm.actors.hollow.scheduler.preemptor import Preemptor
from kcm.actors.hollow.scheduler.reconciler import HollowScheduler
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.simulation.driver import Bench, Driven, bodies, deleted_keys, drive
from kcm.protocols.messages.commands import Command, Create, Delete, Patch
from kcm.protocols.messages.outcomes import Done, Outcome
from kcm.protocols.objects import Object, encode_object
from kcm.protocols.resources import NODES, POD_DISRUPTION_BUDGETS, PODS
from kcm.protocols.selectors import label_selector_of
from tests.actors.hollow.objects import bound, deleted, hollow_node, unassigned


def victim(name: str, *, priority: int = 0, started: float = math.inf, cpu: int = 1, app: str = "") -> Victim:
    labels = {"app": app} if app else {}
    pod = {"metadata": {"name": name, "namespace": "default", "labels": labels}, "spec": {}}
    return Victim(f"default/{name}", pod, priority, started, Demand(requests=(("cpu", cpu),), priority=priority))


def budget(app: str, *, allowed: int, disrupted: Sequence[str] = (), namespace: str = "default") -> Budget:
    return Budget(namespace, label_selector_of({"matchLabels": {"app": app}}), allowed, frozenset(disrupted))


class Choice:
    """Victims on a node with this CPU, for a pod that needs this CPU."""

    def __init__(self, *potential: Victim, free: int = 0, needed: int, budgets: Sequence[Budget] = ()) -> None:
        def fits_without(removed: Sequence[Victim]) -> bool:
            return free + sum(dict(each.demand.requests)["cpu"] for each in removed) >= needed

        self.victims = select_victims(potential, budgets, fits_without)

    @property
    def names(self) -> list[str] | None:
        return None if self.victims is None else [each.key.partition("/")[2] for each in self.victims.pods]


def test_no_more_pods_are_preempted_than_needed() -> None:
    assert len(Choice(victim("a"), victim("b"), victim("c"), needed=2).names or ()) == 2


def test_pods_of_the_lowest_priority_are_preempted() -> None:
    pods = [victim("a", priority=5), victim("b", priority=1), victim("c", priority=3)]
    assert Choice(*pods, needed=1).names == ["b"]
    assert Choice(*pods, needed=2).names == ["c", "b"]


def test_youngest_pod_of_equal_priority_is_preempted() -> None:
    assert Choice(victim("old", started=1.0), victim("young", started=9.0), needed=1).names == ["young"]
    assert Choice(victim("old", started=1.0), victim("not started"), needed=1).names == ["not started"]


def test_a_large_pod_of_low_priority_is_spared_if_smaller_ones_suffice() -> None:
    pods = [victim("large", cpu=4, priority=2), victim("small", cpu=2, priority=1)]
    assert Choice(*pods, needed=2).names == ["small"]


def test_node_on_which_preemption_does_not_help_has_no_victims() -> None:
    assert Choice(victim("a"), needed=2).names is None


def test_pods_without_a_budget_are_preempted_first() -> None:
    pods = [victim("protected", priority=1, app="db"), victim("free", priority=2)]
    chosen = Choice(*pods, needed=1, budgets=[budget("db", allowed=0)])
    assert (chosen.names, chosen.victims and chosen.victims.violations) == (["free"], 0)


BUDGETS: Mapping[str, tuple[list[Budget], int]] = {
    "nothing is allowed": ([budget("db", allowed=0)], 2),
    "one is allowed": ([budget("db", allowed=1)], 1),
    "two are allowed": ([budget("db", allowed=2)], 0),
    "one is disrupted already": ([budget("db", allowed=1, disrupted=["a"])], 0),
    "another namespace": ([budget("db", allowed=0, namespace="other")], 0),
    "other pods": ([budget("web", allowed=0)], 0),
}


@pytest.mark.parametrize("case", BUDGETS)
def test_violated_budgets_are_counted(case: str) -> None:
    budgets, violations = BUDGETS[case]
    chosen = Choice(victim("a", app="db"), victim("b", app="db"), needed=2, budgets=budgets)
    assert chosen.victims is not None
    assert chosen.victims.violations == violations


def test_budgets_with_empty_or_invalid_selectors_protect_no_pod() -> None:
    selectors: list[Any] = [
        None,
        {},
        {"matchExpressions": [{"key": "a", "operator": "Like"}]},
        {"matchLabels": {"a": "b"}},
    ]
    objects = [
        {"metadata": {"name": "b", "namespace": "default"}, "spec": {"selector": selector}} for selector in selectors
    ]
    assert len(budgets_of(objects)) == 1


def victims(*pods: Victim, violations: int = 0) -> Victims:
    return Victims(pods, violations)


# Each pair: the better candidate, and another one.
CANDIDATES: Mapping[str, tuple[Victims, Victims]] = {
    "fewer violated budgets": (victims(victim("a", priority=9)), victims(victim("b", priority=1), violations=1)),
    "a lower highest priority": (
        victims(victim("a", priority=1), victim("b", priority=1)),
        victims(victim("c", priority=2)),
    ),
    "a lower sum of priorities": (
        victims(victim("a", priority=5), victim("b", priority=1)),
        victims(victim("c", priority=5), victim("d", priority=2)),
    ),
    "fewer pods, even if their priorities are negative": (
        victims(victim("a", priority=-1)),
        victims(victim("b", priority=-1), victim("c", priority=-1)),
    ),
    "a later start": (victims(victim("a", started=9.0)), victims(victim("b", started=1.0))),
    "a later start of the most important pods": (
        victims(victim("a", priority=2, started=9.0), victim("b", started=1.0)),
        victims(victim("c", priority=2, started=8.0), victim("d", started=2.0)),
    ),
}


@pytest.mark.parametrize("case", CANDIDATES)
def test_candidate_is_better_with(case: str) -> None:
    better, other = CANDIDATES[case]
    assert best_candidate({"other": other, "better": better}) == "better"
    assert best_candidate({"better": better, "other": other}) == "better"


def test_number_of_candidates_grows_with_the_cluster() -> None:
    assert [candidates_to_find(nodes) for nodes in (1, 100, 500, 5000)] == [1, 100, 100, 500]


# The scheduler.

HALF, ALL = {"cpu": "16"}, {"cpu": "32"}


class World:
    """One node, its pods, and a scheduler."""

    def __init__(self, *pods: Object, budgets: Sequence[Object] = (), on: Sequence[Object] = ()) -> None:
        objects = {PODS: pods, NODES: on or [hollow_node()], POD_DISRUPTION_BUDGETS: budgets}
        self.bench = Bench(objects, indexes=(PODS_BY_NODE,))
        self.restart()

    def restart(self) -> None:
        tables = self.bench.tables
        preemptor = Preemptor(tables, self.bench.clock)
        self.scheduler = HollowScheduler(tables=tables, clock=self.bench.clock, preemptor=preemptor)

    def drive(self, name: str = "web") -> Driven:
        return drive(self.scheduler, f"default/{name}", self.answer, tables=self.bench.tables)

    def answer(self, command: Command) -> Outcome:
        """Accept the command. A deleted pod terminates gracefully."""
        if not isinstance(command, Delete):
            return self.bench.accept(command)
        return Done(encode_object(deleted(self.pod(command.key.partition("/")[2]))))

    def pod(self, name: str = "web") -> Object:
        found = self.bench.tables[PODS].get(f"default/{name}")
        assert found is not None
        return found


def message(driven: Driven) -> str:
    (text,) = [text for _, reason, text in driven.events if reason == "FailedScheduling"]
    return text


def test_pod_of_lower_priority_is_preempted() -> None:
    world = World(bound("low", requests=ALL, priority=1), unassigned(requests=ALL, priority=2))
    driven = world.drive()
    assert deleted_keys(driven) == ["default/low"]
    assert world.pod()["status"]["nominatedNodeName"] == "hollow-node-0"
    assert message(driven) == "0/1 nodes are available: 1 Insufficient cpu."
    assert ("Normal", "Preempted", "Preempted by pod uid-of-web on node hollow-node-0") in driven.events
    (condition,) = [
        each
        for body in bodies(driven, Patch)
        for each in body["status"].get("conditions", ())
        if each["type"] == "DisruptionTarget"
    ]
    assert (condition["status"], condition["reason"], condition["message"]) == (
        "True",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )


NOT_PREEMPTED: Mapping[str, tuple[Object, Object, str]] = {
    "equal priority": (
        bound("other", requests=ALL, priority=2),
        unassigned(requests=ALL, priority=2),
        (
            "1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 No preemption victims found for incoming pod."
        ),
    ),
    "preemptionPolicy Never": (
        bound("other", requests=ALL, priority=1),
        unassigned(requests=ALL, priority=2, preemptionPolicy="Never"),
        "1 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.",
    ),
    "pod larger than the node": (
        bound("other", requests=ALL, priority=1),
        unassigned(requests={"cpu": "64"}, priority=2),
        (
            "1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
            "1 Preemption is not helpful for scheduling."
        ),
    ),
    "pod that needs another node": (
        bound("other", requests=ALL, priority=1),
        unassigned(requests=ALL, priority=2, nodeSelector={"disk": "ssd"}),
        (
            "1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/1 "
            "nodes are available: 1 Preemption is not helpful for scheduling."
        ),
    ),
}


@pytest.mark.parametrize("case", NOT_PREEMPTED)
def test_no_pod_is_preempted_for(case: str) -> None:
    other, pod, expected = NOT_PREEMPTED[case]
    world = World(other, pod)
    driven = world.drive()
    assert deleted_keys(driven) == []
    assert message(driven) == f"0/1 nodes are available: {expected}"
    assert "nominatedNodeName" not in world.pod()["status"]


def test_pod_waits_while_its_victims_terminate() -> None:
    world = World(bound("low", requests=ALL, priority=1), unassigned(requests=ALL, priority=2))
    world.drive()
    world.bench.show(NODES, hollow_node(labels={"new": "label"}))
    world.bench.clock.advance(2)
    driven = world.drive()
    assert deleted_keys(driven) == []
    assert message(driven).endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert world.pod()["status"]["nominatedNodeName"] == "hollow-node-0"


@pytest.mark.parametrize("restarted", [False, True])
def test_nominated_pod_gets_the_node_before_a_pod_of_lower_priority(restarted: bool) -> None:
    world = World(
        bound("low", requests=ALL, priority=1),
        unassigned(requests=ALL, priority=2),
        unassigned("small", requests=HALF, priority=1),
    )
    world.drive()
    if restarted:
        world.bench.catch_up()
        world.restart()
    world.bench.hide(PODS, "default/low")
    world.drive("low")
    assert bodies(world.drive("small"), Create) == []
    world.bench.clock.advance(2)
    (binding,) = bodies(world.drive(), Create)
    assert binding["target"]["name"] == "hollow-node-0"


def test_pod_of_higher_priority_takes_the_node_of_a_nominated_pod() -> None:
    world = World(
        bound("low", requests=ALL, priority=1),
        unassigned(requests=ALL, priority=2),
        unassigned("high", requests=ALL, priority=3),
    )
    world.drive()
    world.drive("high")
    assert world.pod("high")["status"]["nominatedNodeName"] == "hollow-node-0"
    assert "nominatedNodeName" not in world.pod()["status"]


def test_terminating_pod_is_not_deleted_again() -> None:
    low = deleted(bound("low", requests=ALL, priority=1))
    world = World(low, unassigned(requests=ALL, priority=2))
    assert deleted_keys(world.drive()) == []
    assert world.pod()["status"]["nominatedNodeName"] == "hollow-node-0"


def test_node_with_a_protected_pod_is_avoided() -> None:
    budget = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    protected = bound("protected", requests=ALL, priority=1)
    protected["metadata"]["labels"] = {"app": "db"}
    other = bound("other", to="hollow-node-1", requests=ALL, priority=2)
    nodes = [hollow_node(), hollow_node("hollow-node-1")]
    world = World(protected, other, unassigned(requests=ALL, priority=3), budgets=[budget], on=nodes)
    assert deleted_keys(world.drive()) == ["default/other"]
