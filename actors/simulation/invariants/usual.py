"""The invariants that every simulated run is held to, whatever it simulates."""

from __future__ import annotations

from actors.simulation import SimulatedCluster
from actors.simulation.invariants.availability import NeverFewerThanAllowed
from actors.simulation.invariants.calls import CallsInProportion, NoLookWithoutReason, NothingWrittenTwice
from actors.simulation.invariants.deletions import DeletesWhatItSaw
from actors.simulation.invariants.deployments import NeverLargerThanAllowed, SizesWithinBounds
from actors.simulation.invariants.objects import OnlyEmptyReplicaSetsGo, SingleOwner, StatusGoesForward
from actors.simulation.invariants.observing import Invariant
from actors.simulation.invariants.presence import NeverMorePodsThanWanted
from actors.simulation.invariants.replicas import NoPodTooMany
from actors.simulation.invariants.writes import NoHotLoop, NoWriteByTheDeposed, NoWriteByTheReplaced


def usual_invariants(cluster: SimulatedCluster) -> tuple[Invariant, ...]:
    """New ones for a run of this cluster."""
    return (
        NoPodTooMany(cluster),
        NeverMorePodsThanWanted(cluster),
        SizesWithinBounds(cluster),
        NeverLargerThanAllowed(cluster),
        NeverFewerThanAllowed(cluster),
        DeletesWhatItSaw(),
        NoWriteByTheReplaced(),
        NoWriteByTheDeposed(cluster),
        NoHotLoop(cluster),
        NothingWrittenTwice(),
        NoLookWithoutReason(),
        CallsInProportion(cluster),
        SingleOwner(),
        StatusGoesForward(),
        OnlyEmptyReplicaSetsGo(cluster),
    )
