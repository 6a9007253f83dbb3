"""OpenAPI v2 document of kube-apiserver 1.36 with its default flags and one custom resource.

The document has four million characters. A hash of each definition and operation is recorded, without descriptions and
enumerations.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kcm.runtime.apiserver.http.openapi_v2 import PROTOBUF
from tests.runtime.apiserver.contracts.protobuf import DEFINITION, JSON, real_response

RESPONSES = Path(__file__).with_name("responses") / "openapi_v2.json"

MORE: dict[str, Any] = {
    "one": {"type": "object", "properties": {"a": {"type": "string"}}, "oneOf": [{"required": ["a"]}]},
    "nothing": {"type": "string", "nullable": True, "format": "date-time"},
    "objects": {
        "type": "array",
        "items": {"type": "object", "properties": {"k": {"type": "string", "default": "a"}}, "required": ["k"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    },
    "whole": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"spec": {"type": "object"}}},
    "loosely": {
        "type": "object",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
    "lists": {"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
    "needs": {
        "type": "object",
        "required": ["a", "b"],
        "properties": {"a": {"type": "string", "nullable": True}, "b": {"type": "array", "items": {"type": "string"}}},
    },
}


def definition() -> dict[str, Any]:
    """Return the definition of the custom resource."""
    copied: dict[str, Any] = json.loads(json.dumps(DEFINITION))
    schema = copied["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"] |= MORE
    return copied


def parts(document: dict[str, Any]) -> dict[str, Any]:
    """Return each definition and operation in a form that is the same for documents with the same meaning."""
    found = {f"definition {name}": _plain(schema) for name, schema in document["definitions"].items()}
    found |= {f"{method} {path}": operation for path, method, operation in _operations(document)}
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if not isinstance(value, dict):
        return value
    shown = {}
    for word, inner in value.items():
        if word == "properties":
            shown[word] = {name: _plain(schema) for name, schema in inner.items()}
        elif word == "required" and isinstance(inner, list):
            shown[word] = sorted(inner)
        elif word not in ("description", "enum") or not isinstance(inner, str | list):
            shown[word] = _plain(inner)
    return shown


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for path, item in document["paths"].items():
        shared = item.get("parameters", [])
        for method, operation in item.items():
            if method != "parameters":
                own = [_resolved(document, found) for found in [*shared, *operation.get("parameters", ())]]
                rest = {word: value for word, value in operation.items() if word != "description"}
                yield path, method, {**rest, "parameters": sorted(own, key=lambda found: (found["in"], found["name"]))}


def _resolved(document: dict[str, Any], parameter: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in parameter:
        parameter = document["parameters"][parameter["$ref"].rpartition("/")[2]]
    return {word: value for word, value in parameter.items() if word != "description"}


def hashed(part: Any) -> str:
    return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:12]


def recorded() -> dict[str, str]:
    found: dict[str, str] = json.loads(RESPONSES.read_text())
    return found


def real_document(directory: Path, assets: Path) -> tuple[dict[str, Any], bytes]:
    """Return the document of a kube-apiserver that is started for it, as JSON and as protobuf."""
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import real_server

    with real_server(directory, assets) as server:
        api = Api(server.kubeconfig)
        real_response(api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(), JSON)
        while True:
            document = json.loads(real_response(api, "GET", "/openapi/v2", None, JSON)[0])
            if "com.example.wire.v1.Widget" in document["definitions"]:
                return document, real_response(api, "GET", "/openapi/v2", None, PROTOBUF)[0]
            time.sleep(0.5)


def record(directory: Path, assets: Path) -> None:
    """Record the hashes of the parts of a kube-apiserver's document."""
    document, _ = real_document(directory, assets)
    hashes = {name: hashed(part) for name, part in parts(document).items()}
    RESPONSES.write_text(json.dumps(hashes, indent=0, sort_keys=True) + "\n")
