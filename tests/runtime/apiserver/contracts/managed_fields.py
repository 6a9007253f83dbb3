"""Field management: managedFields for each kind of write, conflicts of applies, and options of writes."""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.programs import until
from tests.runtime.apiserver.contracts import requests
from tests.runtime.apiserver.contracts.contract import Contract, embedded, in_new_namespaces
from tests.runtime.apiserver.contracts.requests import (
    APPLY,
    CONTAINERS,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Given,
    Send,
    Step,
)

_KINDS = {
    "configmaps": ("v1", "ConfigMap"),
    "deployments": ("apps/v1", "Deployment"),
    "services": ("v1", "Service"),
    "pods": ("v1", "Pod"),
}


def apply(
    path: str, body: dict[str, Any], manager: str = "me", kind: tuple[str, str] | None = None, **query: str
) -> Step:
    resource, name = path.split("/")[:2]
    api_version, named = _KINDS[resource] if kind is None else kind
    meta = {"name": name, **body.get("metadata", {})}
    whole = {"kind": named, "apiVersion": api_version, **body, "metadata": meta}
    return Step("PATCH", path, whole, APPLY, {"fieldManager": manager, **query})


def config(name: str = "c", /, managed: list[Any] | None = None, **data: str) -> dict[str, Any]:
    meta = {"name": name} if managed is None else {"name": name, "managedFields": managed}
    return {"metadata": meta, "data": data}


def by(manager: str) -> dict[str, str]:
    return {"fieldManager": manager}


def entry(operation: str, *fields: str) -> dict[str, Any]:
    owned = {"f:data": {f"f:{field}": {} for field in fields}}
    return {"manager": "x", "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": owned}


def template(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": list(containers)}}}}


def service(*ports: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"spec": {"selector": {"a": "b"}, "ports": list(ports), **more}}


def conditions(**statuses: str) -> dict[str, Any]:
    found = [
        {"type": name, "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name, status in statuses.items()
    ]
    return {"status": {"phase": "Running", "conditions": found}}


_ITEM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "value": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
    },
    "required": ["name"],
}
_SPEC = {
    "replicas": {"type": "integer"},
    "items": {
        "type": "array",
        "items": _ITEM,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name", "protocol"],
    },
    "set": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
    "list": {"type": "array", "items": {"type": "string"}},
    "map": {"type": "object", "additionalProperties": {"type": "string"}},
    "whole": {"type": "object", "additionalProperties": {"type": "string"}, "x-kubernetes-map-type": "atomic"},
    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": _SPEC},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}
GROUP, WIDGET = "managers.example.com", {"apiVersion": "managers.example.com/v1", "kind": "Widget"}
DEFINITION = {
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "names": {"plural": "widgets", "kind": "Widget"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
                "subresources": {"status": {}},
            }
        ],
    },
}
DEFINITIONS, WIDGETS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"/apis/{GROUP}/v1/widgets"


def widget(manager: str = "me", **query: Any) -> Step:
    """Apply a widget. `force` is a query parameter, other keywords are fields of the spec."""
    force = {"force": "true"} if query.pop("force", False) else {}
    return apply("widgets/w", {"spec": query}, manager, (WIDGET["apiVersion"], WIDGET["kind"]), **force)


def item(name: str, value: int, **more: str) -> dict[str, Any]:
    return {"name": name, "value": value, **more}


FIRST = {
    "replicas": 1,
    "items": [item("a", 1)],
    "set": ["x"],
    "list": ["q"],
    "map": {"k": "v"},
    "whole": {"z": "1"},
    "any": {"l": [1], "m": {"n": 1}},
}

SIDE, MAIN = {"name": "side", "image": "x"}, {"name": "c", "image": "nginx:1"}
OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}
HTTP, DNS = {"port": 80, "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b"}
LONG = "x" * 129

CUSTOM = "a custom kind, by its schema"

