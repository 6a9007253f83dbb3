"""StatefulSets by kubectl, on our cluster and on a real kube-apiserver."""

from __future__ import annotations

from tests.e2e.kubectl import Kubectl, name_of
from tests.e2e.programs import until
from tests.e2e.stateful_sets import CLAIMS, replace_pod, set_image, stateful_set, until_ready, until_updated

ON_SCALE = {"whenDeleted": "Retain", "whenScaled": "Delete"}


def pods(kubectl: Kubectl) -> dict[str, str]:
    """Images by name."""
    return {name_of(pod): pod["spec"]["containers"][0]["image"] for pod in kubectl.items("pods")}


def claims(kubectl: Kubectl) -> list[str]:
    """Return the claims that are not being deleted."""
    found = kubectl.items(CLAIMS)
    return sorted(name_of(claim) for claim in found if "deletionTimestamp" not in claim["metadata"])


def test_pods_keep_their_names_and_claims(kubectl: Kubectl) -> None:
    kubectl.apply(stateful_set("db", 3, claims=("data",), persistentVolumeClaimRetentionPolicy=ON_SCALE))
    assert "3 new pods have been updated" in kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    made = sorted(kubectl.items("pods"), key=lambda pod: pod["metadata"]["creationTimestamp"])
    assert {name_of(pod): pod["spec"]["hostname"] for pod in made} == {f"db-{i}": f"db-{i}" for i in range(3)}
    assert claims(kubectl) == ["data-db-0", "data-db-1", "data-db-2"]

    replace_pod(kubectl, "db-1")
    until_ready(kubectl, "db", 3)
    assert claims(kubectl) == ["data-db-0", "data-db-1", "data-db-2"]

    kubectl("scale", "statefulset", "db", "--replicas=1")
    until(lambda: list(pods(kubectl)) == ["db-0"], "one is left", why=kubectl.state)
    until(lambda: claims(kubectl) == ["data-db-0"], "the claims of the others go", why=kubectl.state)


def test_an_update_is_rolled_out_and_back(kubectl: Kubectl) -> None:
    kubectl.apply(stateful_set("db", 2))
    until_ready(kubectl, "db", 2)
    set_image(kubectl, "db", "web:2")
    assert "complete" in kubectl("rollout", "status", "statefulset/db", "--timeout=60s")
    until_updated(kubectl, "db", 2)
    assert set(pods(kubectl).values()) == {"web:2"}
    kubectl("rollout", "undo", "statefulset/db")
    until_updated(kubectl, "db", 2)
    assert set(pods(kubectl).values()) == {"web:1"}
    assert [line.split()[0] for line in kubectl("rollout", "history", "statefulset/db").splitlines()[2:] if line] == [
        "2",
        "3",
    ]
