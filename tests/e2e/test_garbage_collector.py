"""Dependents of a Deployment after `kubectl delete --cascade=…`, on our cluster and on a real kube-apiserver."""

from __future__ import annotations

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.manifests import deployment
from tests.e2e.programs import until
from tests.e2e.test_namespace import CRD, GROUP, config

LABELS = {"app": "web"}


def names(kubectl: Kubectl, *kinds: str) -> list[str]:
    return sorted(kubectl("get", ",".join(kinds), "--selector=app=web", "--output=name").split())


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_dependents_are_deleted_with_their_deployment(kubectl: Kubectl, cascade: str) -> None:
    kubectl.apply(deployment("web", 2))
    until(lambda: len(names(kubectl, "pods")) == 2, "two pods")
    assert kubectl("delete", "deployment", "web", f"--cascade={cascade}") == 'deployment.apps "web" deleted\n'
    until(lambda: names(kubectl, "pods", "replicasets") == [], "neither pods nor a ReplicaSet")


def test_orphans_stay_and_are_taken_over_by_another_deployment_of_its_name(kubectl: Kubectl) -> None:
    kubectl.apply(deployment("web", 2))
    until(lambda: len(names(kubectl, "pods")) == 2, "two pods")
    there = names(kubectl, "pods", "replicasets")
    kubectl("delete", "deployment", "web", "--cascade=orphan")
    owners = "--output=jsonpath={.items[*].metadata.ownerReferences}"
    assert kubectl("get", "replicasets", "--selector=app=web", owners) == ""
    assert names(kubectl, "pods", "replicasets") == there
    kubectl.apply(deployment("web", 2))
    until(lambda: '"uid"' in kubectl("get", "replicasets", "--selector=app=web", owners), "it is adopted")
    kubectl("delete", "deployment", "web")
    until(lambda: names(kubectl, "pods", "replicasets") == [], "neither pods nor a ReplicaSet")


def test_a_definition_takes_its_objects_and_what_they_own_along(kubectl: Kubectl) -> None:
    kubectl.apply(CRD)
    until(lambda: "squads" in kubectl("api-resources", f"--api-group={GROUP}"), "squads are served")
    kubectl.apply({"apiVersion": f"{GROUP}/v1", "kind": "Squad", "metadata": {"name": "a"}})
    uid = kubectl.get(f"{GROUP}/v1/squads", "a")["metadata"]["uid"]
    owned = config("owned")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": f"{GROUP}/v1", "kind": "Squad", "name": "a", "uid": uid}]
    kubectl.apply(owned)
    # The collector watches squads once it takes one away: discovery looks every 10 s.
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-4000-8000-000000000000"}
    meta = {"name": "b", "ownerReferences": [gone]}
    kubectl.apply({"apiVersion": f"{GROUP}/v1", "kind": "Squad", "metadata": meta})
    until(lambda: "/b" not in kubectl("get", "squads", "--output=name"), "the collector knows squads", within=40.0)
    assert "owned" in kubectl("get", "configmaps", "--output=name")
    kubectl("delete", "crd", CRD["metadata"]["name"])
    until(lambda: "owned" not in kubectl("get", "configmaps", "--output=name"), "what it owned is gone", within=30.0)
