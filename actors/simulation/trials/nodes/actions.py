"""What befalls the nodes of a simulated cluster, and what people wish of them, drawn from a seed.

Every node has one story at most, so that the wishes alone say how it ends; what faults do to it is over by then. Hollow
nodes fall silent here by an annotation of their own (flap), so that the end of a fault does not end a wish.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from actors.controllers.nodes.pod_garbage_collector import OUT_OF_SERVICE_TAINT
from actors.hollow.behaviour import FLAP, RUN_SECONDS
from actors.hollow.fleet import HollowNode, make_fleet
from actors.hollow.node_objects import new_node
from actors.simulation import SimulatedCluster
from actors.simulation.campaign.scenarios import NAMESPACE, Wish, draw_wishes
from actors.simulation.campaign.setting import Fleet
from protocols.nodes import NO_EXECUTE, NOT_READY, UNREACHABLE
from protocols.objects import Object, name_of
from protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS
from runtime.cloud.fake import FakeCloud

MAINTENANCE = "example.org/maintenance"  # a taint that people set
PATIENT = "patient"  # begins the names of pods that tolerate everything for ever
FOR_EVER = "1000000000"  # seconds of a turn: on the simulator's clock a silent one, until long after the run
WHILES = (10.0, 25.0, 40.0, 60.0)  # seconds that something lasts
SOON = (0, 5, 15, 30)  # seconds that a pod tolerates something
STORIES = ("silent", "silent", "out of service", "off", "gone", "deleted", "anew", "anew", "cordoned", "maintained")
REMOVALS = ("gone", "deleted", "anew")  # those that may cost pods, however patient
Act = Callable[[SimulatedCluster], bool]


def draw_node_wishes(seed: int, *, fleet: Fleet, seconds: float) -> tuple[Wish, ...]:
    """Two workloads and changes to them, pods of all sorts, and one to five stories of nodes, begun in so many seconds.

    A node in each of the first two zones stays well, but for what befalls its whole zone.
    """
    chance = random.Random(f"node wishes {seed}")
    pod = {"tolerations": _tolerations(chance.choice(SOON), maintenance=chance.choice(SOON))}
    kinds, changes = (DEPLOYMENTS, REPLICASETS), ("image", "scale", "kill")
    wishes = list(draw_wishes(seed, seconds=seconds, kinds=kinds, changes=changes, pod=pod))
    machines = make_fleet(nodes=fleet.nodes, zones=fleet.zones)
    zones = _names_by_zone(machines.values())
    free = [name for names in zones.values() for name in names[1:]]
    chance.shuffle(free)
    outage = chance.random()
    if outage < 0.15:
        wishes += _outage(chance, [name for names in zones.values() for name in names], "all nodes", seconds)
    elif outage < 0.5:
        zone = chance.choice(list(zones))
        for_good = chance.random() < 0.3
        wishes += _outage(chance, zones[zone], zone, seconds, for_good=for_good)
        free = [name for name in free if name not in zones[zone]]
    if outage >= 0.15:
        for name in free[: chance.randint(1, 4)]:
            story = chance.choice(STORIES)
            wishes += _story(chance, story, machines[name], seconds)
            if story in REMOVALS:
                free.remove(name)
    wishes += _pods(chance, free, seconds)
    return tuple(sorted(wishes, key=lambda wish: wish.at))


def _names_by_zone(nodes: Iterable[HollowNode]) -> dict[str, list[str]]:
    zones: dict[str, list[str]] = {}
    for node in nodes:
        zones.setdefault(node.zone, []).append(node.name)
    return zones


def _time(chance: random.Random, seconds: float) -> float:
    return round(chance.uniform(5.0, seconds), 2)


# What befalls nodes.


def _outage(
    chance: random.Random, names: Sequence[str], what: str, seconds: float, *, for_good: bool = False
) -> Iterable[Wish]:
    at = _time(chance, seconds)
    yield Wish(at, f"{what} fall silent", _each(names, lambda name: _silence(name, silent=True)))
    if not for_good:
        back = at + chance.choice(WHILES)
        yield Wish(back, f"{what} speak again", _each(names, lambda name: _silence(name, silent=False)))


def _story(chance: random.Random, story: str, hollow: HollowNode, seconds: float) -> Iterable[Wish]:
    name = hollow.name
    at, ends = _time(chance, seconds), chance.random() < 0.5
    end = at + chance.choice(WHILES)
    match story:
        case "silent":
            yield Wish(at, f"{name} falls silent", _silence(name, silent=True))
            if ends:
                yield Wish(end, f"{name} speaks again", _silence(name, silent=False))
        case "out of service":
            yield Wish(at, f"{name} falls silent", _silence(name, silent=True))
            yield Wish(end, f"{name} is out of service", _set_taint(name, OUT_OF_SERVICE_TAINT, there=True))
        case "off":
            yield Wish(at, f"{name} is switched off", _switch(name, on=False))
            if ends:
                yield Wish(end, f"{name} is switched on", _switch(name, on=True))
        case "gone":
            yield Wish(at, f"the machine of {name} is gone", _terminate(name))
        case "deleted":
            yield Wish(at, f"{name} is deleted", _delete(name))
        case "anew":
            yield Wish(at, f"{name} is deleted", _delete(name))
            yield Wish(end, f"{name} registers again", _register(hollow))
        case "cordoned":
            yield Wish(at, f"{name} is cordoned", _merge(name, {"spec": {"unschedulable": True}}))
            if ends:
                yield Wish(end, f"{name} is uncordoned", _merge(name, {"spec": {"unschedulable": None}}))
        case _:
            yield from _maintenance(chance, name, at, end if ends else None)


def _maintenance(chance: random.Random, name: str, at: float, end: float | None) -> Iterable[Wish]:
    """Pods there tolerate it not at all, for a while, or for ever."""
    for number, tolerated in enumerate((None, chance.choice(SOON), 60)):
        yield _pod(at - 2.0, f"guest-{name}-{number}", node=name, tolerations=_tolerations(15, maintenance=tolerated))
    yield Wish(at, f"{name} is tainted by hand", _set_taint(name, MAINTENANCE, there=True))
    if end is not None:
        yield Wish(end, f"{name} is no longer tainted by hand", _set_taint(name, MAINTENANCE, there=False))


def _pods(chance: random.Random, nodes: Sequence[str], seconds: float) -> Iterable[Wish]:
    """One that is bound to no node there is, some that end, and some that tolerate everything."""
    if chance.random() < 0.5:
        yield _pod(_time(chance, seconds), "lost", node="nowhere", tolerations=())
    for number in range(chance.choice((0, 2, 5))):
        annotations = {RUN_SECONDS: "1"}
        yield _pod(_time(chance, seconds), f"short-{number}", tolerations=(), annotations=annotations)
    for number, node in enumerate(chance.sample(nodes, min(2, len(nodes)))):
        yield _pod(4.0, f"{PATIENT}-{number}", node=node, tolerations=({"operator": "Exists"},))


def _tolerations(unreachable: int, *, maintenance: int | None) -> Sequence[Object]:
    """Of troubles of the node for so many seconds, and of its maintenance, None: not at all."""
    seconds = {NOT_READY: unreachable, UNREACHABLE: unreachable}
    if maintenance is not None:
        seconds[MAINTENANCE] = maintenance
    return [
        {"key": key, "operator": "Exists", "effect": NO_EXECUTE, "tolerationSeconds": many}
        for key, many in seconds.items()
    ]


def _pod(at: float, name: str, *, node: str = "", tolerations: Sequence[Object], **meta: Any) -> Wish:
    """node: the one that it is bound to from the first; "" leaves that to the scheduler."""
    spec: Object = {
        "containers": [{"name": "c", "image": "v1"}],
        "restartPolicy": "Never",
        "tolerations": list(tolerations),
    }
    if node:
        spec["nodeName"] = node
    pod = {"metadata": {"name": name, "namespace": NAMESPACE, **meta}, "spec": spec}

    def act(cluster: SimulatedCluster) -> bool:
        cluster.create(PODS, pod)
        return True

    return Wish(at, f"pod {name}", act)


# How it is done: answers whether the node was there.


def _each(names: Sequence[str], act: Callable[[str], Act]) -> Act:
    def together(cluster: SimulatedCluster) -> bool:
        return all(cluster.get(NODES, name) for name in names) and all(act(name)(cluster) for name in names)

    return together


def _merge(name: str, changes: Object) -> Act:
    def act(cluster: SimulatedCluster) -> bool:
        if cluster.get(NODES, name) is None:
            return False
        cluster.merge(NODES, name, changes)
        return True

    return act


def _silence(name: str, *, silent: bool) -> Act:
    return _merge(name, {"metadata": {"annotations": {FLAP: FOR_EVER if silent else None}}})


def _set_taint(name: str, key: str, *, there: bool) -> Act:
    def act(cluster: SimulatedCluster) -> bool:
        node = cluster.get(NODES, name)
        if node is None:
            return False
        taints = [taint for taint in node["spec"].get("taints") or () if taint["key"] != key]
        cluster.merge(NODES, name, {"spec": {"taints": [*taints, *([{"key": key, "effect": NO_EXECUTE}] * there)]}})
        return True

    return act


def _delete(name: str) -> Act:
    def act(cluster: SimulatedCluster) -> bool:
        if cluster.get(NODES, name) is None:
            return False
        cluster.delete(NODES, name)
        return True

    return act


def _register(hollow: HollowNode) -> Act:
    """As another node of the same name, for which its hollow kubelet goes on to speak."""

    def act(cluster: SimulatedCluster) -> bool:
        cluster.create(NODES, new_node(hollow, now=cluster.clock.now()))
        return True

    return act


def _switch(name: str, *, on: bool) -> Act:
    def act(cluster: SimulatedCluster) -> bool:
        machines = fake_cloud(cluster).instances
        (machines.start if on else machines.shut_down)(name)
        return _silence(name, silent=not on)(cluster)

    return act


def _terminate(name: str) -> Act:
    def act(cluster: SimulatedCluster) -> bool:
        if not _silence(name, silent=True)(cluster):
            return False
        fake_cloud(cluster).instances.terminate(name)
        return True

    return act


def fake_cloud(cluster: SimulatedCluster) -> FakeCloud:
    """The cloud of a run. Raises TypeError where it is another, or none."""
    provider = None if cluster.cloud is None else cluster.cloud.provider
    if not isinstance(provider, FakeCloud):
        raise TypeError(f"expected a fake cloud, got {provider!r}")
    return provider


def is_silent(node: Object) -> bool:
    """By wish."""
    return (node["metadata"].get("annotations") or {}).get(FLAP) is not None


def is_patient(pod: Object) -> bool:
    return name_of(pod).startswith(PATIENT)
