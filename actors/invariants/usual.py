"""The invariants that every simulated run is held to, whatever it simulates."""

from __future__ import annotations

from actors.invariants.availability import NeverFewerThanAllowed
from actors.invariants.calls import CallsInProportion, NoLookWithoutReason, NothingWrittenTwice
from actors.invariants.deletions import DeletesWhatItSaw
from actors.invariants.deployments import NeverLargerThanAllowed, SizesWithinBounds
from actors.invariants.objects import OnlyEmptyReplicaSetsGo, SingleOwner, StatusGoesForward
from actors.invariants.presence import NeverMorePodsThanWanted
from actors.invariants.replicas import NoPodTooMany
from actors.invariants.watching import Invariant
from actors.invariants.writes import NoHotLoop, NoWriteByTheDeposed, NoWriteByTheReplaced
from actors.simulation import SimulatedCluster


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
