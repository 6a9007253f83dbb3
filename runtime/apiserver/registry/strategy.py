"""Strategy: the behavior of a kind, with the hooks and settings of upstream's strategy.go files.

Source: apiserver pkg/registry/rest/{create,update,delete}.go, pkg/registry/generic/registry/store.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

from msgspec import Struct, field

from kcm.protocols.objects import Object
from kcm.protocols.selectors import LabelSelector, label_selector_of
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.registry.users import AccessControl, User

FieldGetter = Callable[[Object], str]


class StoredObjects(Protocol):
    """Interface to read stored objects, for kinds whose new objects are compared with stored objects."""

    def objects(self, storage: str) -> Iterator[Object]:
        """Decode all objects of a resource, ordered by key.

        storage: ResourceDefinition.storage
        """


class Allocating(StoredObjects, Protocol):
    """Interface to stored objects and to the address ranges of the server, for hooks that allocate."""

    @property
    def service_ranges(self) -> tuple[str, ...]:
        """CIDRs of cluster IPs, one for each IP family, the default family first."""

    def has(self, storage: str, key: str) -> bool:
        """Report whether an object with this key is stored."""


class Granting(StoredObjects, Protocol):
    """Interface to stored objects and to the permissions of users, for hooks that check references."""

    def access(self) -> AccessControl: ...

    def plural_of(self, api_version: str, kind: str) -> str:
        """Return the plural name of a kind's resource; "" for an unknown kind."""


class GarbageCollectionPolicy(Enum):
    """Treatment of the dependents of a deleted object if the request has no propagationPolicy."""

    DELETE_DEPENDENTS = "DeleteDependents"
    ORPHAN_DEPENDENTS = "OrphanDependents"
    UNSUPPORTED = "Unsupported"  # a propagationPolicy is ignored too


def _change_nothing(_obj: Object) -> None:
    return None


def _set_no_times(_new: Object, _old: Object | None, _now: str) -> None:
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
    """Paths of a CustomResourceDefinition's scale subresource, such as `.spec.replicas`.

    selector: path of the label selector in text form; "" without a selector
    """

    replicas: str
    status_replicas: str
    selector: str = ""


class SubresourceUpdate(Struct, frozen=True, kw_only=True):
    """Update through a subresource whose body is the object itself.

    prepare: called with (new, old, now); restores the fields of old that may not be changed this way. now: a timestamp
    validate: called with (new, old); returns the errors of the change
    """

    prepare: Callable[[Object, Object, str], None]
    validate: Callable[[Object, Object], list[FieldError]]


def _label_selector(obj: Object) -> LabelSelector:
    return label_selector_of((obj.get("spec") or {}).get("selector") or {})


