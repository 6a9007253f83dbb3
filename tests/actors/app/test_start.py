"""Start of a system: its requests until the first write, and that it waits only for their responses."""

from __future__ import annotations

import pytest

from kcm.actors.controllers.workloads import deployment, replicaset, replicationcontroller
from kcm.actors.engine.elector import Election
from kcm.actors.simulation import SimulatedCluster
from kcm.protocols.resources import REPLICASETS
from tests.support.objects import replica_set

CONTROLLERS = [replicationcontroller.SPEC, deployment.SPEC, replicaset.SPEC]
LISTS = {
    "/api/v1/pods",
    "/api/v1/replicationcontrollers",
    "/apis/apps/v1/deployments",
    "/apis/apps/v1/replicasets",
}
ANSWERS = 0.05  # seconds for a few responses of the simulated server, which take milliseconds


@pytest.mark.parametrize("elects", [False, True], ids=["without a lease", "with a lease"])
def test_the_first_act_waits_for_answers_alone(cluster: SimulatedCluster, elects: bool) -> None:
    cluster.create(REPLICASETS, replica_set())
    began, before = cluster.clock.monotonic(), len(cluster.transport.requests)
    election = Election(identity="one", namespace="kube-system", name="manager") if elects else None
    system = cluster.manager(controllers=CONTROLLERS, election=election)
    cluster.run_for(ANSWERS)
    asked = cluster.transport.requests[before:]
    paths = [(request.method, request.path) for _, _, request in asked]
    act = paths.index(("POST", "/api/v1/namespaces/default/pods"))
    assert asked[act][0] - began < ANSWERS
    lists = [path for method, path in paths[:act] if method == "GET" and path in LISTS]
    assert sorted(lists) == sorted(LISTS), "each once"
    others = sorted(method for method, path in paths[:act] if path not in LISTS)
    assert others == (["GET", "POST", "POST"] if elects else []), "the lease, and the event that it was taken"
    assert system.synced
