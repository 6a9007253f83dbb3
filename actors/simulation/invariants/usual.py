"""The invariants that every simulated run is held to, whatever it simulates."""

from __future__ import annotations

from actors.simulation import SimulatedCluster
from actors.simulation.invariants.bootstrap_roles import WithinItsRole
from actors.simulation.invariants.calls import CallsInProportion, NoLookWithoutReason, NothingWrittenTwice
from actors.simulation.invariants.counts import NoPodTooMany
from actors.simulation.invariants.deletions import DeletesWhatItSaw, KeepsToItsOwn
from actors.simulation.invariants.events import NoEventStorm
from actors.simulation.invariants.objects import SingleOwner, StatusGoesForward
from actors.simulation.invariants.observer import Invariant
from actors.simulation.invariants.ownership import Ownership
from actors.simulation.invariants.presence import NeverMorePodsThanWanted
from actors.simulation.invariants.writes import NoHotLoop, NoWriteByTheDeposed, NoWriteByTheReplaced


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
