"""Requests of contracts, and their responses in a form that is the same in each run."""

from __future__ import annotations

import http.client
import json
import re
import ssl
import uuid
from collections.abc import Callable, Iterable, Set
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

NAMESPACE = "contract"

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
JSON_PATCH, JSON = "application/json-patch+json", "application/json"
APPLY = "application/apply-patch+yaml"


class Step(NamedTuple):
    """Request of a scenario. `$uid` in the body and `$continue` in the query are values of the previous response."""

    method: str
    path: str  # below the namespace of the scenario; with a leading slash, outside of any namespace
    body: Any = None
    type: str = JSON
    query: dict[str, str] = {}  # noqa: RUF012 - never changed
    user: str = ""  # impersonated by the administrator


class Given(NamedTuple):
    """Request as it is sent. The body is JSON, or b""."""

    method: str
    path: str
    body: bytes
    type: str
    query: dict[str, str]
    user: str = ""

    @property
    def groups(self) -> tuple[str, ...]:
        """Return the groups of the user: those of nodes for the user name of a node."""
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
    "apis": "",  # a complete path
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


def play_steps(steps: Iterable[Step], send: Send, *, dropped: Set[str] = DROPPED) -> list[dict[str, Any]]:
    """Play the steps and return the responses. `dropped` fields are removed from them."""
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
    """Assign words to versions and uids, numbered in the order in which they first appear."""
    for item in (answer, *(answer.get("items") or ())):
        meta = item.get("metadata") or {}
        for field in ("uid", "resourceVersion"):
            value = meta.get(field) or ((item.get("details") or {}).get(field))
            if value and "items" not in item:
                count = sum(word.startswith(f"<{field}") for word in words.values())
                words.setdefault(f"{field}={value}", f"<{field} {count + 1}>")


_ALLOCATED = {"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"}  # the ranges differ between clusters
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def plain(value: Any, words: dict[str, str], dropped: Set[str], field: str = "") -> Any:
    if isinstance(value, dict):
        if field == "metadata" and "resourceVersion" in value and "name" not in value:
            return {}  # of a list, which other writers increase
        return {name: plain(inner, words, dropped, name) for name, inner in value.items() if name not in dropped}
    if field in _ALLOCATED and value and value not in ("None", ["None"]):
        if isinstance(value, list) and len(value) > 1:
            return ["<IPv6>" if ":" in address else "<IPv4>" for address in value]
        return "<allocated>"
    if isinstance(value, list):
        items = [plain(item, words, dropped) for item in value]
        return [_bare(item) for item in items] if field == "items" else items
    if isinstance(value, str):
        if field in ("uid", "resourceVersion"):
            return words.get(f"{field}={value}", value)
        for known, word in words.items():
            if known.startswith("uid="):
                value = value.replace(known.removeprefix("uid="), word)
        return _TIME.sub("<time>", re.sub(r"in record \(\d+\)", "in record (<version>)", value))
    return value


def _bare(item: Any) -> Any:
    """Remove kind and apiVersion from an item of a list: only our items, which are the stored bytes, have them."""
    return {name: inner for name, inner in item.items() if name not in ("kind", "apiVersion")}


def real_sender(url: str, token: str) -> Send:
    """Return a function that sends requests to a kube-apiserver without verifying its certificate."""
    exchange = real_exchange(url, token)
    return lambda given: exchange(given)[:2]


def real_exchange(url: str, token: str) -> Exchange:
    """Return a function like that of `real_sender`, which also returns the warnings."""
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
        raw = response.read()  # plain text for an unknown path
        warnings = [_warning(header) for header in response.headers.get_all("Warning") or ()]
        answer = response.status, json.loads(raw) if raw.startswith(b"{") else {}, warnings
        connection.close()
        return answer

    return send


def _warning(header: str) -> str:
    """Return the text of `299 - "text"`."""
    return header.split(" ", 2)[2][1:-1].replace('\\"', '"').replace("\\\\", "\\")


def in_a_namespace_of_its_own(send: Send) -> Send:
    """Return a function that plays a scenario in a new namespace, and restores the usual name in the responses."""
    namespace = f"{NAMESPACE}-{uuid.uuid4().hex[:8]}"
    send(Given("POST", "/api/v1/namespaces", json.dumps({"metadata": {"name": namespace}}).encode(), JSON, {}))

    def inside(given: Given) -> tuple[int, Any]:
        path = given.path.replace(f"/namespaces/{NAMESPACE}/", f"/namespaces/{namespace}/")
        status, answer = send(given._replace(path=path))
        return status, json.loads(json.dumps(answer).replace(namespace, NAMESPACE))

    return inside
