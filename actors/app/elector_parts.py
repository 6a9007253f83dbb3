"""Specs of the actors that hold Leases, and of the recorders that write events under them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kcm.actors.app.shared_parts import Assembly
from kcm.actors.engine.elector import Election, Elector
from kcm.actors.engine.elector.lease import SharedHolders, no_marks
from kcm.actors.engine.event_recorder import EventRecorder
from kcm.actors.reconciliation.actor_names import (
    DISPATCHER,
    ELECTOR,
    GROUP_COORDINATOR,
    MANAGER,
    elector_name,
    group_elector_name,
    recorder_name,
)
from kcm.runtime.metrics.families import LEADER_ELECTION_MASTER_STATUS, LEADER_ELECTION_SLOWPATH
from kcm.runtime.system.actor import ActorSpec, Context

Marks = Callable[[], Mapping[str, Mapping[str, str]]]


def elector_spec(
    assembly: Assembly,
    election: Election,
    *,
    seed: int,
    name: str = ELECTOR,
    cluster: str = "",
    marks: Marks = no_marks,
    shared: SharedHolders | None = None,
) -> ActorSpec:
    """Return the spec of an elector.

    cluster: where its Lease is, if there are several.
    marks, shared: see ObservedLease. With groups of controllers, every elector waits for the coordinator.
    """
    label = f"{cluster}:{election.name}" if cluster else election.name
    status = assembly.metrics.gauge(LEADER_ELECTION_MASTER_STATUS, label)
    slow = assembly.metrics.counter(LEADER_ELECTION_SLOWPATH, label)
    audience = (DISPATCHER, MANAGER) if shared is None else (DISPATCHER, MANAGER, GROUP_COORDINATOR)

    def build(context: Context) -> Elector:
        return Elector(
            context,
            election=election,
            audience=audience,
            vitals=assembly.vitals,
            status=status,
            slow=slow,
            seed=seed,
            cluster=cluster,
            waits=assembly.groups is not None,
            marks=marks,
            shared=shared,
        )

    return ActorSpec(name=elector_name(cluster) if cluster else name, build=build)


def recorder_spec(assembly: Assembly, scope: str, *, seed: int) -> ActorSpec:
    """Return the spec of a recorder. scope: see recorder_name."""

    def build(context: Context) -> EventRecorder:
        return EventRecorder(context, vitals=assembly.vitals, metrics=assembly.metrics, seed=seed)

    return ActorSpec(name=recorder_name(scope), build=build, never_blocks=True)


def electors_of_groups(assembly: Assembly) -> dict[str, str]:
    """Return the electors of the groups of controllers, by the name of the recorder under the same Lease."""
    groups = assembly.groups.groups if assembly.groups is not None else ()
    return {recorder_name(group.name): group_elector_name(group.name) for group in groups}
