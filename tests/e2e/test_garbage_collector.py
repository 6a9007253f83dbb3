"""`kubectl delete --cascade=…`: what becomes of what a Deployment owns, on our cluster and a real kube-apiserver."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.running import until

LABELS = {"app": "web"}


def deployment(replicas: int) -> dict[str, Any]:
    pod = {"metadata": {"labels": LABELS}, "spec": {"containers": [{"name": "nginx", "image": "nginx"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": LABELS}, "template": pod}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}


def names(kubectl: Kubectl, *kinds: str) -> list[str]:
    return sorted(kubectl("get", ",".join(kinds), "--selector=app=web", "--output=name").split())


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_what_a_deployment_owns_goes_with_it(kubectl: Kubectl, cascade: str) -> None:
    kubectl.apply(deployment(replicas=2))
    until(lambda: len(names(kubectl, "pods")) == 2, "two pods")
    assert kubectl("delete", "deployment", "web", f"--cascade={cascade}") == 'deployment.apps "web" deleted\n'
    until(lambda: names(kubectl, "pods", "replicasets") == [], "neither pods nor a ReplicaSet")


def test_orphans_stay_and_are_taken_over_by_another_deployment_of_its_name(kubectl: Kubectl) -> None:
    kubectl.apply(deployment(replicas=2))
    until(lambda: len(names(kubectl, "pods")) == 2, "two pods")
    there = names(kubectl, "pods", "replicasets")
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    owners = "--output=jsonpath={.items[*].metadata.ownerReferences}"
    assert kubectl("get", "replicasets", "--selector=app=web", owners) == ""
    assert names(kubectl, "pods", "replicasets") == there
    kubectl.apply(deployment(replicas=2))
    until(lambda: '"uid"' in kubectl("get", "replicasets", "--selector=app=web", owners), "it is adopted")
    kubectl("delete", "deployment", "web")
    until(lambda: names(kubectl, "pods", "replicasets") == [], "neither pods nor a ReplicaSet")
