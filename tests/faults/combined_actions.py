"""Actions as runs drew them before each controller had a trial, to replay the bugs that their seeds found.

`workload_actions` and `node_actions` draw the actions on all workloads, or on all nodes, from one random generator.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from kcm.actors.hollow.behaviour import RUN_SECONDS
from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.simulation.campaign.domain_settings import NODES_SETTING
from kcm.actors.simulation.campaign.setting import Setting
from kcm.actors.simulation.trials.actions import create, delete, merge, replace
from kcm.actors.simulation.trials.cloud.cloud_node_lifecycle import switch_machine, terminate_machine
from kcm.actors.simulation.trials.nodes.actions import (
    DURATIONS,
    Period,
    bare_pod,
    reregister,
    set_taint,
    silence_nodes,
)
from kcm.actors.simulation.trials.nodes.taint_eviction import PATIENT
from kcm.actors.simulation.trials.nodes.taints import MAINTENANCE, SOON, tolerations
from kcm.actors.simulation.trials.scenario import NAMESPACE, NOTHING, Action, Fleet, Scenario
from kcm.actors.simulation.trials.silence import silence_patch
from kcm.actors.simulation.trials.workloads.actions import (
    KINDS,
    NAMES,
    delete_one_pod,
    orphan,
    scale,
    set_image,
    workload,
)
from kcm.protocols.nodes import OUT_OF_SERVICE_TAINT
from kcm.protocols.objects import make_key
from kcm.protocols.resources import DEPLOYMENTS, NODES, REPLICASETS, Resource

SCENARIOS = 24  # number of scenarios at that time
FLEETS = (Fleet(nodes=8, zones=2), Fleet(nodes=9, zones=3))
CHANGES = ("image", "scale", "scale", "kill", "recreated", "orphan")
HISTORIES = (0, 1, None)
HAPPENINGS = (
    *("silent", "silent", "out of service", "off", "gone", "deleted"),
    *("recreated", "recreated", "cordoned", "maintained"),
)
REMOVALS = ("gone", "deleted", "recreated")


def workload_actions(
    kinds: Sequence[Resource] = KINDS, changes: Sequence[str] = CHANGES
) -> Callable[[Scenario], tuple[Action, ...]]:
    """Return a function that draws a workload of each kind and three to six changes of them."""

    def draw(scenario: Scenario) -> tuple[Action, ...]:
        return draw_workload_actions(scenario.number, scenario.seconds, kinds, changes, scenario.pod)

    return draw


def draw_workload_actions(
    number: int, seconds: float, kinds: Sequence[Resource], changes: Sequence[str], pod: Mapping[str, Any]
) -> tuple[Action, ...]:
    chance = random.Random(f"wishes {number}")
    kept = random.Random(f"revisions kept {number}").choice(HISTORIES)
    actions = [_first(chance, 1.0 + 0.5 * i, kind, pod, kept) for i, kind in enumerate(kinds)]
    times = sorted(round(chance.uniform(3.0, seconds), 2) for _ in range(chance.randint(3, 6)))
    for at in times:
        kind, what = chance.choice(kinds), chance.choice(changes)
        if (what == "image" and kind != DEPLOYMENTS) or (what == "orphan" and kind == DEPLOYMENTS):
            what = "scale"
        actions.append(change(chance, at, kind, what, **_history(kind, kept)))
    return tuple(actions)


def _first(chance: random.Random, at: float, kind: Resource, pod: Mapping[str, Any], kept: int | None) -> Action:
    more: dict[str, Any] = {}
    if kind == DEPLOYMENTS:
        surge = {"maxSurge": chance.randint(0, 2), "maxUnavailable": 1}
        strategy = chance.choice(({"type": "Recreate"}, {"type": "RollingUpdate", "rollingUpdate": surge}, None))
        more = {} if strategy is None else {"strategy": strategy}
    more |= _history(kind, kept)
    return create(at, kind, workload(kind, NAMES[kind], chance.randint(1, 5), "v1", pod=pod, **more))


def _history(kind: Resource, kept: int | None) -> dict[str, Any]:
    return {"revisionHistoryLimit": kept} if kind == DEPLOYMENTS and kept is not None else {}


def change(
    chance: random.Random, at: float, resource: Resource, what: str, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> Action:
    """Return the action for a change.

    what: "scale", "image", "kill", "recreated" or "orphan".
    pod, spec: fields of a recreated workload, see `workload`.
    """
    name = NAMES[resource]
    key = make_key(NAMESPACE, name)
    match what:
        case "image":
            return set_image(at, resource, key, f"v{chance.randint(1, 4)}")
        case "kill":
            return delete_one_pod(at, name, chance.randrange(6))
        case "recreated":
            other = workload(resource, name, chance.randint(1, 4), "v1", pod=pod, **spec)
            return replace(at, resource, key, other)
        case "orphan":
            return orphan(at, name)
        case "scale":
            return scale(at, resource, key, chance.randint(0, 6))
    raise ValueError(f"{what!r} is no change of a workload")


COMBINED_WORKLOADS = Setting(actions=workload_actions(), scenarios=SCENARIOS)


# Nodes.


def node_actions(scenario: Scenario) -> tuple[Action, ...]:
    """Draw two workloads and changes of them, pods without owners, and events on one to four nodes."""
    chance = random.Random(f"node wishes {scenario.number}")
    pod = {"tolerations": tolerations(chance.choice(SOON), maintenance=chance.choice(SOON))}
    kinds, changes = (DEPLOYMENTS, REPLICASETS), ("image", "scale", "kill")
    actions = list(draw_workload_actions(scenario.number, scenario.seconds, kinds, changes, pod))
    machines = make_fleet(nodes=scenario.fleet.nodes, zones=scenario.fleet.zones)
    zones: dict[str, list[str]] = {}
    for node in machines.values():
        zones.setdefault(node.zone, []).append(node.name)
    free = [name for names in zones.values() for name in names[1:]]
    chance.shuffle(free)
    outage = chance.random()
    if outage < 0.15:
        actions += _outage(chance, list(machines), scenario.seconds)
    elif outage < 0.5:
        zone = chance.choice(list(zones))
        permanent = chance.random() < 0.3
        actions += _outage(chance, zones[zone], scenario.seconds, permanent=permanent)
        free = [name for name in free if name not in zones[zone]]
    if outage >= 0.15:
        for name in free[: chance.randint(1, 4)]:
            what = chance.choice(HAPPENINGS)
            actions += _happening(chance, what, machines[name], scenario.seconds)
            if what in REMOVALS:
                free.remove(name)
    actions += _pods(chance, free, scenario.seconds)
    return tuple(sorted(actions, key=lambda action: action.at))


def _time(chance: random.Random, seconds: float) -> float:
    return round(chance.uniform(5.0, seconds), 2)


def _outage(
    chance: random.Random, names: Sequence[str], seconds: float, *, permanent: bool = False
) -> Iterable[Action]:
    at = _time(chance, seconds)
    end = at if permanent else at + chance.choice(DURATIONS)
    return silence_nodes(names, Period(at, end, ends=not permanent))


def _happening(chance: random.Random, what: str, machine: HollowNode, seconds: float) -> Iterator[Action]:
    name = machine.name
    at, ends = _time(chance, seconds), chance.random() < 0.5
    end = at + chance.choice(DURATIONS)
    match what:
        case "silent":
            yield merge(at, NODES, name, silence_patch(True))
            if ends:
                yield merge(end, NODES, name, silence_patch(False))
        case "out of service":
            yield merge(at, NODES, name, silence_patch(True))
            yield set_taint(end, name, OUT_OF_SERVICE_TAINT, there=True)
        case "off":
            yield Action(at, f"{name} is switched off", lambda cluster: switch_machine(cluster, name, on=False))
            if ends:
                yield Action(end, f"{name} is switched on", lambda cluster: switch_machine(cluster, name, on=True))
        case "gone":
            yield Action(at, f"the machine of {name} is gone", lambda cluster: terminate_machine(cluster, name))
        case "deleted":
            yield delete(at, NODES, name)
        case "recreated":
            yield from reregister(machine, Period(at, end, ends=True))
        case "cordoned":
            yield merge(at, NODES, name, {"spec": {"unschedulable": True}})
            if ends:
                yield merge(end, NODES, name, {"spec": {"unschedulable": None}})
        case _:
            for number, tolerated in enumerate((None, chance.choice(SOON), 60)):
                tolerated_here = tolerations(15, maintenance=tolerated)
                yield bare_pod(at - 2.0, f"guest-{name}-{number}", node=name, tolerations=tolerated_here)
            yield set_taint(at, name, MAINTENANCE, there=True)
            if ends:
                yield set_taint(end, name, MAINTENANCE, there=False)


def _pods(chance: random.Random, nodes: Sequence[str], seconds: float) -> Iterator[Action]:
    if chance.random() < 0.5:
        yield bare_pod(_time(chance, seconds), "lost", node="nowhere")
    for number in range(chance.choice((0, 2, 5))):
        yield bare_pod(_time(chance, seconds), f"short-{number}", annotations={RUN_SECONDS: "1"})
    for number, node in enumerate(chance.sample(nodes, min(2, len(nodes)))):
        yield bare_pod(4.0, f"{PATIENT}-{number}", node=node, tolerations=({"operator": "Exists"},))


COMBINED_NODES = structs.replace(
    NODES_SETTING, actions=node_actions, scenarios=SCENARIOS, fleet=lambda number: FLEETS[number % 2]
)
