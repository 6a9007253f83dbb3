"""What a kind does beyond being stored: the hooks and settings of upstream's strategy.go, one field each.

Source: apiserver pkg/registry/rest/{create,update,delete}.go, pkg/registry/generic/registry/store.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, NamedTuple, Protocol

from kcm.protocols.late_methods import dataclass
from kcm.protocols.objects import Object
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.users import AccessControl, User

FieldGetter = Callable[[Object], str]


class StoredObjects(Protocol):
    """Read access to what is stored, for a kind that has to compare a new object with others."""

    def objects(self, storage: str) -> Iterator[Object]:
        """All objects of a resource, decoded, in the order of their keys. storage: ResourceDefinition.storage."""


class Allocating(StoredObjects, Protocol):
    """And the ranges that new objects are given something from."""

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """CIDRs of cluster IPs, one for each family, the default family first."""


class Granting(StoredObjects, Protocol):
    """And what users may do."""

    def access(self) -> AccessControl: ...

    def plural_of(self, api_version: str, kind: str) -> str:
        """Of the resource that a kind is served as; "" for none."""


class GarbageCollectionPolicy(Enum):
    """What happens to the dependents of a deleted object if the request has no propagationPolicy."""

    DELETE_DEPENDENTS = "DeleteDependents"
    ORPHAN_DEPENDENTS = "OrphanDependents"
    UNSUPPORTED = "Unsupported"  # a propagationPolicy is ignored too


def _change_nothing(_obj: Object) -> None:
    return None


def _allocate_nothing(_among: Allocating, _obj: Object) -> None:
    return None


def _reallocate_nothing(_among: Allocating, _new: Object, _old: Object) -> None:
    return None


def _permit_all(_among: Granting, _new: Object, _old: Object | None, _user: User) -> list[FieldError]:
    return []


def _permit_all_status(_among: Granting, _new: Object, _old: Object, _user: User, _verb: str) -> list[FieldError]:
    return []


def _accept(_obj: Object) -> list[FieldError]:
    return []


def _keep_new(_new: Object, _old: Object) -> None:
    return None


def _accept_update(_new: Object, _old: Object) -> list[FieldError]:
    return []


def _say_nothing(_new: Object, _old: Object | None) -> Iterable[str]:
    return ()


def _is_not_held(_obj: Object) -> bool:
    return False


def _ask_nobody(_obj: Object, _user: User) -> None:
    return None


class ScalePaths(NamedTuple):
    """Dotted, with a dot before: `.spec.replicas`. selector: of a text; "" without one."""

    replicas: str
    status_replicas: str
    selector: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubresourceUpdate:
    """An update through a subresource whose body is the object itself.

    prepare: called with (new, old, now), takes from old what may not be changed this way; now: a timestamp.
    validate: everything that is wrong with the change.
    """

    prepare: Callable[[Object, Object, str], None]
    validate: Callable[[Object, Object], list[FieldError]]


def _label_selector(obj: Object) -> LabelSelector:
    return label_selector_of((obj.get("spec") or {}).get("selector") or {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """The hooks get objects whose fields have the types of the kind's schema; those that take two get (new, old).

    Names and metadata
    validate_name: what is wrong with a name, as texts; None: only the rule of all names.
    has_generation: metadata.generation is 1 in a new object and grows with each change outside metadata and status.
    annotations_bump_generation: and with each change of the annotations.

    Create
    allow_create_on_update: a PUT of an object that does not exist creates it.
    set_defaults: sets, in place, the fields that a client left out, on create and on update. Twice is the same as once.
    allocate: takes from a shared range what a new object needs (addresses, ports); upstream's BeginCreate.
    prepare_for_create: changes a new object after its defaults, for example sets its first status; may return warnings.
    set_requester: writes into a new object who asked for it.
    confirm: refuses what this user may not give to others, by StatusError; called with (new, old, user, access), old:
    None for a new object. None: nothing is given.
    permit: what this user may not refer to in a valid object, with the arguments of confirm but for the first: who may
    do what.
    validate: everything that is wrong with an object. validate_create: and with one that is new.
    warn: what to tell whoever writes an object, new or changed, once it is valid; called with (new, old), old: None for
    a new object. canonicalize: changes an object in place once it is valid, on create and on update.
    review: of a kind that is not stored: answers a new object, in place, for a user; returns what is wrong with it.

    Update
    allow_unconditional_update: an update without a resourceVersion overwrites.
    update_keeps: fields of spec that an update takes from the stored object.
    reallocate: gives a changed object, after its defaults, what it now needs of a shared range and takes away what it
    does not; upstream's BeginUpdate and PrepareForUpdate.
    validate_update: everything that is wrong with a change. change_is_judged_first: and is reported before what is
    wrong with the object. update_is_judged_whole: by validate_update alone, which looks at the object too.

    Status
    has_status: the status has a path of its own; a status in a create or update is ignored.
    status_on_create: except that a new object brings its status along, as nodes do.
    empty_status: fields that a status always has, with their zero values: those without omitempty.
    status_update_keeps: metadata fields that an update of the status takes from the stored object.
    prepare_for_status_update: changes a new status in place.
    validate_status_update: everything that is wrong with a change of the status. permit_status: as permit, with the
    verb of the request.

    Other subresources
    subresource_updates: of subresources whose body is the object, by name; of the status too, where it is here.

    Delete
    grace_period: the seconds that a deletion leaves an object, given the seconds asked for or None; None: deletion is
    always immediate. held: true as long as something besides finalizers keeps a deleted object. terminate: changes, in
    place, an object that is deleted but held. default_garbage_collection_policy: as upstream's method.
    finalizer_on_delete: one that the first deletion adds; "" for none.
    return_deleted_object: a deletion returns the object, else a Status. ttl: seconds from the last write to deletion.

    Read
    selectable_fields: what field selectors select by, besides metadata.name and metadata.namespace: path → text of the
    object. unsupported_field: the error for any other field, with one `{}`.
    scale_selector: the selector that the scale subresource shows. scale_paths: where its parts are in an object of a
    custom kind; None for a built-in one.
    """

    validate_name: Callable[[str], list[str]] | None = None
    has_generation: bool = False
    annotations_bump_generation: bool = False

    allow_create_on_update: bool = False
    set_defaults: Callable[[Object], None] = _change_nothing
    allocate: Callable[[Allocating, Object], None] = _allocate_nothing
    prepare_for_create: Callable[[Object], Iterable[str] | None] = _change_nothing
    set_requester: Callable[[Object, User], None] = _ask_nobody
    confirm: Callable[[Object, Object | None, User, AccessControl], None] | None = None
    permit: Callable[[Granting, Object, Object | None, User], list[FieldError]] = _permit_all
    validate: Callable[[Object], list[FieldError]] = _accept
    validate_create: Callable[[Object], list[FieldError]] = _accept
    canonicalize: Callable[[Object], None] = _change_nothing
    warn: Callable[[Object, Object | None], Iterable[str]] = _say_nothing
    review: Callable[[Object, User, AccessControl], list[FieldError]] | None = None

    allow_unconditional_update: bool = True
    update_keeps: tuple[str, ...] = ()
    reallocate: Callable[[Allocating, Object, Object], None] = _reallocate_nothing
    validate_update: Callable[[Object, Object], list[FieldError]] = _accept_update
    change_is_judged_first: bool = False
    update_is_judged_whole: bool = False

    has_status: bool = False
    status_on_create: bool = False
    empty_status: Mapping[str, Any] = field(default_factory=dict)
    status_update_keeps: tuple[str, ...] = ()
    prepare_for_status_update: Callable[[Object, Object], None] = _keep_new
    validate_status_update: Callable[[Object, Object], list[FieldError]] = _accept_update
    permit_status: Callable[[Granting, Object, Object, User, str], list[FieldError]] = _permit_all_status

    subresource_updates: Mapping[str, SubresourceUpdate] = field(default_factory=dict)

    grace_period: Callable[[Object, int | None], int] | None = None
    held: Callable[[Object], bool] = _is_not_held
    terminate: Callable[[Object], None] = _change_nothing
    default_garbage_collection_policy: GarbageCollectionPolicy = GarbageCollectionPolicy.DELETE_DEPENDENTS
    finalizer_on_delete: str = ""
    return_deleted_object: bool = False
    ttl: float | None = None

    selectable_fields: Mapping[str, FieldGetter] = field(default_factory=dict)
    unsupported_field: str = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    scale_selector: Callable[[Object], LabelSelector] = _label_selector
    scale_paths: ScalePaths | None = None
