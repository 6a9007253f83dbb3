"""What a run is about, drawn from a number: what users do and when, and which of them does something to which node."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from kcm.actors.hollow.nodes.fleet import HollowNode, make_fleet
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.late_methods import dataclass

NAMESPACE = "default"
RETRY = 1.0  # seconds until an action that could not be done is tried again
NOTHING: Mapping[str, Any] = MappingProxyType({})

LONGEST_NAME = 52  # characters of a name that is drawn: of a longer one, what is appended for a pod leaves nothing
REMOVED = 0.12  # chance that a user who does something with an object removes it

Do = Callable[[SimulatedCluster], bool]


class Action(NamedTuple):
    """What a user does. at: the virtual second from which on. do: returns False if it cannot be done yet.

    The actions of a run are done in the order of their times: one that cannot be done yet holds up all later ones, so
    that the order is the same whatever goes wrong.
    """

    at: float
    text: str
    do: Do


Act = Callable[[float], Iterable[Action]]  # what a user does at a time


@dataclass(frozen=True, slots=True)
class Fleet:
    """Hollow nodes, dealt to the zones in turn."""

    nodes: int = 3
    zones: int = 2


class NodePool:
    """The nodes of a scenario. Something is done to each node once at most, so that the actions alone say how it ends.

    A node in each of the first two zones is never taken by itself, only together with its zone.
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
        """The name of a node that is free, and no longer is. None if there is none.

        removed: the node is going to be deleted, so that its pods do not survive.
        """
        for name in self._free:
            if not removed or name in self._staying:
                self._free.remove(name)
                if removed:
                    self._staying.discard(name)
                return name
        return None

    def take_zone(self, zone: str) -> list[str]:
        """All of its nodes."""
        names = self.zones[zone]
        self._free = [name for name in self._free if name not in names]
        return names

    def take_all(self) -> list[str]:
        self._free = []
        return list(self.machines)

    def keep(self, chance: random.Random, most: int) -> list[str]:
        """So many nodes at most that are not going to be deleted, nor are from now on; else anything may happen to
        them.
        """
        chosen = chance.sample(sorted(self._staying), min(most, len(self._staying)))
        self._free = [name for name in self._free if name not in chosen]
        return chosen


class Scenario:
    """What the actions of a run are drawn from.

    number: equal numbers have equal actions. seconds: within which users act. disturbed: … something goes wrong. pod:
    more fields for the spec of every pod of a workload. steady: pods go when they are deleted, as no node is silent for
    good. draw: makes the generator for a purpose, where the number is not to determine what it draws.
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
        """A generator of its own for each purpose: what one trial draws changes nothing of what another one draws."""
        return random.Random(f"{what} {self.number}") if self._draw is None else self._draw(what)

    def times(self, chance: random.Random, count: int, *, first: float = 3.0) -> list[float]:
        """So many times at which users act, ascending."""
        return sorted(round(chance.uniform(first, self.seconds), 2) for _ in range(count))

    def names(self, chance: random.Random, base: str, most: int) -> list[str]:
        """One to `most` different names: the base, others that it is a prefix of, one that leaves no room for more."""
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
        """What users do with one object: it is made, and changed up to `most` times, in any order.

        Each of these is called with a time. remove: now and then it is removed, and made again or not.
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
    """The names that are drawn for what is called so."""
    return [base, f"{base}-1", f"{base}-10", f"{base}0", base.ljust(LONGEST_NAME, "x")]


def do_in_order(cluster: SimulatedCluster, actions: Iterable[Action]) -> list[Action]:
    """Have all actions done at their times. Returns a list that empties as they are."""
    waiting = sorted(actions, key=lambda action: action.at)

    def go_on() -> None:
        now = cluster.clock.monotonic()
        while waiting and waiting[0].at <= now and waiting[0].do(cluster):
            cluster.note("", f"ACTION {waiting.pop(0).text}")
        if waiting:
            cluster.clock.call_after(max(waiting[0].at - now, 0.0) or RETRY, go_on)

    go_on()
    return waiting
