"""What clients may rely on, as requests: the same ones are put to our server and to kube-apiserver 1.36.

The real one's answers are kept in contract_answers.json. To record them anew (after a change of the scenarios, or for
another release), with a kube-apiserver at hand that lets its token do everything and mounts no service accounts:

    python tests/runtime/apiserver/contract.py https://127.0.0.1:6443 TOKEN
"""

from __future__ import annotations

import http.client
import json
import re
import ssl
import sys
import uuid
from collections.abc import Callable, Iterable, Set
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

ANSWERS = Path(__file__).with_name("contract_answers.json")
NAMESPACE = "contract"

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, JSON = "application/json-patch+json", "application/json"
APPLY = "application/apply-patch+yaml"


class Step(NamedTuple):
    """path: below the namespace, after the resource's prefix; with a slash in front, outside of any. `$uid` in a body
    and `$continue` in a query are of the answer before. user: whom the administrator acts as.
    """

    method: str
    path: str
    body: Any = None
    type: str = JSON
    query: dict[str, str] = {}  # noqa: RUF012 - never changed
    user: str = ""


class Given(NamedTuple):
    """One request as it is sent; body: JSON, or b""."""

    method: str
    path: str
    body: bytes
    type: str
    query: dict[str, str]
    user: str = ""

    @property
    def groups(self) -> tuple[str, ...]:
        """Of its user: those that make a node of one that is called so."""
        return ("system:nodes",) if self.user.startswith("system:node:") else ()


DROPPED = frozenset({"managedFields", "serviceAccount", "serviceAccountName", "lastProbeTime"})

Send = Callable[[Given], tuple[int, Any]]
Exchange = Callable[[Given], tuple[int, Any, list[str]]]
"""As Send, with the warnings."""

PREFIXES = {
    "deployments": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "runtimeclasses": "/apis/node.k8s.io/v1",
    "storageclasses": "/apis/storage.k8s.io/v1",
    "leases": "/apis/coordination.k8s.io/v1",
    "widgets": "/apis/managers.example.com/v1",
    "apis": "",  # a path that says it all
}

CONTAINERS = [{"name": "c", "image": "nginx:1"}]


def pod(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": CONTAINERS, **spec}}


def replicaset(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": CONTAINERS}}
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec},
    }


