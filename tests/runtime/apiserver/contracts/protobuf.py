"""Objects, lists, errors and watch events of kube-apiserver 1.36, each as JSON and as protobuf."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from kcm.runtime.simulation.keys import request_pem
from tests.runtime.apiserver.contracts.kinds import play
from tests.runtime.apiserver.contracts.kinds.play import Kind

if TYPE_CHECKING:
    from tests.e2e.kubectl import Api

RESPONSES = Path(__file__).with_name("responses") / "protobuf.json"
JSON, PROTOBUF = "application/json", "application/vnd.kubernetes.protobuf"
PARTIAL = ";as=PartialObjectMetadata;g=meta.k8s.io;v="
PARTIAL_LIST = ";as=PartialObjectMetadataList;g=meta.k8s.io;v="
DRY = "?dryRun=All"

SCHEMA = {
    "type": "object",
    "description": "a <b>",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "default": {"size": 1, "names": ["é"]},
            "properties": {
                "size": {"type": "number", "minimum": 0.5, "maximum": 7, "exclusiveMaximum": True, "enum": [1, 2, 3]},
                "names": {"type": "array", "maxItems": 3, "items": {"type": "string", "pattern": "^.$"}},
                "loose": {"type": "object", "additionalProperties": True},
                "counts": {"type": "object", "additionalProperties": {"type": "integer", "nullable": True}},
                "any": {"x-kubernetes-preserve-unknown-fields": True, "type": "object"},
                "port": {"x-kubernetes-int-or-string": True},
            },
            "x-kubernetes-validations": [{"rule": "self.size > 0.0", "message": "too small"}],
        }
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.wire.example.com"},
    "spec": {
        "group": "wire.example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["w"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": SCHEMA},
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.a"},
                },
                "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".spec.a", "priority": 1}],
            }
        ],
    },
}
POD_STATUS = {
    "phase": "Running",
    "startTime": "2026-01-02T03:00:00Z",
    "podIP": "10.0.0.1",
    "podIPs": [{"ip": "10.0.0.1"}],
    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:00:01Z"}],
    "containerStatuses": [
        {
            "name": "c",
            "image": "nginx:1",
            "imageID": "",
            "ready": True,
            "restartCount": 1,
            "started": False,
            "state": {"running": {"startedAt": "2026-01-02T03:00:01Z"}},
            "lastState": {"terminated": {"exitCode": -1, "signal": 9, "finishedAt": "1969-12-31T23:59:59Z"}},
            "allocatedResources": {"cpu": "1500m", "memory": "1Gi"},
        }
    ],
}
FULL_POD = {
    "metadata": {
        "name": "full",
        "labels": {"b": "2", "a": "1", "empty": ""},
        "annotations": {"text": "é " * 100, "empty": ""},
        "finalizers": ["example.com/f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1", "controller": False}],
    },
    "spec": {
        "volumes": [
            {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1500Ki"}},
            {"name": "c", "configMap": {"name": "x", "items": [{"key": "a", "path": "b", "mode": 256}]}},
            {"name": "s", "secret": {"secretName": "y", "optional": False, "defaultMode": 0}},
            {
                "name": "p",
                "projected": {
                    "sources": [
                        {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}},
                        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
                    ]
                },
            },
        ],
        "initContainers": [{"name": "i", "image": "b", "restartPolicy": "Always", "command": ["", "a"]}],
        "containers": [
            {
                "name": "c",
                "image": "nginx:1",
                "env": [
                    {"name": "A", "value": ""},
                    {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "x", "key": "k", "optional": True}}},
                    {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
                ],
                "envFrom": [{"prefix": "P", "secretRef": {"name": "y"}}],
                "ports": [{"containerPort": 80, "name": "web"}],
                "resources": {"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": "100m"}},
                "livenessProbe": {"httpGet": {"port": "web", "httpHeaders": [{"name": "A", "value": "b"}]}},
                "readinessProbe": {"tcpSocket": {"port": 80}, "initialDelaySeconds": 5},
                "startupProbe": {"grpc": {"port": 1, "service": ""}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
                "securityContext": {"runAsUser": 0, "privileged": False, "capabilities": {"add": ["NET_ADMIN"]}},
                "stdin": True,
            }
        ],
        "securityContext": {
            "supplementalGroups": [1, 2147483647],
            "fsGroup": 0,
            "sysctls": [{"name": "a", "value": "b"}],
        },
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}}
                ]
            }
        },
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "tolerations": [{"operator": "Exists"}],
        "overhead": None,
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a", "b"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}, {"name": "x"}]},
        "terminationGracePeriodSeconds": 5,
        "serviceAccountName": "wire",
    },
}
LEASE = {
    "metadata": {"name": "micro"},
    "spec": {"holderIdentity": "", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:00:00.000123Z"},
}
NODE = {
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "2026-01-02T03:00:00Z"}]},
}
NODE_STATUS = {
    "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
    "nodeInfo": {"machineID": "m", "kubeletVersion": "v1.36.2"},
    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:00:00Z"}],
    "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
    "images": [{"names": ["a"], "sizeBytes": 9007199254740993}],
}
EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "namespace": "contract", "name": "a"},
    "type": "Normal",
    "reason": "A",
    "action": "a",
    "reportingComponent": "r",
    "reportingInstance": "i",
    "eventTime": "2026-01-02T03:00:00.500000Z",
    "series": {"count": 2, "lastObservedTime": "2026-01-02T03:00:01.000001Z"},
}
REVISION = {"metadata": {"name": "r"}, "revision": 3, "data": {"spec": {"a": [1, None, "x"], "b": {}}}}
SECRET = {"metadata": {"name": "s"}, "data": {"a": "AP8=", "b": ""}, "stringData": {"c": "é"}, "immutable": False}
REVIEW = {
    "spec": {"user": "u", "groups": ["g"], "extra": {"a": ["b", "c"], "d": []}, "resourceAttributes": {"verb": "get"}}
}


SERVICE = {
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"a": "b"},
        "clusterIP": "None",
        "ports": [
            {"name": "w", "port": 80, "targetPort": "web"},
            {"name": "n", "port": 81, "targetPort": 0, "protocol": "UDP"},
        ],
    },
}
SIGNING = {
    "metadata": {"name": "csr"},
    "spec": {
        "request": base64.b64encode(request_pem("web")).decode(),
        "signerName": "example.com/signer",
        "usages": ["client auth"],
        "expirationSeconds": 3600,
    },
}


class Posted(NamedTuple):
    """Object to create. `status` is written with a PUT afterwards."""

    path: str
    body: dict[str, Any]
    status: dict[str, Any] | None = None


HERE = f"/api/v1/namespaces/{play.NAMESPACE}"
APIS = f"namespaces/{play.NAMESPACE}"
# Objects that are stored, and read in both forms.
OBJECTS = {
    "a full pod": Posted(f"{HERE}/pods", FULL_POD, POD_STATUS),
    "a lease": Posted(f"/apis/coordination.k8s.io/v1/{APIS}/leases", LEASE),
    "a node": Posted("/api/v1/nodes", NODE, NODE_STATUS),
    "an event": Posted(f"{HERE}/events", EVENT),
    "a revision": Posted(f"/apis/apps/v1/{APIS}/controllerrevisions", REVISION),
    "a secret": Posted(f"{HERE}/secrets", SECRET),
    "a service": Posted(f"{HERE}/services", SERVICE),
    "a signing request": Posted("/apis/certificates.k8s.io/v1/certificatesigningrequests", SIGNING),
    "a definition": Posted("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
}
# Requests whose objects are not stored.
ANSWERED = {
    "a review": Posted("/apis/authorization.k8s.io/v1/subjectaccessreviews", REVIEW),
    "a token": Posted(f"{HERE}/serviceaccounts/wire/token", {"spec": {"expirationSeconds": 3600}}),
}
READ = {
    "a list": (f"{HERE}/pods", ""),
    "an empty list": (f"{HERE}/replicationcontrollers", ""),
    "a page": (f"{HERE}/pods?limit=1", ""),
    "metadata": (f"{HERE}/pods/full", f"{PARTIAL}v1"),
    "metadata beta": (f"{HERE}/pods/full", f"{PARTIAL}v1beta1"),
    "a list of metadata": (f"{HERE}/pods", f"{PARTIAL_LIST}v1"),
    "a list of metadata beta": (f"{HERE}/pods", f"{PARTIAL_LIST}v1beta1"),
    "metadata of a definition": ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{PARTIAL_LIST}v1"),
    "not found": (f"{HERE}/pods/none", ""),
    "a bad request": (f"{HERE}/pods?limit=x", ""),
    "a scale": (f"/apis/apps/v1/{APIS}/deployments/wire/scale", ""),
    "versions": ("/api", ""),
    "groups": ("/apis", ""),
    "a group": ("/apis/apps", ""),
    "resources": ("/apis/apps/v1", ""),
    "core resources": ("/api/v1", ""),
}
_WATCH = f"{HERE}/pods?watch=true&timeoutSeconds=1"
_WITH_INITIAL_EVENTS = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
WATCHED = {
    "a watch": (_WATCH, ""),
    "a watch of metadata": (_WATCH, f"{PARTIAL}v1"),
    "a watch with bookmarks": (f"{_WATCH}&{_WITH_INITIAL_EVENTS}", ""),
    "a watch from too long ago": (f"{_WATCH}&resourceVersion=1", ""),
}
DEPLOYMENT = {
    "metadata": {"name": "wire"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
        },
    },
}

Ask = Callable[[str, str, Any, str], tuple[bytes, str]]
"""Sends method, path, body and Accept header; returns the body and the content type of the response."""
Pair = tuple[Any, bytes]
"""An answer decoded from JSON (the list of events of a watch), and the same answer as protobuf."""


def responses(ask: Ask, tables: dict[str, dict[str, Kind]]) -> Iterator[tuple[str, Pair]]:
    """Yield name and response for the valid object of each kind in the tables, and for the requests above."""
    ask("POST", "/api/v1/namespaces", {"metadata": {"name": play.NAMESPACE}}, JSON)
    for table in tables.values():
        for name, kind in table.items():
            raw, _ = ask("POST", kind.collection, kind.good, JSON)
            stored = json.loads(raw)
            meta = stored.get("metadata") or {}
            if stored["kind"] == "Status" or "resourceVersion" not in meta:
                continue
            path = f"{kind.collection}/{meta['name']}"
            yield name, _both(ask, path)
            ask("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"}, JSON)
    for name, posted in OBJECTS.items():
        path = f"{posted.path}/{posted.body['metadata']['name']}"
        stored = json.loads(ask("POST", posted.path, posted.body, JSON)[0])
        assert stored["kind"] != "Status", stored
        if posted.status is not None:
            put = json.loads(ask("PUT", f"{path}/status", {**stored, "status": posted.status}, JSON)[0])
            assert put["kind"] != "Status", put
        yield name, _both(ask, path)
    ask("POST", f"{HERE}/serviceaccounts", {"metadata": {"name": "wire"}}, JSON)
    ask("POST", f"/apis/apps/v1/{APIS}/deployments", DEPLOYMENT, JSON)
    for name, (path, form) in READ.items():
        yield name, _both(ask, path, form)
    for name, posted in ANSWERED.items():
        raw, type_ = ask("POST", posted.path, posted.body, PROTOBUF)
        assert type_ == PROTOBUF, raw
        yield name, (None, raw)
    for name, (path, form) in WATCHED.items():
        yield name, _both(ask, path, form, type_=f"{PROTOBUF};stream=watch")


def _both(ask: Ask, path: str, form: str = "", *, type_: str = PROTOBUF) -> Pair:
    """Return both forms. The requests are repeated until the object did not change between the two."""
    while True:
        shown = ask("GET", path, None, JSON + form)[0]
        raw, found = ask("GET", path, None, PROTOBUF + form)
        assert found == type_, (found, raw)
        if ask("GET", path, None, JSON + form)[0] == shown:
            return [json.loads(line) for line in shown.splitlines()] if "watch" in type_ else json.loads(shown), raw


def frames(raw: bytes) -> Iterator[bytes]:
    """Yield the frames of a watch, each with its length prefix."""
    at = 0
    while at < len(raw):
        end = at + 4 + struct.unpack(">I", raw[at : at + 4])[0]
        yield raw[at:end]
        at = end


def recorded() -> dict[str, Pair]:
    found = json.loads(RESPONSES.read_text())
    return {name: (shown, base64.b64decode(raw)) for name, (shown, raw) in found.items()}


def real_response(api: Api, method: str, path: str, body: Any, accept: str) -> tuple[bytes, str]:
    headers = {"Authorization": f"Bearer {api.token}", "Accept": accept, "Content-Type": JSON}
    data = None if body is None else json.dumps(body, separators=(",", ":")).encode()
    request = Request(f"{api.url}{path}", headers=headers, data=data, method=method)
    try:
        with urlopen(request, context=api.tls) as response:
            return response.read(), response.headers["Content-Type"]
    except HTTPError as error:
        return error.read(), error.headers["Content-Type"]


def record(directory: Path, assets: Path) -> None:
    """Record the responses of a kube-apiserver, one per line: [JSON, protobuf in base64]."""
    rows = [
        f"{json.dumps(name)}:{json.dumps([shown, base64.b64encode(raw).decode()], separators=(',', ':'))}"
        for name, (shown, raw) in real_responses(directory, assets).items()
    ]
    RESPONSES.write_text("{" + ",\n".join(rows) + "}\n")


def real_responses(directory: Path, assets: Path) -> dict[str, Pair]:
    """Start a kube-apiserver and return its responses."""
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import real_server
    from tests.runtime.apiserver.contracts.kinds.tables import TABLES

    with real_server(directory, assets, *play.FLAGS) as server:
        api = Api(server.kubeconfig)

        def ask(method: str, path: str, body: Any, accept: str) -> tuple[bytes, str]:
            return real_response(api, method, path, body, accept)

        return dict(responses(ask, TABLES))
