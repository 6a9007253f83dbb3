"""Assignment of groups of controllers to replicas: the same pure functions in every replica.

Replicas that see the same Leases compute the same assignment. Safety does not depend on it, because each group has a
Lease: replicas that see different states compete for a Lease, and one of them gets it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct

WORTH_A_MOVE = 0.1  # part of the average load by which a move must lower the load of the busiest replica


class GroupState(Struct, frozen=True):
    """Group as its Lease shows it."""

    name: str
    cost: float  # seconds of work in a second; > 0
    holder: str = ""  # replica that holds it; "" if it is free


class Move(Struct, frozen=True):
    """Group that its holder gives up for another replica."""

    group: str
    source: str
    target: str


def assigned(groups: Iterable[GroupState], replicas: Collection[str]) -> dict[str, str]:
    """Return the replica of each group; a group without a possible replica is omitted.

    A group stays with its holder. Free groups go to the replicas with the least load, the most expensive group first.

    replicas: identities of the replicas that can take groups; a holder need not be among them.
    """
    groups = tuple(groups)
    result = {group.name: group.holder for group in groups if group.holder}
    loads = _loads(groups, replicas)
    for group in sorted((group for group in groups if not group.holder), key=lambda group: (-group.cost, group.name)):
        if loads:
            replica = _least_busy(loads, group.name)
            loads[replica] += group.cost
            result[group.name] = replica
    return result


def next_move(groups: Iterable[GroupState], replicas: Collection[str]) -> Move | None:
    """Return the move from the busiest to the least busy replica that lowers the highest load most.

    Return None while a group is free or its holder is not among the replicas, and if no move is worth its cost.

    replicas: identities of the replicas that can take groups.
    """
    groups = tuple(groups)
    if len(replicas) < 2 or any(group.holder not in replicas for group in groups):
        return None
    loads = _loads(groups, replicas)
    source, lowest = max(loads, key=lambda replica: (loads[replica], replica)), min(loads.values())

    def highest(group: GroupState) -> float:
        return max(loads[source] - group.cost, lowest + group.cost)

    movable = [group for group in groups if group.holder == source]
    best = min(movable, key=lambda group: (highest(group), group.cost, group.name), default=None)
    if best is None or loads[source] - highest(best) < WORTH_A_MOVE * sum(loads.values()) / len(loads):
        return None
    return Move(best.name, source, _least_busy(loads, best.name))


def _least_busy(loads: Mapping[str, float], group: str) -> str:
    return min(loads, key=lambda replica: (loads[replica], _rank(group, replica)))


def _loads(groups: Iterable[GroupState], replicas: Collection[str]) -> dict[str, float]:
    loads = dict.fromkeys(sorted(replicas), 0.0)
    for group in groups:
        if group.holder in loads:
            loads[group.holder] += group.cost
    return loads


def _rank(group: str, replica: str) -> bytes:
    """Return the rank of a replica for a group among replicas with equal loads (rendezvous hashing)."""
    return hashlib.sha256(f"{group}\0{replica}".encode()).digest()
