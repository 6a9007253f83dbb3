"""Simulation trial of the hollow nodes: all nodes that are not silent renew their Leases."""

from __future__ import annotations

from collections.abc import Iterable

from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.silence import is_silent
from kcm.actors.simulation.trials.trial import Trial
from kcm.protocols.nodes import LEASE_NAMESPACE
from kcm.protocols.objects import make_key, name_of
from kcm.protocols.resources import LEASES, NODES
from kcm.protocols.times import parse_time

FRESH = 30.0  # seconds; three times the renewal interval


def _unsettled(cluster: SimulatedCluster) -> Iterable[str]:
    for node in cluster.shown(NODES):
        lease = cluster.get(LEASES, make_key(LEASE_NAMESPACE, name_of(node)))
        if is_silent(node):
            continue
        if lease is None or cluster.clock.now() - parse_time(lease["spec"]["renewTime"]) > FRESH:
            yield f"{name_of(node)}: its Lease is not renewed"


TRIAL = Trial(controller="hollow-nodes-controller", unsettled=_unsettled)
