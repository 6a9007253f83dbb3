"""Definitions of the resources that the server serves, and their registry."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import force_setattr

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.derived import Derived
from kcm.runtime.apiserver.registry.printers import NAME_AND_CREATION_TIME, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_STORED_ONLY = Strategy()


class ResourceDefinition(Struct, frozen=True, kw_only=True):
    """One resource in one version: its discovery information, the behavior of its objects, and its table columns.

    The handlers of verbs process built-in objects in their stored form (see to_storage), and custom objects in the
    version of the request (see decode).
    """

    group: str = ""  # "" for core
    version: str = "v1"
    plural: str  # name of the resource in paths
    kind: str
    singular: str = ""  # "" for the kind in lower case
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()  # "status", "scale", "binding"

    # Name under which State keeps the objects; "" for `name`. All versions of a resource have the same storage.
    storage: str = ""
    # Convert an object of this version to the stored form and back; return new objects.
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    strategy: Strategy = _STORED_ONLY
    printer: Printer = NAME_AND_CREATION_TIME

    dynamic: bool = False  # defined by a CustomResourceDefinition
    schema: Mapping[str, Any] | None = None  # OpenAPI v3
    # Prunes and defaults an object from a client, in place, and adds the paths of pruned fields to the list. Raises
    # UnmarshalTypeError.
    settle: Callable[[Object, list[str] | None], None] | None = None
    # Convert stored custom objects to this version (all at once), and one object to the stored version; from_storage
    # converts an object of any version to this one. None if no conversion is needed. All raise StatusError, and
    # Unanswered if asks_outside.
    decode: Callable[[list[Object]], list[Object]] | None = None
    encode: Callable[[Object], Object] | None = None
    asks_outside: bool = False
    leads: bool = True  # whether this version, of several versions, is the stored one

    derived: Derived | None = None  # set if objects are computed when they are read, instead of stored
    deprecation: str = ""  # warning in responses to clients
    unserved: tuple[ResourceDefinition, ...] = ()  # versions of this resource that are defined but not served

    def __post_init__(self) -> None:
        force_setattr(self, "singular", self.singular or self.kind.lower())
        force_setattr(self, "list_kind", self.list_kind or f"{self.kind}List")
        force_setattr(self, "storage", self.storage or self.name)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_group(self) -> str:
        """Group of the stored form. Errors name this group, regardless of the version of the request."""
        return self.storage.partition(".")[2]

    @property
    def is_stored(self) -> bool:
        """Report whether objects are stored in this version."""
        return self.to_storage is None and self.leads

    def shown(self, stored: Object) -> Object:
        """Convert a stored object to this version. Raises StatusError, Unanswered."""
        if self.decode is not None:
            return self.decode([stored])[0]
        return stored if self.from_storage is None or self.dynamic else self.from_storage(stored)

    @property
    def shows_what_is_stored(self) -> bool:
        return self.decode is None and (self.from_storage is None or self.dynamic)

    @property
    def name(self) -> str:
        """Name of the resource with its group: "pods", "replicasets.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Registry:
    """Registry of all definitions. CustomResourceDefinitions add and remove definitions while the server runs."""

    def __init__(self, definitions: Iterable[ResourceDefinition] = ()) -> None:
        self.routes: dict[str, Any] = {}  # cache of routing.route, by path; cleared when definitions change
        # Cache of the aggregated discovery documents in JSON, by path. A change of definitions replaces it, so that a
        # document that another thread is still building is not stored in the new one.
        self.documents: dict[str, bytes] = {}
        self._definitions: dict[tuple[str, str, str], ResourceDefinition] = {}
        self._of_kind: dict[tuple[str, str], ResourceDefinition] = {}
        self._of_storage: dict[str, ResourceDefinition] = {}
        self._elsewhere: dict[str, tuple[str, str]] = {}
        for definition in definitions:
            self.add(definition)

    @property
    def elsewhere(self) -> Collection[tuple[str, str]]:
        """Return each (group, version) that an APIService assigns to another server. Requests for them are refused."""
        return self._elsewhere.values()

    def serve_elsewhere(self, service: str, place: tuple[str, str] | None) -> None:
        """Record the group and version that an APIService assigns to another server.

        service: name of the APIService
        place: group and version; None if the APIService assigns none to another server
        """
        if self._elsewhere.get(service) != place:
            self.routes.clear()
            if place is None:
                del self._elsewhere[service]
            else:
                self._elsewhere[service] = place
            self.documents = {}

    def add(self, definition: ResourceDefinition) -> None:
        self.routes.clear()
        self._definitions[definition.group, definition.version, definition.plural] = definition
        self._of_kind[definition.api_version, definition.kind] = definition
        if definition.is_stored:
            self._of_storage[definition.storage] = definition
        self.documents = {}

    def remove(self, definition: ResourceDefinition) -> None:
        self.routes.clear()
        self._definitions.pop((definition.group, definition.version, definition.plural), None)
        self._of_kind.pop((definition.api_version, definition.kind), None)
        if definition.is_stored:
            self._of_storage.pop(definition.storage, None)
        self.documents = {}

    def find(self, group: str, version: str, plural: str) -> ResourceDefinition | None:
        return self._definitions.get((group, version, plural))

    def of_storage(self, storage: str) -> ResourceDefinition | None:
        """Return the definition of the version in which the objects of a storage are stored."""
        return self._of_storage.get(storage)

    def of_kind(self, api_version: str, kind: str) -> ResourceDefinition | None:
        return self._of_kind.get((api_version, kind))

    def in_version(self, definition: ResourceDefinition, api_version: str) -> ResourceDefinition | None:
        """Return the definition of another version of a resource, served or not; None if there is no such version."""
        if api_version == definition.api_version:
            return definition
        found = self.of_kind(api_version, definition.kind)
        if found is None:
            return next((other for other in definition.unserved if other.api_version == api_version), None)
        return found if found.storage == definition.storage else None

    def __iter__(self) -> Iterator[ResourceDefinition]:
        return iter(list(self._definitions.values()))
