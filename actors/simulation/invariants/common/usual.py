"""Invariants checked in every simulated run."""

from __future__ import annotations

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.invariants.common.bootstrap_roles import WithinItsRole
from kcm.actors.simulation.invariants.common.calls import CallsInProportion, NoLookWithoutReason, NothingWrittenTwice
from kcm.actors.simulation.invariants.common.counts import NoPodTooMany
from kcm.actors.simulation.invariants.common.deletions import DeletesWhatItSaw, KeepsToItsOwn
from kcm.actors.simulation.invariants.common.events import NoEventStorm
from kcm.actors.simulation.invariants.common.objects import SingleOwner, StatusGoesForward
from kcm.actors.simulation.invariants.common.presence import NeverMorePodsThanWanted
from kcm.actors.simulation.invariants.common.writes import NoHotLoop, NoWriteByTheDeposed, NoWriteByTheReplaced
from kcm.actors.simulation.invariants.observer import Invariant
from kcm.actors.simulation.invariants.ownership import Ownership


def usual_invariants(cluster: SimulatedCluster, ownership: Ownership) -> tuple[Invariant, ...]:
    """Create the invariants of a run. ownership: owners and dependents of the controllers that run."""
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
