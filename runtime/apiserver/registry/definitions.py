"""Which resources the server serves: one ResourceDefinition each. Adding a resource is adding a row to built_in.py.

What is special about a kind beyond its row lives in its Strategy (strategies.py): what is filled in, what is checked,
which parts a status write may touch. A kind without a strategy of its own gets plain storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from protocols.objects import Object
from runtime.apiserver.errors.field_errors import FieldError

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")

FieldGetter = Callable[[Object], str]


def _nothing_to_fill_in(_obj: Object) -> None:
    return None


def _nothing_to_check(_obj: Object) -> list[FieldError]:
    return []


def _as_it_is(_new: Object, _old: Object) -> None:
    return None


def _any_change(_new: Object, _old: Object) -> list[FieldError]:
    return []


def _is_not_held(_obj: Object) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """What a kind does beyond being stored. Objects handed to these functions have the types of the kind's model.

    name_rule: what is wrong with a name, as texts; None for the rule of all names alone.
    has_status: spec and status are written through different paths; a status in a create or update is ignored.
    zero_status: fields of status that are always shown, with the values that they have when nobody wrote them.
    first_status: a new object brings its status along, as nodes do.
    status_keeps: metadata fields that a write of the status takes from the stored object.
    update_keeps: fields of spec that an update takes from the stored object.
    generation: metadata.generation is 1 at first and grows with each change of what is neither metadata nor status;
    annotations_count: and of annotations.
    default: fills in, in place, what a client left out; of new and updated objects alike.
    prepare_create: what only a new object gets, its first status for example.
    validate: everything wrong with an object. validate_update: with a change of it; validate_status: with a change of
    its status. prepare_status: what a new status takes over. These three get (new, old).
    fields: what field selectors select by, besides metadata.name and metadata.namespace, as text of the object.
    unknown_field: the text for any other field; has one `{}`.
    grace: seconds that an object's deletion leaves it; None where deletion is always immediate.
    held: whether more than finalizers keeps it once it is deleted; terminate: what it then looks like.
    collected: whether an owner's deletion may be told to orphan, or to wait for, what it owns. orphans: it orphans
    unless told otherwise.
    unconditional_update: an update without a resourceVersion overwrites. create_on_update: one of nothing creates.
    returns_deleted: a deletion answers with the object, else with a Status.
    ttl: seconds that an object lives after its last write.
    """

    name_rule: Callable[[str], list[str]] | None = None
    has_status: bool = False
    zero_status: Mapping[str, Any] = field(default_factory=dict)
    first_status: bool = False
    status_keeps: tuple[str, ...] = ()
    update_keeps: tuple[str, ...] = ()
    generation: bool = False
    annotations_count: bool = False
    default: Callable[[Object], None] = _nothing_to_fill_in
    prepare_create: Callable[[Object], None] = _nothing_to_fill_in
    validate: Callable[[Object], list[FieldError]] = _nothing_to_check
    validate_update: Callable[[Object, Object], list[FieldError]] = _any_change
    prepare_status: Callable[[Object, Object], None] = _as_it_is
    validate_status: Callable[[Object, Object], list[FieldError]] = _any_change
    fields: Mapping[str, FieldGetter] = field(default_factory=dict)
    unknown_field: str = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    grace: Callable[[Object, int | None], int] | None = None
    held: Callable[[Object], bool] = _is_not_held
    terminate: Callable[[Object], None] = _nothing_to_fill_in
    collected: bool = True
    orphans: bool = False
    unconditional_update: bool = True
    create_on_update: bool = False
    returns_deleted: bool = False
    ttl: float | None = None


_STORED_ONLY = Strategy()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition:
    """One resource as it is served, all that discovery says about it.

    singular: "" for the kind in lower case. subresources: names under an object ("status", "scale", "binding").
    storage: what its objects are stored under; two versions of a resource name the same and convert:
    to_storage, from_storage turn an object of this version into the stored form and back (new objects).
    dynamic: it came with a CustomResourceDefinition.
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
    dynamic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "singular", self.singular or self.kind.lower())
        object.__setattr__(self, "list_kind", self.list_kind or f"{self.kind}List")
        object.__setattr__(self, "storage", self.storage or self.name)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """As messages to people name it: "pods", "replicasets.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


class Registry:
    """All definitions; a CustomResourceDefinition adds and removes some while the server runs."""

    def __init__(self, definitions: Iterable[ResourceDefinition] = ()) -> None:
        self._definitions: dict[tuple[str, str, str], ResourceDefinition] = {}
        self._of_kind: dict[tuple[str, str], ResourceDefinition] = {}
        self._of_storage: dict[str, ResourceDefinition] = {}
        for definition in definitions:
            self.add(definition)

    def add(self, definition: ResourceDefinition) -> None:
        self._definitions[definition.group, definition.version, definition.plural] = definition
        self._of_kind[definition.api_version, definition.kind] = definition
        if definition.from_storage is None:
            self._of_storage[definition.storage] = definition

    def remove(self, definition: ResourceDefinition) -> None:
        self._definitions.pop((definition.group, definition.version, definition.plural), None)
        self._of_kind.pop((definition.api_version, definition.kind), None)
        if definition.from_storage is None:
            self._of_storage.pop(definition.storage, None)

    def find(self, group: str, version: str, plural: str) -> ResourceDefinition | None:
        return self._definitions.get((group, version, plural))

    def of_storage(self, storage: str) -> ResourceDefinition | None:
        """The definition whose form is the stored one."""
        return self._of_storage.get(storage)

    def of_kind(self, api_version: str, kind: str) -> ResourceDefinition | None:
        return self._of_kind.get((api_version, kind))

    def __iter__(self) -> Iterator[ResourceDefinition]:
        return iter(list(self._definitions.values()))
