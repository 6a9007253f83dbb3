"""What discovery shows, group by group: ours and that of kube-apiserver 1.36 with its default flags.

The real one's documents are kept in discovery_answers.json. To record them anew, with the binaries that
KUBEBUILDER_ASSETS names:

    python -m tests.runtime.apiserver.discovery_contract
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

ANSWERS = Path(__file__).with_name("discovery_answers.json")
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

Get = Callable[[str, str], dict[str, Any]]
"""A document by its path and the Accept header."""


def documents(get: Get) -> dict[str, Any]:
    """All discovery documents; resources by name."""
    groups = get("/apis", "application/json")
    versions = [one["groupVersion"] for group in groups["groups"] for one in group["versions"]]
    found: dict[str, Any] = {"/apis": groups}
    for path in ["/api/v1", *(f"/apis/{version}" for version in versions)]:
        document = get(path, "application/json")
        found[path] = {**document, "resources": _by_name(document["resources"])}
    for path in ("/api", "/apis"):
        items = get(path, AGGREGATED)["items"]
        found[f"{path} aggregated"] = [
            {"metadata": item["metadata"], "versions": [_version(one) for one in item["versions"]]} for item in items
        ]
    return found


def _by_name(resources: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["name"]: _without(one, "name") for one in resources}


def _version(version: dict[str, Any]) -> dict[str, Any]:
    resources = {
        one["resource"]: {**_without(one, "resource"), "subresources": _subresources(one)}
        for one in version["resources"]
    }
    return {**version, "resources": resources}


def _subresources(resource: dict[str, Any]) -> dict[str, Any]:
    return {one["subresource"]: _without(one, "subresource") for one in resource.get("subresources", ())}


def _without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def record() -> None:
    from tests.e2e.kubectl import Api
    from tests.e2e.real_server import binaries, real_server

    assets = binaries()
    assert assets is not None, "KUBEBUILDER_ASSETS names the directory with kube-apiserver and etcd"
    with tempfile.TemporaryDirectory() as directory, real_server(Path(directory), assets) as server:
        api = Api(server.kubeconfig)

        def get(path: str, accept: str) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {api.token}", "Accept": accept}
            with urlopen(Request(f"{api.url}{path}", headers=headers), context=api.tls) as response:
                answer: dict[str, Any] = json.load(response)
                return answer

        ANSWERS.write_text(json.dumps(documents(get), indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record()
