"""Numbers of writes for a workload. Comments contain upstream's, from the audit log of a real kube-apiserver;
tests/e2e/test_writes_side_by_side.py counts both with the real binaries.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kcm.actors.controllers.workloads import deployment, replicaset
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.workloads.actions import workload
from kcm.protocols.resources import DEPLOYMENTS, PODS, REPLICASETS, Resource
from kcm.runtime.client.api import Request

VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def about(request: Request) -> str:
    """Return verb and resource as in an audit log, such as "update deployments/status"."""
    parts = request.path.split("/")
    of = parts[parts.index("default") + 1 :]
    subresource = f"/{of[2]}" if len(of) > 2 else ""
    return f"{VERBS[request.method]} {of[0]}{subresource}"


def writes(cluster: SimulatedCluster, resource: Resource, sizes: list[int]) -> Counter[str]:
    cluster.manager(controllers=[deployment.SPEC, replicaset.SPEC])
    cluster.run_for(5.0)
    begun = len(cluster.network.requests)
    for number, replicas in enumerate(sizes):
        cluster.create(resource, workload(resource, f"web-{number}", replicas, "v1"))
    cluster.run_for(30.0)
    assert len(cluster.list(PODS, "default")) == sum(sizes)
    return Counter(about(each) for _, _, each in cluster.network.requests[begun:] if each.method in VERBS)


def test_deployments_of_ten_take_fewer_writes_than_upstreams(make_cluster: Callable[..., Any]) -> None:
    found = writes(make_cluster(seed=1), DEPLOYMENTS, [10] * 10)
    assert found == {
        "create replicasets": 10,
        "create pods": 100,
        "create events": 110,
        "update replicasets/status": 10,  # upstream: 20
        "update deployments/status": 20,  # upstream: 30, and repetitions after conflicts
    }


def test_each_burst_of_a_large_set_takes_one_status_write(make_cluster: Callable[..., Any]) -> None:
    found = writes(make_cluster(seed=1), REPLICASETS, [600])
    assert found == {
        "create pods": 600,
        "create events": 10,  # upstream: these and up to 15 patches
        "update replicasets/status": 2,  # upstream: 3
    }


@pytest.mark.parametrize("sizes", [[1], [0]])
def test_small_set_takes_one_status_write(make_cluster: Callable[..., Any], sizes: list[int]) -> None:
    found = writes(make_cluster(seed=1), REPLICASETS, sizes)
    assert found["update replicasets/status"] == 1