CONTROLLER = {"metadata": {"name": "rc"}, "spec": {"template": replicaset()["spec"]["template"]}}
OTHER = {"matchLabels": {"app": "other"}}
PODS_FULL = pod(
    volumes=[{"name": "v"}, {"name": "s", "secret": {"secretName": "x"}}],
    initContainers=[{"name": "i", "image": "busybox", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
    containers=[
        {
            "name": "c",
            "image": "nginx",
            "ports": [{"containerPort": 80}],
            "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
            "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}},
            "readinessProbe": {"httpGet": {"port": 80}},
        }
    ],
)


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
        variables = [{"name": one, "value": value} for one, value in env.items()]
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
    """The answers to a scenario, with what differs from run to run taken out."""
    return play_steps(SCENARIOS[scenario], send)


def play_steps(steps: Iterable[Step], send: Send, *, dropped: Set[str] = DROPPED) -> list[dict[str, Any]]:
    """dropped: fields that are left out of the answers."""
    answers, before = [], {}
    words: dict[str, str] = {}
    for step in steps:
        meta = before.get("metadata") or {}
        text = "" if step.body is None else json.dumps(step.body)
        body = text.replace("$uid", meta.get("uid", "")).encode()
        resource = step.path.strip("/").partition("/")[0]
        inside = "" if step.path.startswith("/") else f"/namespaces/{NAMESPACE}/"
        path = f"{PREFIXES.get(resource, '/api/v1')}{inside}{step.path}"
        query = {name: value.replace("$continue", meta.get("continue", "")) for name, value in step.query.items()}
        status, before = send(Given(step.method, path, body, step.type, query, step.user))
        learn(before, words)
        answers.append({"status": status, "body": plain(before, words, dropped)})
    return answers


def learn(answer: dict[str, Any], words: dict[str, str]) -> None:
    """Versions and uids are told apart by the order in which they first appear."""
    for item in (answer, *(answer.get("items") or ())):
        meta = item.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            value = meta.get(field) or ((item.get("details") or {}).get(field))
            if value and "items" not in item:
                count = sum(word.startswith(f"<{field}") for word in words.values())
                words.setdefault(f"{field}={value}", f"<{field} {count + 1}>")


_ALLOCATED = {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"}  # of another range in each cluster
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def plain(value: Any, words: dict[str, str], dropped: Set[str], field: str = "") -> Any:
    if isinstance(value, dict):
        if field == "metadata" and "resourceVersion" in value and "name" not in value:
            return {}  # a list's: other writers move it
        return {name: plain(inner, words, dropped, name) for name, inner in value.items() if name not in dropped}
    if field in _ALLOCATED and value and value not in ("None", ["None"]):
        if isinstance(value, list) and len(value) > 1:
            return ["<IPv6>" if ":" in one else "<IPv4>" for one in value]
        return "<allocated>"
    if isinstance(value, list):
        return [_bare(plain(one, words, dropped)) if field == "items" else plain(one, words, dropped) for one in value]
    if isinstance(value, str):
        if field in ("uid", "resourceVersion"):
            return words.get(f"{field}={value}", value)
        for known, word in words.items():
            if known.startswith("uid="):
                value = value.replace(known.removeprefix("uid="), word)
        return _TIME.sub("<time>", re.sub(r"in record \(\d+\)", "in record (<version>)", value))
    return value


def _bare(item: Any) -> Any:
    """Upstream leaves kind and apiVersion out of a list's items; ours are the stored bytes, which have them."""
    return {name: inner for name, inner in item.items() if name not in ("kind", "apiVersion")}


def real_sender(url: str, token: str) -> Send:
    """Sends to a kube-apiserver; its certificate is not looked at."""
    exchange = real_exchange(url, token)
    return lambda given: exchange(given)[:2]


def real_exchange(url: str, token: str) -> Exchange:
    """As real_sender; returns the warnings too."""
    where, context = urlsplit(url), ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def send(given: Given) -> tuple[int, Any, list[str]]:
        connection = http.client.HTTPSConnection(where.hostname or "", where.port, context=context, timeout=30)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": given.type, "Accept": JSON}
        if given.user:
            headers["Impersonate-User"] = given.user
        for group in given.groups:
            headers["Impersonate-Group"] = group
        query = f"?{urlencode(given.query)}" if given.query else ""
        connection.request(given.method, given.path + query, given.body or None, headers)
        response = connection.getresponse()
        raw = response.read()  # text, where a path is not known at all
        warnings = [_warning(one) for one in response.headers.get_all("Warning") or ()]
        answer = response.status, json.loads(raw) if raw.startswith(b"{") else {}, warnings
        connection.close()
        return answer

    return send


def _warning(header: str) -> str:
    """The text of `299 - "text"`."""
    return header.split(" ", 2)[2][1:-1].replace('\\"', '"').replace("\\\\", "\\")


def in_a_namespace_of_its_own(send: Send) -> Send:
    """Puts a scenario into a new namespace, and lets it believe that this one is called as always."""
    namespace = f"{NAMESPACE}-{uuid.uuid4().hex[:8]}"
    send(Given("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": namespace}}).encode(), JSON, {}))

    def inside(given: Given) -> tuple[int, Any]:
        path = given.path.replace(f"/namespaces/{NAMESPACE}/", f"/namespaces/{namespace}/")
        status, answer = send(given._replace(path=path))
        return status, json.loads(json.dumps(answer).replace(namespace, NAMESPACE))

    return inside


def record(url: str, token: str) -> None:
    send = real_sender(url, token)
    answers = {scenario: play(scenario, in_a_namespace_of_its_own(send)) for scenario in SCENARIOS}
    ANSWERS.write_text(json.dumps(answers, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record(*sys.argv[1:3])
