"""Scenario of a run: the source of its user actions, which a number determines, and the nodes that they affect."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from msgspec import Struct

from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.simulation import SimulatedCluster

NAMESPACE = "default"
RETRY = 1.0  # seconds until an action that could not be carried out is retried
NOTHING: Mapping[str, Any] = MappingProxyType({})

LONGEST_NAME = 52  # characters; a pod's name contains only a part of a longer name of its owner
REMOVED = 0.12  # probability that an action on an object deletes it

Do = Callable[[SimulatedCluster], bool]


class Action(NamedTuple):
    """User action on a simulated cluster.

    at: earliest time, in virtual seconds.
    text: description for reports.
    do: carries out the action; returns False if it cannot be carried out yet.

    The actions of a run are carried out in the order of their times. An action that cannot be carried out yet delays
    all later actions, so that the order does not depend on faults.
    """

    at: float
    text: str
    do: Do


Act = Callable[[float], Iterable[Action]]  # takes a time, and returns the actions of a user at that time


class Fleet(Struct, frozen=True):
    """Number of hollow nodes and of their zones. Nodes are assigned to zones round robin."""

    nodes: int = 3
    zones: int = 2


class NodePool:
    """Nodes of a scenario that user actions may reserve.

    A node can be reserved only once, so that actions of different trials do not affect the same node; otherwise the end
    state would depend on timing. One node in each of the first two zones can be reserved only with its whole zone.
    """

    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self.machines: Mapping[str, HollowNode] = make_fleet(nodes=fleet.nodes, zones=fleet.zones)
        self.zones: dict[str, list[str]] = {}
        for node in self.machines.values():
            self.zones.setdefault(node.zone, []).append(node.name)
        spared = [names[0] for names in list(self.zones.values())[:2]]
        self._free = [name for name in self.machines if name not in spared]
        chance.shuffle(self._free)
        self._staying = set(self.machines)

    def take(self, *, removed: bool = False) -> str | None:
        """Reserve a free node and return its name; None if no node is free.

        removed: whether the caller will delete the node.
        """
        for name in self._free:
            if not removed or name in self._staying:
                self._free.remove(name)
                if removed:
                    self._staying.discard(name)
                return name
        return None

    def take_zone(self, zone: str) -> list[str]:
        """Reserve all nodes of a zone, and return their names."""
        names = self.zones[zone]
        self._free = [name for name in self._free if name not in names]
        return names

    def take_all(self) -> list[str]:
        self._free = []
        return list(self.machines)

    def keep(self, chance: random.Random, most: int) -> list[str]:
        """Reserve up to `most` nodes that no action deletes, and return their names.

        The nodes may already be reserved for other actions.
        """
        chosen = chance.sample(sorted(self._staying), min(most, len(self._staying)))
        self._free = [name for name in self._free if name not in chosen]
        return chosen


class Scenario:
    """Source of random values and times for the user actions of a run.

    number: number that determines all random values.
    seconds: virtual seconds within which users act.
    disturbed: virtual seconds within which faults are active.
    fleet: number of hollow nodes and of zones.
    pod: additional fields for the spec of every pod of a workload.
    steady: whether terminating pods always disappear, because no node is silent permanently.
    draw: returns the random generator for a purpose; None for generators that the number determines.
    """

    def __init__(
        self,
        number: int,
        *,
        seconds: float,
        disturbed: float = 0.0,
        fleet: Fleet | None = None,
        pod: Mapping[str, Any] = NOTHING,
        steady: bool = True,
        draw: Callable[[str], random.Random] | None = None,
    ) -> None:
        self.number, self.pod, self.steady = number, pod, steady
        self.seconds, self.disturbed = seconds, disturbed
        self._draw = draw
        self.fleet = fleet if fleet is not None else Fleet()
        self.nodes = NodePool(self.fleet, self.chance("nodes"))

    def chance(self, what: str) -> random.Random:
        """Return the random generator for a purpose. Each trial has its own, independent of the others."""
        return random.Random(f"{what} {self.number}") if self._draw is None else self._draw(what)

    def times(self, chance: random.Random, count: int, *, first: float = 3.0) -> list[float]:
        """Draw times for user actions, in virtual seconds and ascending order. count: number of times."""
        return sorted(round(chance.uniform(first, self.seconds), 2) for _ in range(count))

    def names(self, chance: random.Random, base: str, most: int) -> list[str]:
        """Draw one to `most` different names: the base itself, similar names, and a name of maximum length."""
        return chance.sample(forms_of(base), chance.randint(1, most))

    def life(
        self,
        chance: random.Random,
        *,
        make: Act,
        changes: Sequence[Act],
        remove: Act | None = None,
        at: float = 1.0,
        most: int = 4,
    ) -> Iterator[Action]:
        """Yield the actions on one object: it is created, and changed up to `most` times, in random order.

        make, changes, remove: functions that return actions at a given time. With `remove`, the object is sometimes
            deleted, and recreated by a later action.
        at: time of the creation.
        """
        there = True
        yield from make(at)
        for when in self.times(chance, chance.randint(1, most), first=at + 2.0):
            if not there:
                yield from make(when)
                there = True
            elif remove is not None and chance.random() < REMOVED:
                yield from remove(when)
                there = False
            else:
                yield from chance.choice(changes)(when)


def forms_of(base: str) -> list[str]:
    """Return the variants of a base name that Scenario.names may draw: alone, with a number, and padded with x."""
    return [base, f"{base}-1", f"{base}-10", f"{base}0", base.ljust(LONGEST_NAME, "x")]


def do_in_order(cluster: SimulatedCluster, actions: Iterable[Action]) -> list[Action]:
    """Carry out all actions at their times. Returns the list of pending actions, which shrinks during the run."""
    waiting = sorted(actions, key=lambda action: action.at)

    def do_due() -> None:
        now = cluster.clock.monotonic()
        while waiting and waiting[0].at <= now and waiting[0].do(cluster):
            cluster.note("", f"ACTION {waiting.pop(0).text}")
        if waiting:
            cluster.clock.call_after(max(waiting[0].at - now, 0.0) or RETRY, do_due)

    do_due()
    return waiting
