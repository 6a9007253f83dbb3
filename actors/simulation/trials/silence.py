"""Hollow nodes that users silence permanently, by an annotation that no fault changes."""

from __future__ import annotations

from kcm.actors.hollow.behaviour import FLAP
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import NODES

FOR_EVER = "1000000000"  # seconds of flapping period: the node is silent in the current one, which outlasts every run


def silence_patch(silent: bool) -> Object:
    """Return the merge patch that silences a node, or lets it send heartbeats again."""
    return {"metadata": {"annotations": {FLAP: FOR_EVER if silent else None}}}


def is_silent(node: Object) -> bool:
    """Report whether a user has silenced the node."""
    return annotations_of(node).get(FLAP) is not None


def no_node_is_silent(cluster: SimulatedCluster) -> bool:
    """Report whether no node is silenced."""
    return not any(map(is_silent, cluster.shown(NODES)))
