"""Registration of the resources that CustomResourceDefinitions declare, and removal of their objects.

Source: apiextensions-apiserver pkg/controller/{status,establish,finalizer} (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kcm.protocols.errors import aggregate
from kcm.protocols.objects import Object, decode_object
from kcm.runtime.apiserver.apiextensions.custom_kinds import definitions_in
from kcm.runtime.apiserver.core.cluster import Cluster
from kcm.runtime.apiserver.core.conversion import converter_of
from kcm.runtime.apiserver.core.removal import DeleteOptions, delete_object
from kcm.runtime.apiserver.core.suspended_requests import OutsideAccess
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.kinds.apiextensions.custom_resource_definition import CLEANUP
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.storage.store import DELETED, StoreChange
from kcm.runtime.apiserver.storage.watches import WatchCache

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class CustomResources:
    """Reaction (see cluster.py) to changes of CustomResourceDefinitions: adds their resources to the registry.

    A CustomResourceDefinition is not served while another resource of its group has one of its names. When it is
    deleted, its objects are deleted first.
    """

    def __init__(self, cluster: Cluster, cache: WatchCache, outside_access: OutsideAccess) -> None:
        self._cluster, self._cache, self._outside_access = cluster, cache, outside_access
        # By the name of the CustomResourceDefinition, which is also the storage of its objects.
        self._served: dict[str, list[ResourceDefinition]] = {}
        self._specs: dict[str, Object] = {}  # specs of the definitions whose names are accepted, by name
        self._terminating: dict[str, str] = {}  # storage → name of the definition, for definitions being deleted
        self._serve_all()

    def react(self, change: StoreChange) -> None:
        if change.storage != DEFINITIONS:
            if change.type == DELETED and change.storage in self._terminating:
                self._finish(self._terminating[change.storage])
            return
        stored = decode_object(change.raw)
        if change.type == DELETED:
            self._unregister(change.key)
            self._serve_waiting(stored["spec"]["group"])
        else:
            self._establish(change.key, stored, self._serve(change.key, stored))
            if CLEANUP in (stored["metadata"].get("finalizers") or ()) and "deletionTimestamp" in stored["metadata"]:
                self._terminate(change.key)

    def _terminate(self, name: str) -> None:
        """Delete all objects of a definition that is being deleted, and remove its finalizer if none are left."""
        for definition in self._served.get(name, ()):
            if definition.is_stored and definition.storage not in self._terminating:
                self._terminating[definition.storage] = name
                for key in list(self._cluster.state.collection(definition.storage).records):
                    delete_object(self._cluster, definition, key, DeleteOptions())
        self._finish(name)

    def _finish(self, name: str) -> None:
        """Remove the cleanup finalizer of a definition once it has no objects left."""
        record = self._cluster.state.get(DEFINITIONS, name)
        if record is None or any(
            definition.is_stored and self._cluster.state.collection(definition.storage).records
            for definition in self._served.get(name, ())
        ):
            return
        stored = decode_object(record.raw)
        finalizers = [finalizer for finalizer in stored["metadata"].get("finalizers") or () if finalizer != CLEANUP]
        if not finalizers:
            self._cluster.state.remove(DEFINITIONS, name, stored)
        elif CLEANUP in stored["metadata"]["finalizers"]:
            stored["metadata"]["finalizers"] = finalizers
            self._cluster.state.put(DEFINITIONS, name, stored)

    def undo(self, change: StoreChange) -> None:
        if change.storage == DEFINITIONS:
            for definitions in self._served.values():
                self._remove(definitions)
            self._served.clear()
            self._specs.clear()
            self._terminating.clear()
            self._serve_all()

    def _serve_all(self) -> None:
        records = self._cluster.state.collection(DEFINITIONS).records
        stored = {name: decode_object(record.raw) for name, record in records.items()}
        for name in sorted(stored, key=lambda name: not _is_established(stored[name])):
            self._serve(name, stored[name])
            if "deletionTimestamp" in stored[name]["metadata"]:
                self._terminating |= {
                    definition.storage: name for definition in self._served.get(name, ()) if definition.is_stored
                }

    def _serve_waiting(self, group: str) -> None:
        """Serve the CustomResourceDefinitions of a group whose names another resource had until now."""
        for name, record in list(self._cluster.state.collection(DEFINITIONS).records.items()):
            stored = decode_object(record.raw)
            if stored["spec"]["group"] == group and name not in self._served:
                self._establish(name, stored, self._serve(name, stored))

    def _serve(self, name: str, stored: Object) -> _Conflict | None:
        """Register the versions that a definition declares. Returns a conflict if another resource has its names.

        After a conflict, the versions registered before remain. As upstream, any change of the spec ends the watches of
        its objects.
        """
        served, spec = self._served.get(name, []), stored["spec"]
        conflict = _conflict(spec, self._others(spec["group"], served))
        if conflict is None:
            if self._specs.setdefault(name, spec) != spec:
                self._cluster.state.when_durable(self._ending_watches(served))
            self._specs[name] = spec
            self._remove(served)
            self._served[name] = definitions_in(stored, converter_of(stored, self._cluster, self._outside_access))
            for definition in self._served[name]:
                self._cluster.registry.add(definition)
        return conflict

    def _others(self, group: str, served: list[ResourceDefinition]) -> list[ResourceDefinition]:
        mine = {id(definition) for definition in served}
        return [
            definition
            for definition in self._cluster.registry
            if definition.group == group and id(definition) not in mine
        ]

    def _remove(self, definitions: list[ResourceDefinition]) -> None:
        for definition in definitions:
            self._cluster.registry.remove(definition)

    def _unregister(self, name: str) -> None:
        state = self._cluster.state
        served = self._served.pop(name, [])
        state.when_durable(self._ending_watches(served))
        self._terminating.pop(name, None)
        if self._specs.pop(name, None) is not None:  # else the names belong to another resource
            # Objects are left if no version was served, or if they were created during the deletion.
            for key, record in list(state.collection(name).records.items()):
                state.remove(name, key, decode_object(record.raw))
        self._remove(served)

    def _ending_watches(self, definitions: list[ResourceDefinition]) -> Callable[[], None]:
        """Return a function that ends all watches of the definitions' objects.

        The function is called when the current commit is durable. By then, the watches have received all its events.
        """

        def end() -> None:
            for storage in {definition.storage for definition in definitions}:
                for watch in self._cache.watches_of(storage):
                    watch.end()

        return end

    def _establish(self, name: str, stored: Object, conflict: _Conflict | None) -> None:
        """Write the status of a definition: whether its names are accepted, and whether it is served.

        Writes nothing if only times would change.
        """
        spec, status = stored["spec"], stored.get("status") or {}
        storage_versions = [version["name"] for version in spec["versions"] if version.get("storage")]
        now = self._cluster.timestamp()
        if conflict is None:
            accepted = spec["names"]
            names_accepted = _condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        else:
            accepted = status.get("acceptedNames") or {"plural": "", "kind": ""}
            names_accepted = _condition("NamesAccepted", "False", conflict.reason, conflict.message, now)
        if name in self._served:
            reason, message = "InitialNamesAccepted", "the initial names have been accepted"
            established = _condition("Established", "True", reason, message, now)
        else:
            established = _condition("Established", "False", "NotAccepted", "not all names are accepted", now)
        wanted = {
            "acceptedNames": accepted,
            "storedVersions": list(dict.fromkeys([*status.get("storedVersions", ()), *storage_versions])),
            "conditions": [names_accepted, established],
        }
        if "deletionTimestamp" in stored["metadata"]:
            message = "CustomResource deletion is in progress"
            wanted["conditions"].append(_condition("Terminating", "True", "InstanceDeletionInProgress", message, now))
        if _without_times(wanted) != _without_times(status):
            stored["status"] = wanted
            self._cluster.state.put(DEFINITIONS, name, stored)


class _Conflict(NamedTuple):
    """Name conflict: reason and message of the condition NamesAccepted=False."""

    reason: str
    message: str


def _conflict(spec: Object, others: list[ResourceDefinition]) -> _Conflict | None:
    """Return the conflict of a definition's names with the other resources of its group; None if there is none.

    If several names conflict, the last one is returned, in the order of upstream's naming controller.
    """
    names = spec["names"]
    resources = {
        word for definition in others for word in (definition.plural, definition.singular, *definition.short_names)
    }
    kinds = {word for definition in others for word in (definition.kind, definition.list_kind)}
    found = None
    for field, asked, taken in (
        ("Plural", [names["plural"]], resources),
        ("Singular", [names.get("singular")], resources),
        ("ShortNames", names.get("shortNames") or [], resources),
        ("Kind", [names["kind"]], kinds),
        ("ListKind", [names.get("listKind")], kinds),
    ):
        in_use = [f"{quoted(word)} is already in use" for word in asked if word and word in taken]
        if in_use:
            found = _Conflict(f"{field}Conflict", aggregate(in_use))
    return found


def _is_established(stored: Object) -> bool:
    conditions = (stored.get("status") or {}).get("conditions") or ()
    return any(condition.get("type") == "Established" and condition.get("status") == "True" for condition in conditions)


def _without_times(status: Object) -> Object:
    """Return the part of a status that this module sets, without transition times."""
    ours = {"acceptedNames": status.get("acceptedNames"), "storedVersions": status.get("storedVersions")}
    types = ("NamesAccepted", "Established", "Terminating")
    known = [condition for condition in status.get("conditions") or () if condition.get("type") in types]
    return ours | {"conditions": [{**condition, "lastTransitionTime": ""} for condition in known]}


def _condition(type_: str, status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {"type": type_, "status": status, "lastTransitionTime": now, "reason": reason, "message": message}
