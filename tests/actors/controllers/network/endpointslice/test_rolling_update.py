"""Test of the number of EndpointSlice writes during a rolling update.

Each replaced pod causes four changes at most: the address of the new pod, its readiness, the termination of the old
pod, and its deletion. For 40 pods they took 182 writes, before each sync was delayed by 0.1 s after the last writes.
"""

from __future__ import annotations

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.network.endpointslice.metrics import CHANGES
from kcm.actors.simulation import SimulatedCluster, objects
from kcm.protocols.resources import DEPLOYMENTS, ENDPOINT_SLICES, SERVICES

PODS = 40


def ready(cluster: SimulatedCluster) -> int:
    slices = [slice_ for slice_ in cluster.list(ENDPOINT_SLICES, "default") if "-" in slice_["metadata"]["name"]]
    return sum(endpoint["conditions"]["ready"] for slice_ in slices for endpoint in slice_["endpoints"])


@pytest.mark.parametrize(("flags", "most"), [([], 2 * PODS), (["--endpointslice-updates-batch-period=1s"], PODS)])
def test_rolling_update_needs_the_expected_number_of_writes(
    cluster: SimulatedCluster, flags: list[str], most: int
) -> None:
    cluster.hollow_nodes(nodes=10, heartbeats=False)
    system = cluster.manager(options=read_options(flags))
    cluster.create(SERVICES, objects.service("web", selector={"app": "web"}))
    cluster.create(DEPLOYMENTS, objects.deployment("web", replicas=PODS, labels={"app": "web"}))
    assert cluster.run_until(lambda: ready(cluster) == PODS, within=60)

    def writes() -> float:
        return sum(system.metrics.counter(CHANGES, operation).value for operation in ("create", "update", "delete"))

    before = writes()
    template = objects.pod_template(labels={"app": "web"}, image="nginx:2")
    cluster.merge(DEPLOYMENTS, "default/web", {"spec": {"template": template}})
    cluster.run_for(60)
    status = (cluster.get(DEPLOYMENTS, "default/web") or {})["status"]
    assert (status["updatedReplicas"], status["replicas"], ready(cluster)) == (PODS, PODS, PODS)
    assert 0 < writes() - before < most
