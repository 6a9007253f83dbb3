"""Discovery documents, group by group, of kube-apiserver 1.36 with its default flags."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

RESPONSES = Path(__file__).with_name("responses") / "discovery.json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Get = Callable[[str, str], dict[str, Any]]
"""Returns a document by its path and the Accept header."""


def documents(get: Get) -> dict[str, Any]:
    """Return all discovery documents, with their resources by name."""
    groups = get("/apis", "application/json")
    versions = [version["groupVersion"] for group in groups["groups"] for version in group["versions"]]
    found: dict[str, Any] = {"/apis": groups}
    for path in ["/api/v1", *(f"/apis/{version}" for version in versions)]:
        document = get(path, "application/json")
        found[path] = {**document, "resources": _by_name(document["resources"])}
    for path in ("/api", "/apis"):
        items = get(path, AGGREGATED)["items"]
        found[f"{path} aggregated"] = [
            {"metadata": item["metadata"], "versions": [_version(version) for version in item["versions"]]}
            for item in items
        ]
    return found


def _by_name(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return {resource["name"]: _without(resource, "name") for resource in resources}


def _version(version: dict[str, Any]) -> dict[str, Any]:
    resources = {
        resource["resource"]: {**_without(resource, "resource"), "subresources": _subresources(resource)}
        for resource in version["resources"]
    }
    return {**version, "resources": resources}


def _subresources(resource: dict[str, Any]) -> dict[str, Any]:
    return {
        subresource["subresource"]: _without(subresource, "subresource")
        for subresource in resource.get("subresources", ())
    }


def _without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def record(directory: Path, assets: Path) -> None:
    """Record the documents of a kube-apiserver."""
    RESPONSES.write_text(json.dumps(real_documents(directory, assets), indent=1, sort_keys=True) + "\n")


def real_documents(directory: Path, assets: Path) -> dict[str, Any]:
    """Return the documents of a kube-apiserver that is started for it."""
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import real_server

    with real_server(directory, assets) as server:
        api = Api(server.kubeconfig)

        def get(path: str, accept: str) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {api.token}", "Accept": accept}
            with urlopen(Request(f"{api.url}{path}", headers=headers), context=api.tls) as response:
                answer: dict[str, Any] = json.load(response)
                return answer

        return documents(get)
