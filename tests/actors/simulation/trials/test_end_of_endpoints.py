"""What endpoints are held to at the end of a run, and what they are compared by."""

from __future__ import annotations

import pytest

from actors.controllers.network.endpointslice.reconciler import MANAGER
from actors.simulation import SimulatedCluster
from actors.simulation.trials.network.endpointslice import TRIAL
from protocols.objects import owner_reference
from protocols.resources import ENDPOINT_SLICES, NODES, PODS, SERVICES
from tests.support.objects import node, owned_by, running_pod, service


@pytest.mark.parametrize("leaving", [0, 2])
@pytest.mark.parametrize("strays", [0, 1])
def test_endpoints_of_pods_on_their_way_out_do_not_count(leaving: int, strays: int) -> None:
    """A false alarm: how many pods are stuck on a node that stays silent depends on where they were bound.

    Another one: a pod without an owner was adopted by a set before it was deleted, and by none after.
    """
    cluster = SimulatedCluster()
    cluster.create(SERVICES, service("front", selector={"app": "web"}))
    endpoints = []
    for number in range(3 + leaving + strays):
        name, is_stray = f"p{number}", number >= 3 + leaving
        cluster.create(PODS, running_pod(name, owner=None if is_stray else owned_by("1")))
        stays = number < 3 or is_stray
        endpoints.append(
            {
                "addresses": [f"10.0.0.{number}"],
                "conditions": {"ready": stays, "terminating": not stays},
                "targetRef": {"kind": "Pod", "name": name},
            }
        )
    labels = {
        "kubernetes.io/service-name": "front",
        "endpointslice.kubernetes.io/managed-by": MANAGER,
    }
    meta = {"name": "front-1", "labels": labels}
    cluster.create(ENDPOINT_SLICES, {"metadata": meta, "addressType": "IPv4", "endpoints": endpoints})
    assert TRIAL.end_state(cluster) == {"endpoints of front": 3}


@pytest.mark.parametrize(
    ("published", "zone", "hint", "settled"),
    [
        (True, "z", "z", True),
        (True, None, None, True),
        (False, None, None, False),
        (True, "other", "other", False),
        (True, "z", None, False),
    ],
)
def test_an_endpoint_that_is_published_from_a_node_that_came_later_has_no_zone(
    published: bool, zone: str | None, hint: str | None, *, settled: bool
) -> None:
    """A false alarm, as upstream does not look again either: it had no hint, and its node is in a zone now."""
    cluster = SimulatedCluster()
    cluster.manager(controllers=())
    cluster.create(NODES, node("n1", labels={"topology.kubernetes.io/zone": "z"}))
    wanted = {"publishNotReadyAddresses": published, "trafficDistribution": "PreferClose"}
    front = cluster.create(SERVICES, service("front", selector={"app": "web"}, spec=wanted))
    cluster.create(PODS, running_pod("p1", labels={"app": "web"}, node="n1"))
    status = {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.merge(PODS, "default/p1", {"status": status}, subresource="status")
    endpoint = {
        "addresses": ["10.0.0.1"],
        "conditions": {"ready": True, "serving": True, "terminating": False},
        "targetRef": {"kind": "Pod", "name": "p1"},
        "nodeName": "n1",
        **({"zone": zone} if zone else {}),
        **({"hints": {"forZones": [{"name": hint}]}} if hint else {}),
    }
    labels = {"kubernetes.io/service-name": "front", "endpointslice.kubernetes.io/managed-by": MANAGER}
    owners = [owner_reference(front, api_version="v1", kind="Service")]
    slice_ = {
        "metadata": {"name": "front-1", "labels": labels, "ownerReferences": owners},
        "addressType": "IPv4",
        "endpoints": [endpoint],
        "ports": [{"name": "", "protocol": "TCP", "port": 80}],
    }
    cluster.create(ENDPOINT_SLICES, slice_)
    assert (list(TRIAL.unsettled(cluster)) == []) is settled, list(TRIAL.unsettled(cluster))
