"""Serves what CustomResourceDefinitions declare: a stored one adds its resources, a deleted one removes its objects.

Source: apiextensions-apiserver pkg/controller/{status,establish,finalizer} (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from protocols.objects import Object, decode_object
from runtime.apiserver.core.cluster import Cluster
from runtime.apiserver.errors.status_errors import no_such_path
from runtime.apiserver.kinds.custom import definitions_in
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.storage.store import DELETED, Change
from runtime.apiserver.storage.watches import WatchCache

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomResources:
    """Keeps the registry in step with the stored CustomResourceDefinitions."""

    def __init__(self, cluster: Cluster, cache: WatchCache) -> None:
        self._cluster, self._cache = cluster, cache
        self._served: dict[str, list[ResourceDefinition]] = {}  # by the name of the CustomResourceDefinition
        for name, record in cluster.state.collection(DEFINITIONS).records.items():
            self._serve(name, decode_object(record.raw))

    def react(self, change: Change) -> None:
        if change.storage != DEFINITIONS:
            return
        if change.type == DELETED:
            self._withdraw(change.key)
        else:
            stored = decode_object(change.raw)
            self._serve(change.key, stored)
            self._establish(change.key, stored)

    def undo(self, change: Change) -> None:
        if change.storage == DEFINITIONS:
            if change.previous:
                self._serve(change.key, decode_object(change.previous))
            else:
                for one in self._served.pop(change.key, ()):
                    self._cluster.registry.remove(one)

    def _serve(self, name: str, stored: Object) -> None:
        definitions = definitions_in(stored)
        kept = {(one.group, one.version, one.plural) for one in definitions}
        for one in self._served.get(name, ()):
            if (one.group, one.version, one.plural) not in kept:
                self._cluster.registry.remove(one)
        for one in definitions:
            self._cluster.registry.add(one)
        self._served[name] = definitions

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

    def _establish(self, name: str, stored: Object) -> None:
        """Set its status: names accepted, established. The second call writes nothing."""
        spec, status = stored["spec"], stored.get("status") or {}
        storage_versions = [version["name"] for version in spec["versions"] if version.get("storage")]
        established = {
            "acceptedNames": spec["names"],
            "storedVersions": list(dict.fromkeys([*status.get("storedVersions", ()), *storage_versions])),
        }
        if all(status.get(field) == value for field, value in established.items()):
            return
        now = self._cluster.timestamp()
        stored["status"] = established | {
            "conditions": [
                _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
                _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
            ]
        }
        self._cluster.state.put(DEFINITIONS, name, stored)


def _condition(type_: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": type_, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message}
