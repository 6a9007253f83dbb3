"""What the server serves: a ResourceDefinition for each resource, and the registry of them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.derived import Derived
from kcm.runtime.apiserver.registry.printers import NAME_AND_CREATION_TIME, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

_STORED_ONLY = Strategy()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition:
    """One resource as it is served: what discovery shows of it, how its objects behave, how they are printed.

    group: "" for core. plural: the resource's name in paths. singular: "" for the kind in lower case.
    subresources: names under an object ("status", "scale", "binding").
    storage: what its objects are stored under, "" for `name`. Two versions of one resource have the same, and convert:
    to_storage and from_storage turn an object of this version into the stored form and back (new objects). Verbs work
    with the stored form.
    dynamic: it came with a CustomResourceDefinition. schema: its OpenAPI v3, None where there is none. settle: gives an
    object that a client sent, in place, the fields that the schema has; a list gets the paths of those that it does not
    have; raises ShapeError.
    Verbs work with custom objects in the version of the request. decode: gives stored ones that form, all at once;
    encode: gives one the form that is stored; from_storage: turns one of any version into this one. None where that
    changes nothing. All three may raise StatusError, and Unanswered where asks_outside. leads: of several versions, the
    one that stands for what is stored.
    derived: its objects are not stored, and made of others when they are read.
    """

    group: str = ""
    version: str = "v1"
    plural: str
    kind: str
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    namespaced: bool = True
    verbs: tuple[str, ...] = VERBS
    subresources: tuple[str, ...] = ()
    storage: str = ""
    to_storage: Callable[[Object], Object] | None = None
    from_storage: Callable[[Object], Object] | None = None
    strategy: Strategy = _STORED_ONLY
    printer: Printer = NAME_AND_CREATION_TIME
    dynamic: bool = False
    schema: Mapping[str, Any] | None = None
    settle: Callable[[Object, list[str] | None], None] | None = None
    decode: Callable[[list[Object]], list[Object]] | None = None
    encode: Callable[[Object], Object] | None = None
    asks_outside: bool = False
    leads: bool = True
    derived: Derived | None = None
    deprecation: str = ""
    unserved: tuple[ResourceDefinition, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")
        object.__setattr__(self, "storage", self.storage or self.name)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def stored_group(self) -> str:
        """Of the form that is stored: an error names it, whatever the version of the request."""
        return self.storage.partition(".")[2]

    @property
    def is_stored(self) -> bool:
        """Whether it stands for what is stored, among several versions."""
        return self.to_storage is None and self.leads

    def shown(self, stored: Object) -> Object:
        """A stored object in this version. Raises StatusError, Unanswered."""
        if self.decode is not None:
            return self.decode([stored])[0]
        return stored if self.from_storage is None or self.dynamic else self.from_storage(stored)

    @property
    def shows_what_is_stored(self) -> bool:
        return self.decode is None and (self.from_storage is None or self.dynamic)

    @property
    def name(self) -> str:
        """schema.GroupResource as text: "pods", "replicasets.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Registry:
    """All definitions; a CustomResourceDefinition adds and removes some while the server runs."""

    def __init__(self, definitions: Iterable[ResourceDefinition] = ()) -> None:
        self.routes: dict[str, Any] = {}  # by path, until a definition comes or goes; see routing
        self._definitions: dict[tuple[str, str, str], ResourceDefinition] = {}
        self._of_kind: dict[tuple[str, str], ResourceDefinition] = {}
        self._of_storage: dict[str, ResourceDefinition] = {}
        self._elsewhere: dict[str, tuple[str, str]] = {}
        for definition in definitions:
            self.add(definition)

    @property
    def elsewhere(self) -> Collection[tuple[str, str]]:
        """Each (group, version) that an APIService leads to another server: requests for it are refused."""
        return self._elsewhere.values()

    def serve_elsewhere(self, service: str, place: tuple[str, str] | None) -> None:
        """Record the (group, version) that an APIService leads elsewhere; None for one that does not."""
        if self._elsewhere.get(service) != place:
            self.routes.clear()
            if place is None:
                del self._elsewhere[service]
            else:
                self._elsewhere[service] = place

    def add(self, definition: ResourceDefinition) -> None:
        self.routes.clear()
        self._definitions[definition.group, definition.version, definition.plural] = definition
        self._of_kind[definition.api_version, definition.kind] = definition
        if definition.is_stored:
            self._of_storage[definition.storage] = definition

    def remove(self, definition: ResourceDefinition) -> None:
        self.routes.clear()
        self._definitions.pop((definition.group, definition.version, definition.plural), None)
        self._of_kind.pop((definition.api_version, definition.kind), None)
        if definition.is_stored:
            self._of_storage.pop(definition.storage, None)

    def find(self, group: str, version: str, plural: str) -> ResourceDefinition | None:
        return self._definitions.get((group, version, plural))

    def of_storage(self, storage: str) -> ResourceDefinition | None:
        """The definition whose form is the stored one."""
        return self._of_storage.get(storage)

    def of_kind(self, api_version: str, kind: str) -> ResourceDefinition | None:
        return self._of_kind.get((api_version, kind))

    def in_version(self, definition: ResourceDefinition, api_version: str) -> ResourceDefinition | None:
        """Another version of a resource, served or not. None where it has no such version."""
        if api_version == definition.api_version:
            return definition
        found = self.of_kind(api_version, definition.kind)
        if found is None:
            return next((one for one in definition.unserved if one.api_version == api_version), None)
        return found if found.storage == definition.storage else None

    def __iter__(self) -> Iterator[ResourceDefinition]:
        return iter(list(self._definitions.values()))
