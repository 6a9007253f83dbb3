"""Loads manifests (--apply): applies each document on the server, like `kubectl apply --server-side`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct

from kcm.actors.command.run_setup import StartError
from kcm.protocols.objects import Object, encode_object, name_of, namespace_of
from kcm.protocols.resources import resource_path
from kcm.runtime.client.api import Request, Response
from kcm.runtime.process.go_yaml import YamlError, read_all
from kcm.runtime.process.yaml_texts import yaml_complaint

Ask = Callable[[Request], Response]
MANAGER = "kcm-apply"
LARGEST, MOST_EVENTS = 256 * 1024 * 1024, 50_000_000  # limits of a file; high, because the user trusts their own files


class ManifestError(StartError):
    """A manifest cannot be loaded. The text contains file, line and problem."""


class Manifest(Struct, frozen=True):
    """Object of a manifest. where: "FILE:LINE" of its document."""

    where: str
    obj: Object


def read_manifests(path: Path) -> list[Manifest]:
    """Return the objects of a YAML or JSON file, at least one; a List becomes its items. Raises ManifestError."""
    try:
        documents = list(_documents(path.read_text(encoding="utf-8")))
    except OSError as err:
        raise ManifestError(f"cannot read {path}: {err.strerror or err}") from err
    except (YamlError, UnicodeDecodeError) as err:
        raise ManifestError(yaml_complaint(path, err)) from err
    manifests = []
    for line, document in documents:
        where = f"{path}:{line}"
        manifests += [Manifest(where, obj) for obj in _objects(document, where)]
    if not manifests:
        raise ManifestError(f"{path} contains no objects")
    return manifests


def check_manifests(manifests: Iterable[Manifest]) -> None:
    """Check before the server starts that it can accept the objects, whatever it stores. Raises ManifestError."""
    from kcm.runtime.apiserver.process.object_validation import validation_error

    for manifest in manifests:
        why = validation_error(manifest.obj)
        if why:
            raise ManifestError(f"{manifest.where}: {why}")


def _documents(text: str) -> Iterator[tuple[int, Any]]:
    """Yield each document that is not empty, and the line in which it begins. Raises YamlError."""
    for document in read_all(text, largest=LARGEST, most_events=MOST_EVENTS):
        if document.value is not None:
            yield document.line, document.value


def _objects(document: Any, where: str) -> Iterator[Object]:
    if not isinstance(document, dict):
        raise ManifestError(f"{where}: an object is a map, got {type(document).__name__}")
    for field in ("apiVersion", "kind"):
        if not isinstance(document.get(field), str):
            raise ManifestError(f"{where}: {field} is missing")
    if document["kind"] == "List":
        items = document.get("items") or []
        if not isinstance(items, list):
            raise ManifestError(f"{where}: items is not a list")
        for item in items:
            yield from _objects(item, where)
        return
    meta = document.get("metadata")
    if not isinstance(meta, dict) or not meta.get("name"):
        raise ManifestError(f"{where}: metadata.name is missing")
    for field in ("name", "namespace"):
        if not isinstance(meta.get(field, ""), str):
            raise ManifestError(f"{where}: metadata.{field} is not a string: {meta[field]!r}")
    yield document


def apply(manifests: Iterable[Manifest], ask: Ask) -> list[str]:
    """Apply each object, and return their names ("replicationcontroller/nginx-server"). Raises ManifestError."""
    applied = []
    known: dict[str, list[Object]] = {}
    for manifest in manifests:
        where, obj = manifest.where, manifest.obj
        api_version, kind = obj["apiVersion"], obj["kind"]
        if api_version not in known:
            known[api_version] = _resources(ask, api_version)
        resource = next((r for r in known[api_version] if r["kind"] == kind and "/" not in r["name"]), None)
        if resource is None:
            raise ManifestError(f'{where}: no matches for kind "{kind}" in version "{api_version}"')
        namespace = (namespace_of(obj) or "default") if resource["namespaced"] else ""
        path = resource_path(f"{api_version}/{resource['name']}", namespace, name_of(obj))
        response = ask(
            Request(
                method="PATCH",
                path=path,
                query={"fieldManager": MANAGER, "force": "true"},
                body=encode_object(obj),
                content_type="application/apply-patch+yaml",
            )
        )
        if not 200 <= response.status < 300:
            raise ManifestError(f"{where}: {kind} {name_of(obj)}: {_complaint(response)}")
        applied.append(f"{kind.lower()}/{name_of(obj)}")
    return applied


def _resources(ask: Ask, api_version: str) -> list[Object]:
    """Return the resources of a group version by discovery; empty if it is not served."""
    root = "apis" if "/" in api_version else "api"
    response = ask(Request(method="GET", path=f"/{root}/{api_version}"))
    if response.status != 200:
        return []
    resources: list[Object] = orjson.loads(response.body).get("resources") or []
    return resources


def _complaint(response: Response) -> str:
    try:
        message = orjson.loads(response.body).get("message")
    except (orjson.JSONDecodeError, AttributeError):
        message = None
    return str(message or response.error or f"the server returned status {response.status}")
