"""Claims on the embedded cluster, through kubectl: bound with no further setup, used, and held while they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import managing, until
from tests.e2e.stateful_sets import stateful_set, until_ready
from tests.e2e.volumes import claim, phases, pod_with, volumes

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
