"""Claims on the embedded cluster, through kubectl: bound with no further setup, used, and held while they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.protocols.objects import annotations_of
from kcm.protocols.volumes import PRE_RESIZE_CAPACITY
from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import managing, until
from tests.e2e.stateful_sets import stateful_set, until_ready
from tests.e2e.volumes import CLAIMS, claim, phases, pod_with, volumes

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    """Access with kubectl to an embedded cluster with all controllers."""
    directory = tmp_path / "cluster"
    with managing(tmp_path / "kcm.log", f"--embedded-dir={directory}"):
        yield in_namespace(directory / "kubeconfig", "volumes")


def test_a_claim_gets_a_volume_and_is_held_while_a_pod_uses_it(kubectl: Kubectl) -> None:
    kubectl.apply(claim("data"), pod_with("user", "data"))
    kubectl.until_pods(1, "app=user")
    assert phases(kubectl) == {"data": "Bound"}
    kubectl("delete", "pvc", "data", "--wait=false")
    until(lambda: phases(kubectl) == {"data": "Terminating"}, "it is held", why=kubectl.state)
    assert kubectl.ready_pods("app=user")
    kubectl("delete", "pod", "user")
    until(lambda: phases(kubectl) == {}, "it is let go", why=kubectl.state)
    until(lambda: not volumes(kubectl), "its volume is deleted", why=kubectl.state)


def test_a_claim_that_waits_is_bound_where_its_pod_runs(kubectl: Kubectl) -> None:
    kubectl.apply(claim("late", class_="hollow-wait"))
    waiting = "waiting for first consumer to be created before binding"
    until(lambda: waiting in kubectl("get", "events"), "it waits", why=kubectl.state)
    kubectl.apply(pod_with("user", "late"))
    (pod,) = kubectl.until_pods(1, "app=user")
    bound = kubectl.get("persistentvolumeclaims", "late")
    assert bound["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == pod["spec"]["nodeName"]
    (volume,) = volumes(kubectl)
    assert volume["metadata"]["name"] == bound["spec"]["volumeName"]
    assert volume["spec"]["nodeAffinity"]["required"]


def test_pod_condition_names_the_claims_that_it_waits_for(kubectl: Kubectl) -> None:
    kubectl.apply(pod_with("lost", "nowhere"), claim("unbound", class_="nowhere"), pod_with("early", "unbound"))
    for text in (
        'persistentvolumeclaim "nowhere" not found.',
        "pod has unbound immediate PersistentVolumeClaims.",
    ):
        expected = f"0/3 nodes are available: {text}"
        until(lambda event=expected: event in kubectl("get", "events"), expected, why=kubectl.state)  # type: ignore[misc]


def test_the_claims_of_a_stateful_set_are_bound(kubectl: Kubectl) -> None:
    kubectl.apply(stateful_set("web", 2, claims=("data",)))
    until_ready(kubectl, "web", 2)
    assert phases(kubectl) == {"data-web-0": "Bound", "data-web-1": "Bound"}


def resources(size: str) -> str:
    return json.dumps({"spec": {"resources": {"requests": {"storage": size}}}})


def capacities(kubectl: Kubectl) -> dict[str, str]:
    return {claim["metadata"]["name"]: claim["status"]["capacity"]["storage"] for claim in kubectl.items(CLAIMS)}


def test_claims_are_expanded_while_a_pod_uses_them(kubectl: Kubectl) -> None:
    limited = claim("limited")
    limited["metadata"]["annotations"] = {"hollow.kcm.dev/largest-size": "5Gi"}
    kubectl.apply(claim("data"), claim("raw", volumeMode="Block"), limited, pod_with("user", "data", "limited"))
    kubectl.until_pods(1, "app=user")
    kubectl("patch", "pvc", "data", "raw", "limited", "--patch", resources("10Gi"))
    expanded = {"data": "10Gi", "raw": "10Gi", "limited": "1Gi"}
    until(lambda: capacities(kubectl) == expanded, "they are expanded", why=kubectl.state)
    refused = "failed: rpc error: code = OutOfRange desc = 10Gi requested, at most 5Gi available"
    until(lambda: refused in kubectl("get", "events"), "one is refused", why=kubectl.state)
    kubectl("patch", "pvc", "limited", "--patch", resources("4Gi"))
    until(lambda: capacities(kubectl)["limited"] == "4Gi", "it recovers", why=kubectl.state)
    assert [each["status"].get("conditions") for each in kubectl.items(CLAIMS)] == [None, None, None]
    assert {volume["spec"]["capacity"]["storage"] for volume in volumes(kubectl)} == {"10Gi", "4Gi"}
    until(
        lambda: not any(PRE_RESIZE_CAPACITY in annotations_of(volume) for volume in volumes(kubectl)),
        "no annotation is left",
        why=kubectl.state,
    )


def test_expansion_without_a_pod_waits_for_one(kubectl: Kubectl) -> None:
    kubectl.apply(claim("data"))
    until(lambda: phases(kubectl) == {"data": "Bound"}, "it is bound", why=kubectl.state)
    kubectl("patch", "pvc", "data", "--patch", resources("2Gi"))

    def conditions() -> list[str]:
        return [each["type"] for each in kubectl.get(CLAIMS, "data")["status"].get("conditions") or ()]

    until(lambda: conditions() == ["Resizing", "FileSystemResizePending"], "it waits", why=kubectl.state)
    assert capacities(kubectl) == {"data": "1Gi"}
    kubectl.apply(pod_with("user", "data"))
    until(lambda: capacities(kubectl) == {"data": "2Gi"}, "it is expanded", why=kubectl.state)


def test_ephemeral_volume_lives_as_long_as_its_pod(kubectl: Kubectl) -> None:
    user = pod_with("user")
    template = {"metadata": {"labels": {"for": "scratch"}}, "spec": claim("any")["spec"]}
    user["spec"]["volumes"] = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
    kubectl.apply(user)
    (pod,) = kubectl.until_pods(1, "app=user")
    (made,) = kubectl.items(CLAIMS)
    assert (made["metadata"]["name"], made["metadata"]["labels"]) == ("user-scratch", {"for": "scratch"})
    assert made["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    kubectl("delete", "pod", "user")
    until(lambda: not kubectl.items(CLAIMS) and not volumes(kubectl), "both are deleted", why=kubectl.state)
    kubectl.apply(claim("next-scratch"), {**user, "metadata": {"name": "next", "labels": {"app": "next"}}})
    text = "PVC volumes/next-scratch was not created for pod volumes/next (pod is not owner)"
    until(lambda: text in kubectl("get", "events"), "the claim is not used", why=kubectl.state)
    kubectl("delete", "pvc", "next-scratch", "--wait=false")  # a claim with this name is created at once
    kubectl.until_pods(1, "app=next")
