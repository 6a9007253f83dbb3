"""Behaviour of each implemented feature gate, enabled and disabled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcm.actors.app.arguments import read_options
from kcm.actors.controllers.certificates import pod_request_cleaner
from kcm.actors.controllers.certificates.pod_request_cleaner import POD_CERTIFICATE_REQUESTS
from kcm.actors.controllers.identity import trust_bundle_publisher
from kcm.actors.controllers.nodes import taint_eviction
from kcm.actors.controllers.workloads import deployment, replicaset, statefulset
from kcm.actors.options import Options
from kcm.actors.options.feature_gates import WORKING
from kcm.actors.simulation import SimulatedCluster
from kcm.actors.simulation.trials.certificates.pod_request_cleaner import request
from kcm.actors.simulation.trials.identity.trust_bundle_publisher import BUNDLES
from kcm.protocols.objects import uid_of
from kcm.protocols.resources import DEPLOYMENTS, NODES, PODS, REPLICASETS, STATEFULSETS
from kcm.runtime.client.config import ClientConfig, Pem, with_fixed_authority
from kcm.runtime.client.credentials import ANONYMOUS, FixedCredential
from tests.actors.controllers.nodes.objects import set_taints
from tests.support.objects import node, pod

ON_AND_OFF = pytest.mark.parametrize("on", [True, False])
COST = "controller.kubernetes.io/pod-deletion-cost"
# The test of each gate, by name; TaintBasedEvictions is also tested in tests/actors/controllers/nodes/node_lifecycle/.
SHOWN: dict[str, Callable[..., None]] = {}


def shows(gate: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    def note(test: Callable[..., None]) -> Callable[..., None]:
        SHOWN[gate] = test
        return test

    return note


def gated(gate: str, on: bool, *argv: str) -> Options:
    return read_options([f"--feature-gates={gate}={str(on).lower()}", *argv])


def workload(replicas: int) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


@shows("PodDeletionCost")
@ON_AND_OFF
def test_the_cost_of_a_deletion(cluster: SimulatedCluster, on: bool) -> None:
    cluster.hollow_nodes(nodes=1, zones=1)
    cluster.manager(controllers=[replicaset.SPEC], options=gated("PodDeletionCost", on))
    cluster.create(REPLICASETS, workload(5))
    cluster.run_for(60.0)
    by_age = sorted(cluster.list(PODS), key=lambda listed: str(listed["metadata"]["uid"]))
    dear = by_age[0]["metadata"]["name"]
    for name in [listed["metadata"]["name"] for listed in by_age]:
        cost = "100" if name == dear else "-100"
        cluster.merge(PODS, f"default/{name}", {"metadata": {"annotations": {COST: cost}}})
    cluster.run_for(5.0)
    cluster.merge(REPLICASETS, "default/web", {"spec": {"replicas": 1}})
    cluster.run_for(60.0)
    kept = [listed["metadata"]["name"] for listed in cluster.list(PODS)]
    assert (kept == [dear]) is on  # otherwise in an effectively random order, by uid


@shows("DeploymentReplicaSetTerminatingReplicas")
@ON_AND_OFF
def test_the_number_of_terminating_replicas(cluster: SimulatedCluster, on: bool) -> None:
    cluster.hollow_nodes(nodes=1, zones=1)
    options = gated("DeploymentReplicaSetTerminatingReplicas", on)
    cluster.manager(controllers=[replicaset.SPEC, deployment.SPEC], options=options)
    cluster.create(DEPLOYMENTS, workload(2))
    cluster.run_for(60.0)
    for resource in (DEPLOYMENTS, REPLICASETS):
        (found,) = cluster.list(resource)
        assert found["status"]["readyReplicas"] == 2
        assert ("terminatingReplicas" in found["status"]) is on


@shows("TaintTolerationComparisonOperators")
@ON_AND_OFF
def test_tolerations_that_compare(cluster: SimulatedCluster, on: bool) -> None:
    cluster.manager(controllers=[taint_eviction.SPEC], options=gated("TaintTolerationComparisonOperators", on))
    cluster.run_for(3.0)
    cluster.create(NODES, node())
    tolerant = pod("p1", node="n1")
    tolerant["spec"]["tolerations"] = [{"key": "risk", "operator": "Lt", "value": "10", "effect": "NoExecute"}]
    cluster.create(PODS, tolerant)
    set_taints(cluster, "n1", {"key": "risk", "value": "9", "effect": "NoExecute"})
    cluster.run_for(30.0)
    (found,) = cluster.list(PODS)
    assert ("deletionTimestamp" not in found["metadata"]) is on


@shows("WatchListClient")
@ON_AND_OFF
def test_lists_that_are_the_beginning_of_a_watch(cluster: SimulatedCluster, on: bool) -> None:
    cluster.manager(controllers=[replicaset.SPEC], options=gated("WatchListClient", on))
    cluster.run_for(5.0)
    first = next(request for _, _, request in cluster.transport.requests if request.path == "/api/v1/pods")
    assert ("sendInitialEvents" in first.query) is on
    assert ("watch" in first.query) is on


@shows("ClientsAllowCARotation")
def test_the_authority_of_the_server_may_be_fixed(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_text("first")
    followed = ClientConfig(
        server="https://x",
        origin="x",
        credentials=FixedCredential(ANONYMOUS),
        ca=Pem(origin="x", path=str(file)),
    )
    fixed = with_fixed_authority(followed)
    file.write_text("second")
    assert followed.ca is not None
    assert fixed.ca is not None
    assert (followed.ca.read(), fixed.ca.read()) == (b"second", b"first")
    assert with_fixed_authority(fixed) is fixed


@shows("ClusterTrustBundle")
@ON_AND_OFF
def test_the_authority_of_the_server_as_a_trust_bundle(cluster: SimulatedCluster, on: bool) -> None:
    cluster.manager(controllers=[trust_bundle_publisher.SPEC], options=gated("ClusterTrustBundle", on))
    cluster.run_for(30.0)
    assert (len(cluster.list(BUNDLES)) == 1) is on


@shows("PodCertificateRequest")
@ON_AND_OFF
def test_pod_certificate_requests_are_cleaned_up(cluster: SimulatedCluster, on: bool) -> None:
    cluster.manager(controllers=[pod_request_cleaner.SPEC], options=gated("PodCertificateRequest", on))
    cluster.create(POD_CERTIFICATE_REQUESTS, request("r"))
    cluster.run_for(1300.0)
    assert (cluster.list(POD_CERTIFICATE_REQUESTS) == []) is on


@shows("MaxUnavailableStatefulSet")
@ON_AND_OFF
def test_several_pods_of_a_stateful_set_are_replaced_at_once(
    cluster: SimulatedCluster, on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The server removes maxUnavailable, because its own gate is disabled.
    monkeypatch.setattr("kcm.runtime.apiserver.kinds.apps.stateful_set._AT_ONCE", "")
    cluster.manager(controllers=[statefulset.SPEC], options=gated("MaxUnavailableStatefulSet", on))
    several = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    web = workload(3)
    more = {"serviceName": "web", "podManagementPolicy": "Parallel", "updateStrategy": several}
    cluster.create(STATEFULSETS, {**web, "spec": {**web["spec"], **more}})
    cluster.run_for(5.0)
    ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    for number in range(3):
        status = {"status": {"phase": "Running", "conditions": ready}}
        cluster.merge(PODS, f"default/web-{number}", status, subresource="status")
    cluster.run_for(5.0)
    before = {uid_of(pod) for pod in cluster.list(PODS)}
    change = {"spec": {"template": {"metadata": {"annotations": {"changed": "yes"}}}}}
    cluster.merge(STATEFULSETS, "default/web", change)
    cluster.run_for(5.0)
    assert len(before - {uid_of(pod) for pod in cluster.list(PODS)}) == (2 if on else 1)


AUTOSCALER = "tests/actors/controllers/workloads/horizontal_pod_autoscaler/test_gates.py"


def test_every_implemented_gate_has_a_test() -> None:
    elsewhere = {
        "CloudControllerManagerWatchBasedRoutesReconciliation": "tests/actors/controllers/cloud/node_route/",
        "ComponentFlagz": "tests/actors/command/test_serving.py",
        "ComponentStatusz": "tests/actors/command/test_serving.py",
        "CoordinatedLeaderElection": "tests/actors/engine/elector/test_candidate.py",
        **dict.fromkeys(
            ("DRADeviceTaintRules", "DRADeviceTaints", "DRAResourcePoolStatus", "DRAWorkloadResourceClaims"),
            "tests/actors/controllers/devices/",
        ),
        **dict.fromkeys(("HPAConfigurableTolerance", "HPAScaleToZero", "PodLevelResources"), AUTOSCALER),
        "LoggingAlphaOptions": "tests/actors/options/test_validation.py",
        "MutableSchedulingDirectivesForSuspendedJobs": "tests/actors/controllers/workloads/job/test_ends.py",
        "PersistentVolumeClaimUnusedSinceTime": "tests/actors/controllers/storage/test_claim_protection.py",
        "TaintBasedEvictions": "tests/actors/controllers/nodes/node_lifecycle/",
        "WorkloadWithJob": "tests/actors/controllers/workloads/job/test_gang.py",
    }
    assert SHOWN.keys() | elsewhere.keys() == WORKING
