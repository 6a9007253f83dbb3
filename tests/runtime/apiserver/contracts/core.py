"""Defaults, rejections, updates, deletion, server-side apply and lists of common kinds."""

from __future__ import annotations

from typing import Any

from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, in_new_namespaces
from tests.runtime.apiserver.contracts.requests import (
    APPLY,
    CONTROLLER,
    JSON_PATCH,
    MERGE,
    PODS_FULL,
    STRATEGIC,
    Send,
    Step,
    pod,
    replicaset,
)

OTHER = {"matchLabels": {"app": "other"}}


def _apply(path: str, body: dict[str, Any], **query: str) -> Step:
    kinds = {"configmaps": ("v1", "ConfigMap"), "replicasets": ("apps/v1", "ReplicaSet")}
    resource, name = path.split("/")[:2]
    api_version, kind = kinds[resource]
    meta = {"name": name, **body.get("metadata", {})}
    asked = {"fieldManager": query.pop("manager", "me"), **query}
    return Step("PATCH", path, {"kind": kind, "apiVersion": api_version, **body, "metadata": meta}, APPLY, asked)


def _containers(environments: dict[str, dict[str, str]]) -> dict[str, Any]:
    containers: list[dict[str, Any]] = []
    for name, env in environments.items():
        variables = [{"name": variable, "value": value} for variable, value in env.items()]
        containers.append({"name": name, "image": "nginx", **({"env": variables} if env else {})})
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    return {"spec": {"selector": {"matchLabels": labels}, "template": template}}


