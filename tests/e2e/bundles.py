"""Published manifests, sent object by object to the embedded server and, if available, to a kube-apiserver.

    python -m tests.e2e.bundles DIRECTORY --write

DIRECTORY has a directory OWNER+NAME with the listed files of each repository in BUNDLES. bundle_answers.json contains
the names of the objects and the responses to them; --write records it again from the responses of the real server.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import urllib.error
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from kcm.runtime.apiserver.process.launch import launch
from kcm.runtime.apiserver.process.settings import ServerSettings
from tests.e2e.kubectl import Api
from tests.e2e.programs import until
from tests.e2e.real_server import binaries, real_server

ANSWERS = Path(__file__).with_name("bundle_answers.json")
BUNDLES = {
    "cert-manager+cert-manager": ("deploy/crds/*.yaml",),
    "kubernetes+ingress-nginx": ("deploy/static/provider/**/deploy.yaml",),
    "argoproj+argo-cd": ("manifests/install.yaml", "manifests/ha/install.yaml"),
    "prometheus-operator+prometheus-operator": ("example/prometheus-operator-crd/*.yaml", "example/**/*.yaml"),
    "kubernetes-sigs+gateway-api": ("config/crd/standard/*.yaml", "config/crd/experimental/*.yaml"),
    "kubernetes+examples": ("**/*.yaml",),
}
CREATED, THERE, UNREADABLE = "created", "already exists", "no object"

Object = dict[str, Any]
Answers = dict[str, dict[str, str]]  # bundle → "file kind/name" → response


def objects_of(directory: Path, patterns: tuple[str, ...]) -> Iterator[tuple[str, Object]]:
    """Yield each object with its file: definitions first, since they add kinds, and webhooks last."""
    files = dict.fromkeys(file for pattern in patterns for file in sorted(directory.glob(pattern)))
    found: list[tuple[str, Object]] = []
    for file in files:
        try:
            documents = list(yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader))
        except (yaml.YAMLError, UnicodeDecodeError):
            continue  # a template
        for document in documents:
            items = (
                document.get("items") if isinstance(document, dict) and document.get("kind") == "List" else [document]
            )
            found += [(str(file.relative_to(directory)), item) for item in items or () if is_object(item)]
    rank = {"Namespace": 0, "CustomResourceDefinition": 1}
    found.sort(key=lambda entry: rank.get(entry[1]["kind"], 9 if "WebhookConfiguration" in entry[1]["kind"] else 5))
    yield from found


def is_object(item: Any) -> bool:
    return isinstance(item, dict) and bool(item.get("kind") and item.get("apiVersion"))


class Target:
    """A server, and the kinds that it serves."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._served: dict[str, dict[str, Object]] = {}

    def answer(self, obj: Object) -> str:
        """Return the answer to a creation by kubectl: CREATED, or reason and message."""
        meta = obj.get("metadata") or {}
        served = self._kind(obj["apiVersion"], obj["kind"])
        if served is None:
            return f"no kind {obj['kind']} in {obj['apiVersion']}"
        root = f"/apis/{obj['apiVersion']}" if "/" in obj["apiVersion"] else f"/api/{obj['apiVersion']}"
        if served["namespaced"]:
            namespace = meta.get("namespace", "default")
            self._ensure_namespace(namespace)
            root += f"/namespaces/{namespace}"
        path = f"{root}/{served['name']}"
        body = json.loads(json.dumps(obj, default=str))
        try:
            self._api.request("POST", f"{path}?fieldManager=kubectl-create&fieldValidation=Strict", body)
        except urllib.error.HTTPError as err:
            with err:
                status = json.load(err)
            return THERE if status.get("reason") == "AlreadyExists" else f"{status.get('reason')}: {status['message']}"
        if obj["kind"] == "CustomResourceDefinition":
            self._await_definition(obj)
        if "WebhookConfiguration" in obj["kind"]:  # its service does not exist
            self._api.request("DELETE", f"{path}/{meta['name']}")
        return CREATED

    def _kind(self, api_version: str, kind: str) -> Object | None:
        found = self._served.get(api_version)
        if found is None:
            root = "/apis/" if "/" in api_version else "/api/"
            try:
                listed = self._api.get(root + api_version)["resources"]
            except urllib.error.HTTPError as err:
                err.close()
                return None
            found = self._served[api_version] = {
                listed_kind["kind"]: listed_kind for listed_kind in listed if "/" not in listed_kind["name"]
            }
        return found.get(kind)

    def _await_definition(self, obj: Object) -> None:
        spec = obj["spec"]
        for version in spec["versions"]:
            api_version = f"{spec['group']}/{version['name']}"
            if version["served"]:

                def is_served(api_version: str = api_version) -> bool:
                    self._served.pop(api_version, None)
                    return self._kind(api_version, spec["names"]["kind"]) is not None

                until(is_served, f"{api_version} {spec['names']['kind']} is served")

    def _ensure_namespace(self, name: str) -> None:
        try:
            self._api.request("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
        except urllib.error.HTTPError as err:
            err.close()


def answers(api: Api, directory: Path) -> Answers:
    target, found = Target(api), Answers()
    for bundle, patterns in BUNDLES.items():
        of_bundle = found[bundle] = {}
        for file, obj in objects_of(directory / bundle, patterns):
            key = f"{file} {obj['kind']}/{(obj.get('metadata') or {}).get('name', '')}"
            of_bundle[key] = target.answer(obj)
    return found


def of_embedded(directory: Path, where: Path) -> Answers:
    server = launch(ServerSettings(directory=where / "kcm", in_memory=True, quiet=True))
    try:
        return answers(Api(server.kubeconfig), directory)
    finally:
        server.stop()


def of_real(directory: Path, where: Path, assets: Path) -> Answers:
    (where / "real").mkdir()
    with real_server(where / "real", assets, "--allow-privileged=true") as server:
        return answers(Api(server.kubeconfig), directory)


def differences(embedded: Answers, real: Answers) -> list[str]:
    return [
        f"{bundle} {key}:\n  real:     {answer}\n  embedded: {embedded[bundle].get(key)}"
        for bundle, expected in real.items()
        for key, answer in expected.items()
        if embedded.get(bundle, {}).get(key) != answer
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description="Send what others publish to the embedded and to a real server.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--write", action="store_true", help=f"the real server's answers into {ANSWERS.name}")
    arguments = parser.parse_args()
    assets = binaries()
    with tempfile.TemporaryDirectory() as where:
        embedded = of_embedded(arguments.directory, Path(where))
        real = (
            of_real(arguments.directory, Path(where), assets) if assets is not None else json.loads(ANSWERS.read_text())
        )
    for bundle, of_bundle in real.items():
        print(
            bundle, dict(Counter(answer if answer in (CREATED, THERE) else "refused" for answer in of_bundle.values()))
        )
    found = differences(embedded, real)
    print("\n".join(found) or "No difference.")
    if arguments.write and assets is not None:
        ANSWERS.write_text(json.dumps(real, indent=1, sort_keys=True) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
