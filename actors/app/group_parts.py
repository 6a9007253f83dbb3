"""Specs of the actors that share the controllers of a program among replicas, by groups."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kcm.actors.app.elector_parts import Marks, elector_spec, recorder_spec
from kcm.actors.app.shared_parts import Assembly
from kcm.actors.engine.elector import Election
from kcm.actors.engine.elector.coordinator import GroupCoordinator
from kcm.actors.engine.elector.groups import COST, GROUP_LABEL, LEASE_LABEL, group_lease
from kcm.actors.engine.elector.lease import SharedHolders
from kcm.actors.engine.elector.replicas import ObservedReplicas
from kcm.actors.reconciliation.actor_names import GROUP_COORDINATOR, group_elector_name
from kcm.runtime.system.actor import ActorSpec, Context


def actors_of_groups(assembly: Assembly, election: Election, seeds: random.Random) -> Iterator[ActorSpec]:
    """Yield the elector of the main Lease, which all replicas hold together, and the actors of the groups."""
    groups = election.groups
    assert groups is not None
    observed, costs = ObservedReplicas(election), dict[str, float]()
    yield elector_spec(
        assembly,
        replace(election, identity=groups.identity),
        seed=seeds.getrandbits(32),
        shared=SharedHolders(observed.replica_selector, observed.may_hold),
    )
    for group in groups.groups:
        yield elector_spec(
            assembly,
            replace(election, name=group_lease(election.name, group.name)),
            seed=seeds.getrandbits(32),
            name=group_elector_name(group.name),
            marks=_marks(election, group.name, costs),
        )
        yield recorder_spec(assembly, group.name, seed=seeds.getrandbits(32))
    seed = seeds.getrandbits(32)

    def build(context: Context) -> GroupCoordinator:
        return GroupCoordinator(
            context,
            election=election,
            groups=groups,
            observed=observed,
            costs=costs,
            vitals=assembly.vitals,
            seed=seed,
        )

    yield ActorSpec(name=GROUP_COORDINATOR, build=build, never_blocks=True)


def _marks(election: Election, group: str, costs: Mapping[str, float]) -> Marks:
    labels = {LEASE_LABEL: election.name, GROUP_LABEL: group}

    def marks() -> Mapping[str, Mapping[str, str]]:
        cost = costs.get(group)
        return {"labels": labels} if cost is None else {"labels": labels, "annotations": {COST: f"{cost:.4f}"}}

    return marks
