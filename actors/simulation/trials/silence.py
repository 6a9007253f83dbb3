"""Hollow nodes that users silence permanently, by an annotation that no fault changes."""

from __future__ import annotations

from kcm.actors.hollow.behaviour import FLAP
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import NODES

FOR_EVER = "1000000000"  # seconds of a turn: on the simulator's clock a silent one, until long after the run


def silenced(silent: bool) -> Object:
    """The merge patch of a node."""
    return {"metadata": {"annotations": {FLAP: FOR_EVER if silent else None}}}


def is_silent(node: Object) -> bool:
    """A user has silenced it."""
    return annotations_of(node).get(FLAP) is not None


def nodes_are_well(cluster: SimulatedCluster) -> bool:
    """No node is silenced."""
    return not any(map(is_silent, cluster.shown(NODES)))
