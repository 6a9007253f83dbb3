"""The ReplicaSets of Deployments with the real kube-controller-manager and with ours, on one kube-apiserver: the same
names for the same templates, and none is created or changed when one manager takes over from the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.e2e.conftest import in_namespace
from tests.e2e.hashed_templates import TEMPLATES, hashed
from tests.e2e.kubectl import Kubectl, Object, name_of
from tests.e2e.programs import CONTROLLERS, managing, until
from tests.e2e.real_server import RealServer, real_manager
from tests.e2e.scenarios import until_reason, until_rolled_out

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(600)]

DEPLOYMENTS, REPLICA_SETS = "apps/v1/deployments", "apps/v1/replicasets"
HASH_LABEL = "pod-template-hash"
FLAGS = (
    f"--controllers={','.join(CONTROLLERS)}",
    "--kube-api-qps=1000",
    "--kube-api-burst=1000",
)


@contextmanager
def our_manager(real: RealServer, name: str) -> Iterator[None]:
    with managing(real.directory / f"{name}.log", f"--kubeconfig={real.kubeconfig}", "--leader-elect=false", *FLAGS):
        yield


def replica_sets(kubectl: Kubectl) -> dict[str, tuple[str, str, int]]:
    """Return uid, revision and size of each ReplicaSet by name."""
    return {
        name_of(replica_set): (
            replica_set["metadata"]["uid"],
            replica_set["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
            replica_set["spec"]["replicas"],
        )
        for replica_set in kubectl.items(REPLICA_SETS)
    }


def pods(kubectl: Kubectl) -> set[tuple[str, str]]:
    return {(name_of(pod), pod["metadata"]["uid"]) for pod in kubectl.items("pods")}


def set_image(kubectl: Kubectl, image: str, replicas: int = 2) -> None:
    kubectl("set", "image", "deployment/web", f"web={image}")
    until_rolled_out(kubectl, "web", replicas, image)


def until_observed(kubectl: Kubectl) -> None:
    """Wait until the manager at work has synced the Deployment: it writes the generation that an annotation changes."""
    kubectl("patch", "deployment", "web", "--type=merge", "--patch", '{"spec": {"minReadySeconds": 1}}')
    kubectl("patch", "deployment", "web", "--type=merge", "--patch", '{"spec": {"minReadySeconds": 0}}')
    until(lambda: is_observed(kubectl.get(DEPLOYMENTS, "web")), "the Deployment is observed", why=kubectl.state)


def is_observed(deployment: Object) -> bool:
    return bool(deployment.get("status", {}).get("observedGeneration") == deployment["metadata"]["generation"])


def names_given(kubectl: Kubectl) -> tuple[set[str], set[str], set[int]]:
    """Return the names of ReplicaSets for the corpus of templates, then those after a collision, and their counts."""
    kubectl.apply(*(hashed(name, "Deployment") for name in TEMPLATES))
    until(lambda: len(kubectl.items(REPLICA_SETS)) == len(TEMPLATES), "all are created", why=kubectl.state)
    first = {
        f"{name_of(replica_set)} {replica_set['metadata']['labels'][HASH_LABEL]}"
        for replica_set in kubectl.items(REPLICA_SETS)
    }
    names = sorted(map(name_of, kubectl.items(REPLICA_SETS)))
    kubectl("delete", "deployments,replicasets,pods", "--all", "--wait=false")
    kubectl.apply(*map(unowned_replica_set, names))
    kubectl.apply(*(hashed(name, "Deployment") for name in TEMPLATES))
    until(lambda: len(kubectl.items(REPLICA_SETS)) == 2 * len(TEMPLATES), "all are created again", why=kubectl.state)
    counts = {deployment["status"]["collisionCount"] for deployment in kubectl.items(DEPLOYMENTS)}
    second = set(map(name_of, kubectl.items(REPLICA_SETS)))
    kubectl("delete", "deployments,replicasets,pods", "--all", "--wait=false")
    return first, second, counts


def unowned_replica_set(name: str) -> Object:
    labels = {"app": "other"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name}, "spec": spec}


def test_replica_sets_of_one_template_have_the_same_name(real: RealServer) -> None:
    """Compare the names for templates with many kinds of fields, without and after a hash collision."""
    with real_manager(real, *FLAGS):
        theirs = names_given(in_namespace(real.kubeconfig, "deployment-names-real"))
    with our_manager(real, "names"):
        ours = names_given(in_namespace(real.kubeconfig, "deployment-names-ours"))
    assert ours == theirs
    assert ours[2] == {1}


def test_deployment_with_history_survives_handovers_between_managers(real: RealServer) -> None:
    """The real one, ours, the real one, ours: each rolls out, and finds the ReplicaSets of the others."""
    kubectl = in_namespace(real.kubeconfig, "deployment-handover")
    with real_manager(real, *FLAGS):
        kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
        until_rolled_out(kubectl, "web", 2, "web:1")
        set_image(kubectl, "web:2")
    before, running = replica_sets(kubectl), pods(kubectl)
    with our_manager(real, "handover"):
        until_observed(kubectl)
        assert (replica_sets(kubectl), pods(kubectl)) == (before, running)
        kubectl("rollout", "undo", "deployment/web")  # to a ReplicaSet that the real one created
        until_rolled_out(kubectl, "web", 2, "web:1")
        set_image(kubectl, "web:3")
        kubectl("rollout", "pause", "deployment/web")
        until_reason(kubectl, DEPLOYMENTS, "web", "Progressing", "DeploymentPaused")
        kubectl("set", "image", "deployment/web", "web=web:4")
    before, running = replica_sets(kubectl), pods(kubectl)
    assert len(before) == 3
    with real_manager(real, *FLAGS):
        until_observed(kubectl)
        assert (replica_sets(kubectl), pods(kubectl)) == (before, running)
        kubectl("set", "image", "deployment/web", "web=web:3")
        kubectl("rollout", "resume", "deployment/web")
        until_rolled_out(kubectl, "web", 2, "web:3")
        assert (replica_sets(kubectl), pods(kubectl)) == (before, running)
        set_image(kubectl, "web:2")
    assert {name: uid for name, (uid, _, _) in replica_sets(kubectl).items()} == {
        name: uid for name, (uid, _, _) in before.items()
    }


def test_replica_sets_that_are_named_otherwise_are_kept(real: RealServer) -> None:
    """Earlier releases of kcm hashed otherwise. Their ReplicaSets have the template, so both managers use them."""
    kubectl = in_namespace(real.kubeconfig, "deployment-renamed")
    with real_manager(real, *FLAGS):
        kubectl("create", "deployment", "web", "--image=web:1", "--replicas=2")
        until_rolled_out(kubectl, "web", 2, "web:1")
    (made,) = kubectl.items(REPLICA_SETS)
    hash, other = made["metadata"]["labels"][HASH_LABEL], "57fbd947fd"
    kubectl("delete", "replicasets,pods", "--all")
    renamed = renamed_replica_set(made, hash, other)
    kubectl.apply(renamed)
    uid = kubectl.get(REPLICA_SETS, f"web-{other}")["metadata"]["uid"]
    for who in ("ours", "real", "ours"):
        with real_manager(real, *FLAGS) if who == "real" else our_manager(real, "renamed"):
            until_observed(kubectl)
            until_rolled_out(kubectl, "web", 2, "web:1")
            (kept,) = kubectl.items(REPLICA_SETS)
            assert (name_of(kept), kept["metadata"]["uid"]) == (f"web-{other}", uid)


def renamed_replica_set(replica_set: Object, hash: str, other: str) -> Object:
    """Return the ReplicaSet as another release creates it, with another hash in its name and labels."""
    meta, spec = replica_set["metadata"], replica_set["spec"]
    labels = {**meta["labels"], HASH_LABEL: other}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": meta["name"].replace(hash, other),
            "labels": labels,
            "annotations": meta["annotations"],
            "ownerReferences": meta["ownerReferences"],
        },
        "spec": {
            **spec,
            "selector": {"matchLabels": labels},
            "template": {**spec["template"], "metadata": {"labels": labels}},
        },
    }
