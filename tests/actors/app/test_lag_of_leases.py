"""Lag of the watch of Leases, with which many heartbeats of nodes are read together."""

from __future__ import annotations

from kcm.actors.app.assembly import LEASE_LAG
from kcm.actors.controllers.nodes import node_lifecycle
from kcm.actors.simulation import SimulatedCluster


def test_only_the_watch_of_leases_may_lag(cluster: SimulatedCluster) -> None:
    cluster.manager(controllers=[node_lifecycle.SPEC])
    cluster.run_for(5.0)

    lags = {request.path: request.may_lag for _, _, request in cluster.transport.requests if request.query.get("watch")}

    assert lags.pop("/apis/coordination.k8s.io/v1/leases") == LEASE_LAG
    assert set(lags.values()) == {0.0}
