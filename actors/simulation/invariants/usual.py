"""The invariants that every simulated run is held to, whatever it simulates."""

from __future__ import annotations

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.bootstrap_roles import WithinItsRole
from kcm.actors.simulation.invariants.calls import CallsInProportion, NoLookWithoutReason, NothingWrittenTwice
from kcm.actors.simulation.invariants.counts import NoPodTooMany
from kcm.actors.simulation.invariants.deletions import DeletesWhatItSaw, KeepsToItsOwn
from kcm.actors.simulation.invariants.events import NoEventStorm
from kcm.actors.simulation.invariants.objects import SingleOwner, StatusGoesForward
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.invariants.ownership import Ownership
from kcm.actors.simulation.invariants.presence import NeverMorePodsThanWanted
from kcm.actors.simulation.invariants.writes import NoHotLoop, NoWriteByTheDeposed, NoWriteByTheReplaced


def usual_invariants(cluster: SimulatedCluster, ownership: Ownership) -> tuple[Invariant, ...]:
    """New ones for a run of this cluster, in which controllers own this."""
    return (
        NoPodTooMany(cluster, ownership),
        NeverMorePodsThanWanted(cluster, ownership),
        DeletesWhatItSaw(),
        KeepsToItsOwn(ownership),
        NoWriteByTheReplaced(),
        NoWriteByTheDeposed(cluster),
        NoHotLoop(cluster),
        NoEventStorm(cluster),
        WithinItsRole(),
        NothingWrittenTwice(),
        NoLookWithoutReason(ownership),
        CallsInProportion(cluster, ownership),
        SingleOwner(),
        StatusGoesForward(),
    )