SCENARIOS: dict[str, list[Step]] = {
    "every write": [
        Step("POST", "configmaps", config(a="1"), query=by("kubectl-create")),
        apply("configmaps/c", {"data": {"a": "2"}}, "kubectl"),
        apply("configmaps/c", {"data": {"a": "1"}}, "kubectl"),
        Step("PUT", "configmaps/c", config(a="1", b="2"), query=by("editor")),
        Step("PUT", "configmaps/c", config(a="1", b="2"), query=by("another")),
        Step("PATCH", "configmaps/c", {"data": {"a": "1"}}, MERGE, by("noop")),
        Step("PATCH", "configmaps/c", {"data": None}, MERGE),
        Step("PATCH", "configmaps/c", [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}], JSON_PATCH),
    ],
    "managers are set and forgotten": [
        Step("POST", "configmaps", config(a="1"), query=by("kubectl-create")),
        Step("PATCH", "configmaps/c", {"metadata": {"managedFields": [{}]}}, MERGE),
        Step("PATCH", "configmaps/c", {"data": {"z": "1"}}, MERGE),
        apply("configmaps/c", {"data": {"a": "2"}}, "kubectl"),
        apply("configmaps/c", {"data": {"a": "1"}}, "kubectl"),
        Step("PATCH", "configmaps/c", {"metadata": {"managedFields": []}}, MERGE),
        Step("PATCH", "configmaps/c", {"metadata": {"managedFields": [entry("Update", "a")]}}, MERGE),
        Step("PATCH", "configmaps/c", {"metadata": {"managedFields": [entry("Sideways", "a")]}}, MERGE),
        Step("POST", "configmaps", config("d", [entry("Update", "a")], a="1", b="2")),
        Step("POST", "configmaps", config("e", [entry("Apply", "q")], a="1", b="2")),
    ],
    "many managers": [
        Step("POST", "configmaps", config(a="1"), query=by("a")),
        apply("configmaps/c", {"data": {"b": "1"}}),
        *(Step("PATCH", "configmaps/c", {"data": {f"k{i}": "1"}}, MERGE, by(f"m{i:02}")) for i in range(13)),
    ],
    "what was created is applied": [
        Step("POST", "deployments", requests.replicaset(), query=by("kubectl-create")),
        apply("deployments/web", {"spec": {"replicas": 3}}, "kubectl"),
        apply("deployments/web", {"spec": {"replicas": 3}}, "kubectl", force="true"),
        apply("deployments/web", template(SIDE), "kubectl", force="true"),
        apply("deployments/web", template(SIDE, MAIN), "kubectl"),
        apply("deployments/web", template({**MAIN, "image": "nginx:2"}), "kubectl", force="true"),
        Step("PATCH", "deployments/web/scale", {"spec": {"replicas": 5}}, MERGE, by("scaler")),
        apply("deployments/web", {"spec": {"replicas": 3}}, "kubectl"),
        Step("PUT", "deployments/web/status", {**requests.replicaset(), "status": {"replicas": 2}}, query=by("ctl")),
        apply("deployments/web/status", {"status": {"replicas": 3, "readyReplicas": 1}}, "kubectl"),
        apply("deployments/web/status", {"status": {"replicas": 3}}, "kubectl", force="true"),
        Step("GET", "deployments/web"),
    ],
    "somebody else scales": [
        apply("deployments/web", {"spec": {"replicas": 2, **requests.replicaset()["spec"]}}),
        Step("PATCH", "deployments/web/scale", {"spec": {"replicas": 5}}, MERGE, by("scaler")),
        apply("deployments/web", {"spec": {"replicas": 2, **requests.replicaset()["spec"]}}),
        apply("deployments/web", requests.replicaset(), force="true"),
        apply("deployments/web/scale", {"spec": {"replicas": 7}}, "hand", ("autoscaling/v1", "Scale")),
        apply("deployments/web/scale", {"spec": {"replicas": 7}}, "hand", ("autoscaling/v1", "Scale"), force="true"),
        Step("GET", "deployments/web"),
    ],
    "what cannot be applied": [
        Step("POST", "deployments", requests.replicaset()),
        apply("deployments/web", {"spec": {"foo": 1}}),
        apply("deployments/web", template(MAIN, MAIN)),
        apply("deployments/web", template({"image": "x"})),
        apply("deployments/web", {"metadata": {"managedFields": []}}),
        apply("deployments/web", {"metadata": {"managedFields": None}}),
        apply("deployments/web", {}, kind=("apps/v2", "Deployment")),
        apply("deployments/web", {}, kind=("v1", "Pod")),
        apply("deployments/web", {}, kind=("", "")),
        apply("deployments/web", {"metadata": {"namespace": "elsewhere"}}),
        apply("deployments/web", {"metadata": {"name": "other"}}),
    ],
    "options": [
        Step("POST", "configmaps", config(a="1")),
        apply("configmaps/c", {}, LONG),
        apply("configmaps/c", {}, "a\nb"),
        Step("PATCH", "configmaps/c", {}, MERGE, {"force": "true"}),
        Step("PATCH", "configmaps/c", {}, MERGE, by(LONG)),
        Step("POST", "configmaps", {}, query=by(LONG)),
        Step("PUT", "configmaps/x", {"metadata": {"name": "x"}}, query=by(LONG)),
        Step("POST", "configmaps", config("d", a="1"), query={"dryRun": "None"}),
        Step("POST", "configmaps", config("d", a="1"), query={"dryRun": "All"}),
        Step("POST", "configmaps", config("d", a="1"), query={"fieldValidation": "Maybe"}),
        Step("PATCH", "configmaps/c", {}, MERGE, {"dryRun": "x", "fieldValidation": "Maybe", "force": "true"}),
        Step("DELETE", "configmaps/c", query={"dryRun": "x"}),
        Step("DELETE", "configmaps/c", {"dryRun": ["x"]}),
        Step("DELETE", "configmaps/c", {"dryRun": ["All"]}),
        apply("configmaps/c", {"data": {"a": "1"}}, dryRun="All"),
        apply("configmaps/f", {"data": {"a": "1"}}, dryRun="All"),
        Step("PUT", "configmaps/c", config(a="2"), query={"dryRun": "All"}),
        Step("GET", "configmaps/c"),
    ],
    "lists that merge by two keys": [
        apply("services/s", service(HTTP, DNS)),
        apply("services/s", service(HTTP)),
        apply("services/s", service(HTTP, {"port": 81, "name": "z"}), "two"),
        apply("services/s", service({**HTTP, "name": "q"}), "two"),
        apply("services/s", {"spec": {"selector": {"c": "d"}}}, "three"),
        apply("services/s", {"spec": {"selector": {"c": "d"}}}, "three", force="true"),
    ],
    "pods": [
        Step(
            "POST",
            "pods",
            {
                "metadata": {"name": "p", "labels": {"a": "b"}, "annotations": {}, "ownerReferences": [OWNER]},
                "spec": requests.PODS_FULL["spec"],
            },
        ),
        Step("POST", "pods", requests.pod("q", nodeName="n", tolerations=[{"key": "a", "operator": "Exists"}])),
        Step("PATCH", "pods/q/status", conditions(Ready="True"), STRATEGIC, by("kubelet")),
        Step("PATCH", "pods/q/status", conditions(Ready="False", X="True"), STRATEGIC, by("other")),
        Step("PATCH", "pods/q", [{"op": "add", "path": "/metadata/labels/x", "value": "y"}], JSON_PATCH),
        apply("pods/q", {"spec": {"containers": [{"name": "c", "image": "nginx:9"}]}}),
        apply("pods/q", {"spec": {"containers": [{"name": "c", "image": "nginx:9"}]}}, force="true"),
        Step("PATCH", "pods/q", {"spec": {"tolerations": []}}, MERGE),
    ],
    CUSTOM: [
        Step("POST", "widgets", {**WIDGET, "metadata": {"name": "w"}, "spec": FIRST, "status": {"phase": "not taken"}}),
        widget(items=[item("a", 2), item("b", 1)]),
        widget(items=[item("a", 1), item("b", 1)], set=["y"], map={"l": "v"}),
        widget("two", items=[item("b", 1)], set=["x", "y"], any={"m": {"o": 1}}),
        widget("three", items=[item("b", 1)], list=["z"]),
        widget("three", items=[item("b", 1)], list=["z"], whole={"y": "2"}, force=True),
        widget(),
        widget("two"),
        widget("two", foo=1),
        widget("two", items=[item("c", 1), item("c", 2)]),
        widget("two", items=[item("c", 1, protocol="TCP"), item("c", 2, protocol="UDP")]),
        apply("widgets/w/status", {"status": {"phase": "Running"}}, "ctl", (WIDGET["apiVersion"], WIDGET["kind"])),
        Step("PATCH", "widgets/w/status", {"status": {"phase": "Bad"}}, MERGE, by("m")),
        Step("PUT", "widgets/w", {**WIDGET, "metadata": {"name": "w"}, "spec": {"replicas": 2}}, query=by("m")),
        Step("GET", "widgets/w"),
    ],
    "new objects of many kinds": [
        Step("POST", "endpoints", {"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "1.2.3.4"}]}]}),
        Step("POST", "serviceaccounts", {"metadata": {"name": "e"}, "imagePullSecrets": [{"name": "a"}]}),
        Step("POST", "resourcequotas", {"metadata": {"name": "e"}, "spec": {"hard": {"pods": "1"}}}),
        Step("POST", "limitranges", {"metadata": {"name": "e"}, "spec": {"limits": [{"type": "Pod"}]}}),
        Step(
            "POST",
            "jobs",
            {
                "metadata": {"name": "e"},
                "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}},
            },
        ),
        Step("POST", "secrets", {"metadata": {"name": "e"}, "stringData": {"a": "b"}}),
        Step("POST", "leases", {"metadata": {"name": "e"}, "spec": {"holderIdentity": "a"}}),
        Step("POST", "services", {"metadata": {"name": "e"}, "spec": {"ports": [{"port": 1}]}}),
        Step("POST", "replicationcontrollers", requests.CONTROLLER),
    ],
}


def play(scenario: str, send: Send) -> list[dict[str, Any]]:
    if scenario == CUSTOM:
        send(Given("POST", DEFINITIONS, json.dumps(DEFINITION).encode(), requests.JSON, {}))
        until(lambda: send(Given("GET", WIDGETS, b"", "", {}))[0] == 200, "widgets are served")
    answers = requests.play_steps(SCENARIOS[scenario], send, dropped=requests.DROPPED - {"managedFields"})
    for answer in answers:
        # They are sorted by time, so their order depends on when a second begins.
        managers = answer["body"].get("metadata", {}).get("managedFields", [])
        managers.sort(key=lambda entry: (entry["operation"], entry["manager"], entry.get("subresource", "")))
        # The managers in conflict are in the random order of Go's maps; the fields of each are sorted.
        answer["body"].get("details", {}).get("causes", []).sort(key=lambda cause: cause["message"])
    return answers


CONTRACT = Contract("managed_fields", SCENARIOS, play, embedded=embedded(), real=in_new_namespaces())
