"""Scenario of a run, drawn from a number: user actions with their times, and the nodes that they affect."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.late_methods import dataclass

NAMESPACE = "default"
RETRY = 1.0  # seconds until an action that could not be done is retried
NOTHING: Mapping[str, Any] = MappingProxyType({})

LONGEST_NAME = 52  # characters: names of pods truncate a longer name of their owner, so that it is no longer complete
REMOVED = 0.12  # probability that an action on an object deletes it

Do = Callable[[SimulatedCluster], bool]


class Action(NamedTuple):
    """User action. at: earliest time, virtual seconds. do: returns False if the action cannot be done yet.

    The actions of a run are done in the order of their times: an action that cannot be done yet delays all later
    actions, so that the order is the same with any faults.
    """

    at: float
    text: str
    do: Do


Act = Callable[[float], Iterable[Action]]  # returns the actions of a user at a time


@dataclass(frozen=True, slots=True)
class Fleet:
    """Number of hollow nodes and of zones. Nodes are assigned to the zones round robin."""

    nodes: int = 3
    zones: int = 2


class NodePool:
    """Nodes of a scenario. Each node is affected at most once, so that the actions alone determine the end state.

    One node in each of the first two zones is affected only together with its zone.
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

        removed: the node will be deleted, so its pods do not survive.
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
        """Return up to `most` nodes that no action deletes. They may be affected in other ways."""
        chosen = chance.sample(sorted(self._staying), min(most, len(self._staying)))
        self._free = [name for name in self._free if name not in chosen]
        return chosen


class Scenario:
    """Source of the actions of a run.

    number: equal numbers have equal actions.
    seconds: time within which users act.
    disturbed: time within which faults are active.
    pod: additional fields for the spec of every pod of a workload.
    steady: whether deleted pods always disappear, because no node is silent forever.
    draw: returns the random generator for a purpose, instead of one that is seeded by the number.
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
        """Return the random generator for a purpose. Draws of one trial do not change those of another."""
        return random.Random(f"{what} {self.number}") if self._draw is None else self._draw(what)

    def times(self, chance: random.Random, count: int, *, first: float = 3.0) -> list[float]:
        """Draw `count` times at which users act, in ascending order."""
        return sorted(round(chance.uniform(first, self.seconds), 2) for _ in range(count))

    def names(self, chance: random.Random, base: str, most: int) -> list[str]:
        """Draw one to `most` different names: the base, names that begin with it, and a name of maximal length."""
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

        make, changes, remove: called with a time. With `remove`, the object is sometimes deleted, and may be recreated.
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
    """Return the names that are drawn for a base name."""
    return [base, f"{base}-1", f"{base}-10", f"{base}0", base.ljust(LONGEST_NAME, "x")]


def do_in_order(cluster: SimulatedCluster, actions: Iterable[Action]) -> list[Action]:
    """Do all actions at their times. Returns the list of pending actions, which is updated during the run."""
    waiting = sorted(actions, key=lambda action: action.at)

    def do_due() -> None:
        now = cluster.clock.monotonic()
        while waiting and waiting[0].at <= now and waiting[0].do(cluster):
            cluster.note("", f"ACTION {waiting.pop(0).text}")
        if waiting:
            cluster.clock.call_after(max(waiting[0].at - now, 0.0) or RETRY, do_due)

    do_due()
    return waiting
