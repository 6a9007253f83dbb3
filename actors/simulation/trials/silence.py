"""Hollow nodes that a user silences permanently, by an annotation that no fault changes.

The kubelet of a silent node neither renews the node's Lease nor updates its pods.
"""

from __future__ import annotations

from kcm.actors.hollow.behaviour import FLAP
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.objects import Object, annotations_of
from kcm.protocols.resources import NODES

# Value of the annotation: period in seconds, in which the node is silent and then not. It is longer than any run.
FOR_EVER = "1000000000"


def silence_patch(silent: bool) -> Object:
    """Return the merge patch that silences a node, or ends its silence."""
    return {"metadata": {"annotations": {FLAP: FOR_EVER if silent else None}}}


def is_silent(node: Object) -> bool:
    """Report whether a user action has silenced the node."""
    return annotations_of(node).get(FLAP) is not None


def no_node_is_silent(cluster: SimulatedCluster) -> bool:
    """Report whether no node of the cluster is silenced by a user action."""
    return not any(map(is_silent, cluster.shown(NODES)))
