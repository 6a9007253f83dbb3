"""CustomResourceDefinitions: a stored one is served as a resource, a deleted one takes its objects with it.

First cut: schemas are neither checked nor used for pruning or defaults, and versions differ by their apiVersion only.

Source: apiextensions-apiserver pkg/controller/{status,establish,finalizer} and pkg/registry/customresource (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocols.objects import Object, decode_object
from runtime.apiserver.core.cluster import Cluster
from runtime.apiserver.errors.status_errors import no_such_path
from runtime.apiserver.registry.definitions import ResourceDefinition, Strategy
from runtime.apiserver.storage.store import DELETED, Change
from runtime.apiserver.storage.watches import WatchCache

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomResources:
    """Keeps the registry in step with the stored CustomResourceDefinitions."""

    def __init__(self, cluster: Cluster, cache: WatchCache) -> None:
        self._cluster, self._cache = cluster, cache
        self._served: dict[str, list[ResourceDefinition]] = {}  # by the definition's name
        for name, record in cluster.state.collection(DEFINITIONS).records.items():
            self._serve(name, decode_object(record.raw))

    def react(self, change: Change) -> None:
        if change.storage != DEFINITIONS:
            return
        if change.type == DELETED:
            self._withdraw(change.key)
        else:
            definition = decode_object(change.raw)
            self._serve(change.key, definition)
            self._establish(change.key, definition)

    def _serve(self, name: str, definition: Object) -> None:
        served = definitions_in(definition)
        kept = {(one.group, one.version, one.plural) for one in served}
        for one in self._served.get(name, ()):
            if (one.group, one.version, one.plural) not in kept:
                self._cluster.registry.remove(one)
        for one in served:
            self._cluster.registry.add(one)
        self._served[name] = served

    def _withdraw(self, name: str) -> None:
        state = self._cluster.state
        for one in self._served.pop(name, ()):
            if one.from_storage is None:
                for key, record in list(state.collection(one.storage).records.items()):
                    state.remove(one.storage, key, decode_object(record.raw))
                state.when_durable(self._ending_watches(one.storage))
            self._cluster.registry.remove(one)

    def _ending_watches(self, storage: str) -> Callable[[], None]:
        def end() -> None:
            for watch in self._cache.watches_of(storage):
                watch.fail(no_such_path())

        return end

    def _establish(self, name: str, definition: Object) -> None:
        """Say in its status that it is served. Does nothing the second time."""
        spec, status = definition["spec"], definition.get("status") or {}
        stored = [version["name"] for version in spec["versions"] if version.get("storage")]
        wanted = {
            "acceptedNames": spec["names"],
            "storedVersions": list(dict.fromkeys([*status.get("storedVersions", ()), *stored])),
        }
        if all(status.get(field) == value for field, value in wanted.items()):
            return
        now = self._cluster.timestamp()
        definition["status"] = wanted | {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
            ]
        }
        self._cluster.state.put(DEFINITIONS, name, definition)


def definitions_in(definition: Object) -> list[ResourceDefinition]:
    """What a CustomResourceDefinition has served: a ResourceDefinition for each of its served versions."""
    spec, names = definition["spec"], definition["spec"]["names"]
    served = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        has_status = "status" in (version.get("subresources") or {})
        stored = version.get("storage")
        stored_version = next((one["name"] for one in spec["versions"] if one.get("storage")), version["name"])
        served.append(
            ResourceDefinition(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                kind=names["kind"],
                singular=names.get("singular", ""),
                list_kind=names.get("listKind", ""),
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                namespaced=spec["scope"] == "Namespaced",
                subresources=("status",) if has_status else (),
                to_storage=None if stored else _as_version(f"{spec['group']}/{stored_version}"),
                from_storage=None if stored else _as_version(f"{spec['group']}/{version['name']}"),
                strategy=Strategy(
                    has_status=has_status,
                    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
                    generation=True,
                    unconditional_update=False,
                ),
                dynamic=True,
            )
        )
    return served


def _as_version(api_version: str) -> Callable[[Object], Object]:
    return lambda obj: {**obj, "apiVersion": api_version}


def _condition(type_: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
