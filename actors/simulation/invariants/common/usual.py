"""List of the invariants that every simulated run checks."""

from __future__ import annotations

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.common.bootstrap_roles import WithinItsRole
from kcm.actors.simulation.invariants.common.calls import CallsInProportion, LiveReadsHaveACause, NoUnchangedWrites
from kcm.actors.simulation.invariants.common.counts import NoPodTooMany
from kcm.actors.simulation.invariants.common.deletions import DeletesTheObservedObject, OnlyOwnDependents
from kcm.actors.simulation.invariants.common.events import NoEventStorm
from kcm.actors.simulation.invariants.common.objects import ObservedGenerationIncreases, SingleOwner
from kcm.actors.simulation.invariants.common.presence import NeverMorePodsThanWanted
from kcm.actors.simulation.invariants.common.writes import NoHotLoop, NoWriteByFencedActors, NoWriteWithoutLease
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.invariants.ownership import OwnershipIndex


def usual_invariants(cluster: SimulatedCluster, ownership: OwnershipIndex) -> tuple[Invariant, ...]:
    """Create the invariants that every run checks. ownership: declarations of the controllers that run."""
    return (
        NoPodTooMany(cluster, ownership),
        NeverMorePodsThanWanted(cluster, ownership),
        DeletesTheObservedObject(),
        OnlyOwnDependents(ownership),
        NoWriteByFencedActors(),
        NoWriteWithoutLease(cluster),
        NoHotLoop(cluster),
        NoEventStorm(cluster),
        WithinItsRole(),
        NoUnchangedWrites(),
        LiveReadsHaveACause(ownership),
        CallsInProportion(cluster, ownership),
        SingleOwner(),
        ObservedGenerationIncreases(),
    )