class Strategy(Struct, frozen=True, kw_only=True):
    """Hooks and settings of a kind.

    The fields of objects that are passed to hooks have the types of the kind's schema. Hooks with two objects are
    called with (new, old).
    """

    # --- names and metadata
    # Returns the problems of a name; None applies only the rule for all names.
    validate_name: Callable[[str], list[str]] | None = None
    # metadata.generation is 1 in a new object, and incremented by changes outside metadata and status.
    has_generation: bool = False
    annotations_bump_generation: bool = False  # also by changes of the annotations

    # --- create
    allow_create_on_update: bool = False  # a PUT creates an object that does not exist
    # Sets fields that the client omitted, in place, on create and on update. Must be idempotent.
    set_defaults: Callable[[Object], None] = _change_nothing
    # Sets times that the client omitted, in place. Called with (new, old, now): without old after each call of
    # set_defaults, and with the stored object when an update is prepared (upstream's PrepareForUpdate).
    set_times: Callable[[Object, Object | None, str], None] = _set_no_times
    # Allocates addresses and ports of a new object from shared ranges (upstream's BeginCreate).
    allocate: Callable[[Allocating, Object], None] = _allocate_nothing
    # Changes a new object after its defaults, for example sets its first status; may return warnings.
    prepare_for_create: Callable[[Object], Iterable[str] | None] = _change_nothing
    set_requester: Callable[[Object, User], None] = _ask_nobody  # records the user in a new object
    # Raises StatusError if the object grants permissions that the user may not grant. Called with (new, old, user,
    # access), without old for a new object.
    confirm: Callable[[Object, Object | None, User, AccessControl], None] | None = None
    # Returns errors for references in a valid object that the user may not make. Called with
    # (permissions, new, old, user).
    permit: Callable[[Granting, Object, Object | None, User], list[FieldError]] = _permit_all
    validate: Callable[[Object], list[FieldError]] = _accept
    validate_create: Callable[[Object], list[FieldError]] = _accept  # in addition, for a new object
    canonicalize: Callable[[Object], None] = _change_nothing  # brings a valid object into canonical form, in place
    # Returns warnings about a valid object. Called with (new, old), where a new object has None as old.
    warn: Callable[[Object, Object | None], Iterable[str]] = _say_nothing
    # For a kind that is not stored (reviews): sets the result for a user, in place; returns the errors of the object.
    review: Callable[[Object, User, AccessControl], list[FieldError]] | None = None

    # --- update
    allow_unconditional_update: bool = True  # whether an update without a resourceVersion is accepted
    update_keeps: tuple[str, ...] = ()  # fields of spec that are taken from the stored object
    # Adapts the allocated addresses and ports of a changed object, after its defaults (upstream's BeginUpdate and
    # PrepareForUpdate).
    reallocate: Callable[[Allocating, Object, Object], None] = _reallocate_nothing
    validate_update: Callable[[Object, Object], list[FieldError]] = _accept_update
    change_is_judged_first: bool = False  # errors of validate_update precede those of validate
    update_is_judged_whole: bool = False  # validate_update validates the object as well; validate is not called

    # --- status
    has_status: bool = False  # the status is a subresource; a status in a create or update is ignored
    status_on_create: bool = False  # a new object may have a status nevertheless, as nodes may
    empty_status: Mapping[str, Any] = field(default_factory=dict)  # zero values of fields without omitempty
    status_may_be_missing: bool = False  # a new object has no status, not even an empty one
    status_update_keeps: tuple[str, ...] = ()  # metadata fields that a status update takes from the stored object
    prepare_for_status_update: Callable[[Object, Object], None] = _keep_new
    validate_status_update: Callable[[Object, Object], list[FieldError]] = _accept_update
    # Returns errors as permit does. Called with (permissions, new, old, user, verb).
    permit_status: Callable[[Granting, Object, Object, User, str], list[FieldError]] = _permit_all_status

    # --- other subresources whose body is the object, by name; may include "status"
    subresource_updates: Mapping[str, SubresourceUpdate] = field(default_factory=dict)

    # --- delete
    # Returns the grace period in seconds, from the object and the requested period or None. Without this hook, objects
    # are deleted immediately.
    grace_period: Callable[[Object, int | None], int] | None = None
    held: Callable[[Object], bool] = (
        _is_not_held  # whether anything except finalizers delays the removal of a deleted object
    )
    terminate: Callable[[Object], None] = _change_nothing  # changes an object, in place, whose removal is delayed
    default_garbage_collection_policy: GarbageCollectionPolicy = GarbageCollectionPolicy.DELETE_DEPENDENTS
    finalizer_on_delete: str = ""  # added by the first deletion
    return_deleted_object: bool = False  # a deletion returns the object instead of a Status
    ttl: float | None = None  # seconds from the last write to deletion

    # --- read
    # Fields for field selectors besides metadata.name and metadata.namespace: by path, a function that returns the
    # value.
    selectable_fields: Mapping[str, FieldGetter] = field(default_factory=dict)
    # Error text for any other field; `{}` is replaced by the field.
    unsupported_field: str = '"{}" is not a known field selector: only "metadata.name", "metadata.namespace"'
    scale_selector: Callable[[Object], LabelSelector] = _label_selector  # selector of the scale subresource
    scale_paths: ScalePaths | None = None  # paths of the scale subresource in a custom object
