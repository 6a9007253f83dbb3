"""`kubectl delete namespace`: what was in it goes, on our cluster and a real kube-apiserver."""

from __future__ import annotations

from typing import Any
from urllib.error import HTTPError

from kcm.actors.controllers.apimachinery.namespace.content import PAGE
from tests.e2e.kubectl import Kubectl
from tests.e2e.programs import until

Object = dict[str, Any]
LABELS = {"app": "web"}
GROUP = "teams.example.com"
CRD: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"squads.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "squads", "singular": "squad", "kind": "Squad", "listKind": "SquadList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}
CONTAINERS = [{"name": "nginx", "image": "nginx"}]
DEPLOYMENT: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}},
    },
}
SERVICE: Object = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "web"},
    "spec": {"selector": LABELS, "ports": [{"port": 80}]},
}


def config(name: str, *finalizers: str) -> Object:
    meta = {"name": name, "finalizers": list(finalizers)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"a": "b"}}


def conditions(kubectl: Kubectl) -> dict[str, tuple[str, str, str]]:
    namespace = kubectl.api.get(f"/api/v1/namespaces/{kubectl.namespace}")
    found = namespace["status"].get("conditions", ())
    return {condition["type"]: (condition["status"], condition["reason"], condition["message"]) for condition in found}


def is_gone(kubectl: Kubectl) -> bool:
    try:
        kubectl.api.get(f"/api/v1/namespaces/{kubectl.namespace}")
    except HTTPError as error:
        return error.code == 404
    return False


def test_namespace_is_deleted_with_its_content_and_names_what_remains(kubectl: Kubectl) -> None:
    kubectl.apply(CRD)
    until(lambda: "squads" in kubectl("api-resources", f"--api-group={GROUP}"), "squads are served")
    squad = {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Squad",
        "metadata": {"name": "a", "finalizers": ["example.com/hold"]},
    }
    for obj in (DEPLOYMENT, SERVICE, config("free"), config("held", "example.com/hold", "example.com/other"), squad):
        kubectl.apply(obj)
    until(lambda: len(kubectl.items("pods")) == 3, "three pods")

    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")
    held = (
        "True",
        "SomeResourcesRemain",
        f"Some resources are remaining: configmaps. has 1 resource instances, squads.{GROUP} has 1 resource instances",
    )
    until(lambda: conditions(kubectl).get("NamespaceContentRemaining") == held, "what is held remains")
    assert conditions(kubectl) == {
        "NamespaceDeletionDiscoveryFailure": (
            "False",
            "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        "NamespaceDeletionGroupVersionParsingFailure": (
            "False",
            "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        "NamespaceDeletionContentFailure": (
            "False",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        "NamespaceContentRemaining": held,
        "NamespaceFinalizersRemaining": (
            "True",
            "SomeFinalizersRemain",
            (
                "Some content in the namespace has finalizers remaining: "
                "example.com/hold in 2 resource instances, example.com/other in 1 resource instances"
            ),
        ),
    }
    assert kubectl.items("pods") == []
    for what in ("configmap/held", f"squads.{GROUP}/a"):
        kubectl("patch", what, "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    until(lambda: is_gone(kubectl), "the namespace is gone", within=20.0)
    kubectl("delete", "crd", CRD["metadata"]["name"])


def test_many_objects_go_and_one_that_is_held_keeps_the_namespace(kubectl: Kubectl) -> None:
    """Delete more than a page of two resources: pods that are never scheduled, and ConfigMaps."""
    for number in range(2 * PAGE + 5):
        body = config(f"c{number}", *(["example.com/hold"] if number == PAGE else []))
        kubectl.api.request("POST", kubectl.path("configmaps"), body)
        gated = {"containers": CONTAINERS, "schedulingGates": [{"name": "example.com/wait"}]}
        pod = {"metadata": {"name": f"p{number}"}, "spec": gated}
        kubectl.api.request("POST", kubectl.path("pods"), pod)
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")
    until(lambda: len(kubectl.items("configmaps")) == 1, "one is left", within=30.0)
    assert kubectl.items("pods") == []
    kubectl("patch", f"configmap/c{PAGE}", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    until(lambda: is_gone(kubectl), "the namespace is gone", within=20.0)
