"""ResourceClaims of pods on hollow nodes. Source: kubernetes v1.36 pkg/kubelet/cm/dra/manager_test.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kcm.actors.hollow.kubelet.device_claims import LATENESS, KubeletClaims, claims_problem
from kcm.actors.hollow.kubelet.reconciler import HollowKubelet
from kcm.actors.hollow.scheduler.devices.claim_facts import PODS_BY_DEVICE_CLAIM
from kcm.actors.reconciliation.derived import PODS_BY_NODE
from kcm.actors.simulation.driver import Bench, drive
from kcm.protocols.objects import Object
from kcm.protocols.resources import NODES, PODS, RESOURCE_CLAIMS
from tests.actors.hollow.objects import FLEET, bound, nodes

ALLOCATION = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
POD_CONSUMER = {"resource": "pods", "name": "web", "uid": "uid-of-web"}
GROUP_CONSUMER = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "group", "uid": "g"}
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "uid-of-web", "controller": True}


def claim(*consumers: Mapping[str, Any], allocated: bool = True, **meta: Any) -> Object:
    status: Object = {"reservedFor": list(consumers)}
    if allocated:
        status["allocation"] = ALLOCATION
    return {"metadata": {"name": "gpu", "namespace": "default", "uid": "c", **meta}, "spec": {}, "status": status}


def plain(**spec: Any) -> Object:
    pod = bound(**spec)
    pod["metadata"]["uid"] = "uid-of-web"
    return pod


def user(*statuses: Object, **entry: str) -> Object:
    pod = plain(resourceClaims=[{"name": "devices", **entry}])
    pod["status"]["resourceClaimStatuses"] = list(statuses)
    return pod


NAMED = user(resourceClaimName="gpu")
GENERATED = user({"name": "devices", "resourceClaimName": "gpu"}, resourceClaimTemplateName="t")
GROUPED = user(resourceClaimName="gpu")
GROUPED["spec"]["schedulingGroup"] = {"podGroupName": "group"}
EXTENDED = plain()
EXTENDED["status"]["extendedResourceClaimStatus"] = {"resourceClaimName": "gpu"}
NOT_FOUND = 'fetch ResourceClaim gpu: resourceclaims.resource.k8s.io "gpu" not found'
NOT_ALLOWED = "pod web (uid-of-web) is not allowed to use ResourceClaim gpu (c)"


@pytest.mark.parametrize(
    ("pod", "found", "problem"),
    [
        (bound(), None, ""),
        (NAMED, claim(POD_CONSUMER), ""),
        (NAMED, None, NOT_FOUND),
        (NAMED, claim(), NOT_ALLOWED),
        (NAMED, claim({**POD_CONSUMER, "uid": "another"}), NOT_ALLOWED),
        (NAMED, claim(POD_CONSUMER, allocated=False), "ResourceClaim gpu: not allocated"),
        (GENERATED, claim(POD_CONSUMER, ownerReferences=[OWNER]), ""),
        (
            GENERATED,
            claim(POD_CONSUMER),
            "ResourceClaim default/gpu was not created for Pod default/web (Pod is not owner)",
        ),
        (user(resourceClaimTemplateName="t"), None, "ResourceClaim not created yet"),
        (user({"name": "devices"}, resourceClaimTemplateName="t"), None, ""),
        (GROUPED, claim(GROUP_CONSUMER), ""),
        (NAMED, claim(GROUP_CONSUMER), NOT_ALLOWED),
        (EXTENDED, claim(POD_CONSUMER), ""),
        (EXTENDED, None, NOT_FOUND),
    ],
)
def test_claims_of_a_pod_are_prepared_if_they_are_reserved_for_it(
    pod: Object, found: Object | None, problem: str
) -> None:
    assert claims_problem(pod, {"default/gpu": found}.get) == problem


def test_pod_starts_once_its_claim_is_reserved_for_it() -> None:
    bench = Bench(
        {PODS: [NAMED], NODES: nodes(), RESOURCE_CLAIMS: [claim()]}, indexes=(PODS_BY_NODE, PODS_BY_DEVICE_CLAIM)
    )
    kubelet = HollowKubelet(tables=bench.tables, clock=bench.clock, fleet=FLEET, claims=KubeletClaims(bench.tables))

    def reconcile() -> Any:
        return drive(kubelet, "default/web", bench.accept, tables=bench.tables)

    early = reconcile()
    assert (early.events, early.result.seconds) == ([], LATENESS)
    bench.clock.advance(LATENESS)
    message = f"Failed to prepare dynamic resources: prepare dynamic resources: {NOT_ALLOWED}"
    assert reconcile().events == [("Warning", "FailedPrepareDynamicResources", message)]
    assert reconcile().events == []
    assert bench.tables[PODS].get("default/web")["status"]["phase"] == "Pending"
    bench.show(RESOURCE_CLAIMS, claim(POD_CONSUMER))
    reconcile()
    assert bench.tables[PODS].get("default/web")["status"]["phase"] == "Running"
