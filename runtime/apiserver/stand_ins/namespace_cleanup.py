"""Stand-in for the namespace controller: deletes the objects of a deleted namespace, then the namespace.

Pods keep their grace period, so a namespace may stay Terminating for a while.

Source: kubernetes pkg/controller/namespace/deletion/namespaced_resources_deleter.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import decode_object, is_deleting, split_key
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.removal import BACKGROUND, DeleteOptions, delete_object, store
from kcm.runtime.apiserver.kinds.core.namespace import KUBERNETES_FINALIZER
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange

NAMESPACES = "namespaces"


class NamespaceCleanup:
    """Reaction to store changes that empties and removes terminating namespaces."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        namespaces = cluster.state.collection(NAMESPACES).records
        self._terminating = {name for name, record in namespaces.items() if cluster.is_deleting(record)}

    def react(self, change: StoreChange) -> None:
        if change.storage == NAMESPACES:
            if change.type == DELETED:
                self._terminating.discard(change.key)
            elif change.key not in self._terminating and is_deleting(decode_object(change.raw)):
                self._terminating.add(change.key)
                self._empty(change.key)
                self._finish(change.key)
        elif change.type == DELETED and self._terminating:
            namespace = split_key(change.key)[0]
            if namespace in self._terminating:
                self._finish(namespace)

    def undo(self, change: StoreChange) -> None:
        if change.storage == NAMESPACES:
            if change.previous and is_deleting(decode_object(change.previous)):
                self._terminating.add(change.key)
            else:
                self._terminating.discard(change.key)

    def _empty(self, namespace: str) -> None:
        state = self._cluster.state
        for definition in self._namespaced():
            for key in list(state.collection(definition.storage).keys(namespace)):
                if state.get(definition.storage, key) is not None:
                    delete_object(self._cluster, definition, key, DeleteOptions(propagation=BACKGROUND))

    def _finish(self, namespace: str) -> None:
        """Remove the finalizer of a namespace if it contains no objects."""
        state, definition = self._cluster.state, self._cluster.registry.of_storage(NAMESPACES)
        record = state.get(NAMESPACES, namespace)
        if definition is None or record is None:
            return
        if any(state.collection(definition.storage).keys(namespace) for definition in self._namespaced()):
            return
        obj = decode_object(record.raw)
        finalizers = obj["spec"].get("finalizers") or []
        if KUBERNETES_FINALIZER in finalizers:
            obj["spec"]["finalizers"] = [name for name in finalizers if name != KUBERNETES_FINALIZER]
            store(self._cluster, definition, namespace, obj)

    def _namespaced(self) -> list[ResourceDefinition]:
        return [definition for definition in self._cluster.registry if definition.namespaced and definition.is_stored]