SCENARIOS: dict[str, list[Step]] = {
    "defaults": [
        Step("POST", "pods", pod("small")),
        Step("POST", "pods", PODS_FULL),
        Step("POST", "replicationcontrollers", CONTROLLER),
        Step("POST", "replicasets", replicaset()),
        Step("POST", "deployments", replicaset()),
        Step("POST", "secrets", {"metadata": {"name": "s"}, "stringData": {"a": "b"}}),
        Step("POST", "leases", {"metadata": {"name": "l"}}),
    ],
    "refused when created": [
        Step("POST", "pods", {"metadata": {"name": "Bad_Name"}, "spec": {}}),
        Step("POST", "pods", {"spec": {"containers": [{"ports": [{"containerPort": 70000}]}]}}),
        Step("POST", "pods", pod(restartPolicy="Sometimes", dnsPolicy="Maybe")),
        Step("POST", "pods", pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}])),
        Step("POST", "pods", pod(priorityClassName="none-such")),
        Step("POST", "pods", {"spec": {"containers": {}}}),
        Step("POST", "pods", {"spec": {"terminationGracePeriodSeconds": "30"}}),
        Step("POST", "pods", {"kind": "Node", "apiVersion": "v1"}),
        Step("POST", "pods", {"metadata": {"namespace": "elsewhere"}}),
        Step("POST", "replicasets", replicaset(replicas=-1, selector=OTHER)),
        Step("POST", "deployments", replicaset(selector=None, template=None)),
        Step("POST", "deployments", replicaset(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}})),
        Step("POST", "deployments", replicaset(progressDeadlineSeconds=1, minReadySeconds=2)),
        Step("POST", "pods", pod()),
        Step("POST", "pods", pod()),
    ],
    "refused before there is a name": [
        Step("POST", "pods", {**pod(priorityClassName="none-such"), "metadata": {"generateName": "web-"}}),
        Step("POST", "pods", {**pod(priority=5), "metadata": {"generateName": "web-"}}),
        Step("POST", "pods", {**pod(priority=5), "metadata": {}}),
    ],
    "a service changes its type": [
        Step("POST", "services", {"metadata": {"name": "s"}, "spec": {"type": "ExternalName", "externalName": "a.b"}}),
        Step(
            "PATCH", "services/s", {"spec": {"type": "NodePort", "externalName": None, "ports": [{"port": 1}]}}, MERGE
        ),
        Step("PUT", "services/s", {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 2}]}}),
        Step("PATCH", "services/s", {"spec": {"type": "ClusterIP"}}, MERGE),
        Step("PATCH", "services/s", {"spec": {"type": "LoadBalancer", "loadBalancerClass": "a.b/c"}}, MERGE),
        Step("PATCH", "services/s/status", {"status": {"loadBalancer": {"ingress": [{"ip": "9.9.9.9"}]}}}, MERGE),
        Step("PATCH", "services/s", {"spec": {"type": "NodePort", "externalTrafficPolicy": "Local"}}, MERGE),
        Step("PATCH", "services/s", {"spec": {"type": "ExternalName", "externalName": "a.b"}}, MERGE),
        Step("PATCH", "services/s", {"spec": {"type": "ClusterIP", "clusterIP": "None"}}, MERGE),
    ],
    "updates": [
        Step("POST", "replicasets", replicaset()),
        Step("PUT", "replicasets/web", replicaset()),
        Step("PUT", "replicasets/web", replicaset(replicas=3)),
        Step("PUT", "replicasets/web", {**replicaset(), "metadata": {"name": "web", "resourceVersion": "1"}}),
        Step("PUT", "replicasets/web", {**replicaset(), "metadata": {"name": "other"}}),
        Step("PUT", "replicasets/none", {**replicaset(), "metadata": {"name": "none"}}),
        Step("PUT", "replicasets/web/status", {**replicaset(replicas=9), "status": {"replicas": 2}}),
        Step("PATCH", "replicasets/web", {"spec": {"selector": OTHER}}, MERGE),
        Step("PATCH", "replicasets/web/status", {"status": {"readyReplicas": 9}}, MERGE),
        Step("PATCH", "replicasets/web", {"metadata": {"annotations": {"a": "b"}}}, MERGE),
        Step("PATCH", "replicasets/web", {"metadata": {"annotations": {"a": None}}}, STRATEGIC),
        Step("PATCH", "replicasets/web", [{"op": "replace", "path": "/spec/replicas", "value": 1}], JSON_PATCH),
        Step("PATCH", "replicasets/web", [{"op": "remove", "path": "/metadata/name"}], JSON_PATCH),
        Step("PATCH", "replicasets/web", [], MERGE),
        Step("PATCH", "replicasets/web", {}, "text/plain"),
        Step("PATCH", "replicasets/web", {"metadata": {"uid": "other"}}, MERGE),
        Step("PATCH", "replicasets/web", {"metadata": {"uid": "other", "resourceVersion": "1"}}, MERGE),
        Step("PATCH", "replicasets/web/status", {"metadata": {"uid": "other"}}, MERGE),
        Step("PUT", "replicasets/web", {**replicaset(), "metadata": {"name": "web", "uid": "other"}}),
        Step("GET", "replicasets/web"),
        Step("PUT", "leases/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
        Step("PUT", "leases/l", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}}),
    ],
    "a deployment's generation and status": [
        Step("POST", "deployments", replicaset()),
        Step("PATCH", "deployments/web", {"metadata": {"annotations": {"a": "b"}}}, MERGE),
        Step("PATCH", "deployments/web", {"metadata": {"labels": {"a": "b"}}}, MERGE),
        Step(
            "PATCH",
            "deployments/web/status",
            {"metadata": {"labels": {"a": "c"}, "annotations": {"r": "1"}}, "status": {"collisionCount": 1}},
            MERGE,
        ),
        Step("PATCH", "deployments/web/status", {"status": {"collisionCount": 0}}, MERGE),
        Step("PATCH", "deployments/web", {"spec": {"template": {"spec": {"containers": []}}}}, MERGE),
    ],
    "a pod's life": [
        Step("POST", "pods", pod()),
        Step("POST", "pods/web/binding", {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}}),
        Step("POST", "pods/web/binding", {"metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n"}}),
        Step("PATCH", "pods/web", {"spec": {"tolerations": []}}, MERGE),
        Step("PATCH", "pods/web", {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}, STRATEGIC),
        Step("PATCH", "pods/web/status", {"status": {"phase": "Running", "podIP": "10.0.0.1"}}, MERGE),
        Step("PATCH", "pods/web/status", {"status": {"qosClass": "Guaranteed"}}, MERGE),
        Step("DELETE", "pods/web"),
        Step("DELETE", "pods/web", {"gracePeriodSeconds": 60}),
        Step("DELETE", "pods/web", {"gracePeriodSeconds": 10}),
        Step("DELETE", "pods/web", {"gracePeriodSeconds": 0}),
        Step("GET", "pods/web"),
    ],
    "scale": [
        Step("POST", "deployments", replicaset(replicas=2)),
        Step("GET", "deployments/web/scale"),
        Step("PATCH", "deployments/web/scale", {"spec": {"replicas": 4}}, MERGE),
        Step("PATCH", "deployments/web/scale", {"spec": {"replicas": -1}}, MERGE),
        Step("PUT", "deployments/web/scale", {"metadata": {"name": "web", "resourceVersion": "1"}, "spec": {}}),
        Step("GET", "deployments/web"),
    ],
    "finalizers and preconditions": [
        Step("POST", "configmaps", {"metadata": {"name": "c", "finalizers": ["example.com/a"]}}),
        Step("DELETE", "configmaps/c", {"preconditions": {"uid": "$uid", "resourceVersion": "1"}}),
        Step("DELETE", "configmaps/c", {"preconditions": {"uid": "other"}}),
        Step("DELETE", "configmaps/c", {"propagationPolicy": "Sideways"}),
        Step("DELETE", "configmaps/c"),
        Step("POST", "configmaps", {"metadata": {"name": "c"}}),
        Step("PATCH", "configmaps/c", {"metadata": {"finalizers": None}}, MERGE),
        Step("GET", "configmaps/c"),
        Step("POST", "configmaps", {"metadata": {"name": "c"}}),
        Step("DELETE", "configmaps/c"),
    ],
    "server-side apply": [
        _apply("configmaps/c", {"data": {"a": "1", "b": "2"}, "metadata": {"labels": {"x": "y"}}}),
        _apply("configmaps/c", {"data": {"a": "1", "b": "2"}, "metadata": {"labels": {"x": "y"}}}),
        _apply("configmaps/c", {"data": {"a": "1"}}),
        Step("PATCH", "configmaps/c", {"data": {"c": "3"}}, MERGE),
        _apply("configmaps/c", {"data": {"a": "9", "c": "3"}}, manager="other"),
        _apply("configmaps/c", {"data": {"a": "1", "c": "3"}}, manager="other"),
        _apply("configmaps/c", {"data": {"d": "4"}}),
        _apply("configmaps/c", {"data": {"d": "5", "e": "6"}}, manager="third"),
        _apply("configmaps/c", {"data": {"a": "9", "c": "8", "d": "5"}}, manager="third", force="true"),
        _apply("configmaps/c", {}, manager="other"),
        _apply("configmaps/c", {}, manager="third"),
        _apply("configmaps/none", {"metadata": {"uid": "other"}}),
        _apply("configmaps/c", {"metadata": {"resourceVersion": "1"}, "data": {"a": "5"}}),
        _apply("configmaps/c", {"metadata": {"uid": "other"}, "data": {"a": "5"}}),
        _apply("replicasets/web", _containers({"c": {"A": "1", "B": "2"}, "d": {}})),
        _apply("replicasets/web", _containers({"c": {"B": "3"}})),
        _apply("replicasets/web", _containers({"c": {"B": "4"}}), manager="other"),
        _apply("replicasets/web/status", {"status": {"replicas": 2, "readyReplicas": 1}}),
        _apply("replicasets/web/status", {"status": {"replicas": 2}}),
        Step("PATCH", "configmaps/c", {}, APPLY),
    ],
    "a collection is deleted page by page": [
        *(Step("POST", "configmaps", {"metadata": {"name": name}}) for name in "abcdef"),
        Step("GET", "configmaps", query={"limit": "2"}),
        Step("DELETE", "configmaps", query={"limit": "2", "continue": "$continue"}),
        Step("GET", "configmaps"),
        Step("DELETE", "configmaps", query={"limit": "1"}),
        Step("GET", "configmaps", query={"limit": "1"}),
        Step("DELETE", "configmaps", query={"continue": "$continue"}),
        Step("GET", "configmaps"),
    ],
    "numbers and patches out of bounds": [
        Step("GET", "pods", query={"resourceVersion": "9" * 30}),
        Step("GET", "pods", query={"limit": "9" * 30}),
        Step("POST", "configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}}),
        Step("PATCH", "configmaps/c", [{"op": "add", "path": "/data/b", "value": "1"}] * 10_001, JSON_PATCH),
        Step("PATCH", "configmaps/c", [{"op": "copy", "from": "/data/a", "path": "/data/c"}] * 20, JSON_PATCH),
        Step("DELETE", "configmaps/c", query={"gracePeriodSeconds": "9" * 30}),
    ],
    "lists": [
        Step("POST", "pods", pod("a")),
        Step("POST", "pods", {**pod("b"), "metadata": {"name": "b", "labels": {"app": "other"}}}),
        Step("GET", "pods", query={"labelSelector": "app in (web,x),!y"}),
        Step("GET", "pods", query={"fieldSelector": "metadata.name=b,spec.nodeName="}),
        Step("GET", "pods", query={"fieldSelector": "spec.foo=1"}),
        Step("GET", "deployments", query={"fieldSelector": "spec.foo=1"}),
        Step("GET", "pods", query={"resourceVersionMatch": "Exact"}),
        Step("DELETE", "pods", query={"labelSelector": "app=web"}),
        Step("GET", "pods"),
    ],
}


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    return requests.play_steps(SCENARIOS[scenario], send)


CONTRACT = Contract("core", SCENARIOS, play, embedded=embedded(), real=in_new_namespaces())
