"""What the endpoints at the end of a run are compared by."""

from __future__ import annotations

import pytest

from actors.controllers.network.endpointslice.reconciler import MANAGER
from actors.simulation import SimulatedCluster
from actors.simulation.trials.network.endpointslice import TRIAL
from protocols.resources import ENDPOINT_SLICES, SERVICES
from tests.support.objects import service


@pytest.mark.parametrize("leaving", [0, 2])
def test_endpoints_of_pods_on_their_way_out_do_not_count(leaving: int) -> None:
    """A false alarm: how many pods are stuck on a node that stays silent depends on where they were bound."""
    cluster = SimulatedCluster()
    cluster.create(SERVICES, service("front", selector={"app": "web"}))
    endpoints = [
        {"addresses": [f"10.0.0.{number}"], "conditions": {"ready": number < 3, "terminating": number >= 3}}
        for number in range(3 + leaving)
    ]
    labels = {
        "kubernetes.io/service-name": "front",
        "endpointslice.kubernetes.io/managed-by": MANAGER,
    }
    meta = {"name": "front-1", "labels": labels}
    cluster.create(ENDPOINT_SLICES, {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints})
    assert TRIAL.end_state(cluster) == {"endpoints of front": 3}
