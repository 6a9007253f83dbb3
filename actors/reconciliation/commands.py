"""Functions that build commands and events, from resources, keys and objects.

Kind and apiVersion are filled in from the Resource, because objects of tables do not contain them. Invalid arguments
raise here, so that the traceback shows the author the line: TypeError for a key of another type, ValueError for a key
that does not fit the resource and for an object of another kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from kcm.actors.reconciliation.element_order import in_element_order
from kcm.protocols.arguments import check_mapping, check_number, check_sequence, check_text, check_type, one_of
from kcm.protocols.messages.commands import Create, Delete, DeleteCollection, Get, List, Patch, PatchType, Update
from kcm.protocols.messages.events import RECORD_TYPES, Record, RecordType
from kcm.protocols.models import as_object
from kcm.protocols.objects import (
    Key,
    encode_object,
    key_of,
    make_key,
    metadata,
    name_of,
    namespace_of,
    resource_version_of,
    split_key,
    uid_of,
)
from kcm.protocols.resources import M, Resource
from kcm.runtime.tables.table import Entry

W = TypeVar("W", Create, Patch, Delete, Record)

PROPAGATIONS = ("Background", "Foreground", "Orphan")
# Subresources whose body is the object itself. Others have a kind of their own: scale, binding, eviction, token, …
OF_THE_OBJECT = frozenset({"", "status", "approval", "ephemeralcontainers", "finalize", "resize"})


def create(
    resource: Resource[M], obj: Mapping[str, Any] | M, *, namespace: str | None = None, subresource: str = ""
) -> Create:
    """Create the object. namespace: default for an object without one. Raises ValueError if a namespace is missing."""
    obj = _map(resource, obj)
    where = namespace_of(obj) if namespace is None else namespace
    if resource.namespaced and not where:
        raise ValueError(f"a {resource.kind} is made in a namespace, and none is given for {name_of(obj)!r}")
    if where and not resource.namespaced:
        raise ValueError(f"a {resource.kind} is in no namespace, and {where!r} is given for {name_of(obj)!r}")
    return Create(resource.id, where, _whole(resource, obj, subresource), subresource=subresource)


def update(resource: Resource[M], obj: Mapping[str, Any] | M, *, subresource: str = "") -> Update:
    """Replace the whole object, usually by a changed copy of an object of a table.

    Its resourceVersion is the precondition: the outcome is Conflict if the stored one differs. A model also replaces
    the whole object and removes fields that it does not define; use patch or ensure for partial models.
    """
    obj = _map(resource, obj)
    meta = metadata(obj)
    key = check_key(resource, make_key(meta.get("namespace") or "", meta.get("name") or ""))
    return Update(resource.id, key, _whole(resource, obj, subresource), subresource=subresource)


def patch(
    resource: Resource,
    key: Key,
    body: Mapping[str, Any] | Sequence[Any],
    *,
    patch_type: PatchType | None = None,
    subresource: str = "",
) -> Patch:
    """Patch the object.

    body: a map is merged into the object (RFC 7386): None removes a field, and a list replaces the whole list. A list
        contains JSON patch operations (RFC 6902). Both work for every resource.
    patch_type: STRATEGIC merges lists by their keys, for built-in resources only. For server-side apply use `apply`.
    """
    operations = not isinstance(body, Mapping)
    if operations:
        check_sequence("body of patch", body, "a map or a list of operations")
    if patch_type is not None:
        check_type("patch_type of patch", patch_type, PatchType, "a PatchType, as PatchType.MERGE")
    if patch_type is None:
        patch_type = PatchType.JSON if operations else PatchType.MERGE
    if patch_type == PatchType.APPLY:
        raise ValueError("a patch of type APPLY is made by apply(resource, obj)")
    if operations != (patch_type == PatchType.JSON):
        raise TypeError(f"a patch of type {patch_type} is a {'map' if operations else 'list of operations'}")
    key = check_key(resource, key)
    check_text("subresource of a command", subresource, may_be_empty=True)
    return Patch(resource.id, key, encode_object(body), patch_type, subresource)  # type: ignore[arg-type]


def merge_status(
    resource: Resource[M], obj: Mapping[str, Any] | M, changes: Mapping[str, Any], *, ordered: bool = True
) -> Patch:
    """Patch fields of a built-in object's status. Conditions are merged by type, so several writers can each set some.

    The uid is a precondition, the resourceVersion is not, and nothing is compared. New conditions follow the existing
    conditions of `obj`; with `ordered=False` the server puts them first.
    """
    obj = _map(resource, obj)
    check_mapping("changes of merge_status", changes)
    status = in_element_order(obj.get("status") or {}, changes) if ordered else changes
    body = {"metadata": {"uid": uid_of(obj)}, "status": status}
    return patch(resource, key_of(obj), body, patch_type=PatchType.STRATEGIC, subresource="status")


def apply(
    resource: Resource[M], obj: Mapping[str, Any] | M, *, force: bool = False, manager: str = "", subresource: str = ""
) -> Patch:
    """Apply the object on the server: set its fields, and remove fields that the manager applied before but not now.

    An object that does not exist is created.

    obj: all fields that this manager sets, and no others, so usually not an object that was read. With a uid the object
        is not created; the outcome is Conflict.
    force: take over fields of other managers. Without it a different value in such a field is a Conflict.
    manager: name of the manager; empty: the client of the controller's spec, which by default is its name.
    """
    obj = _map(resource, obj)
    if metadata(obj).get("managedFields"):
        raise ValueError(f"an object to apply must not have managedFields: {key_of(obj)!r}")
    key = check_key(resource, key_of(obj))
    return Patch(resource.id, key, _whole(resource, obj, subresource), PatchType.APPLY, subresource, manager, force)


def delete(
    resource: Resource[M],
    which: Key | Mapping[str, Any] | Entry | M,
    *,
    unchanged: bool = False,
    uid: str | None = None,
    resource_version: str | None = None,
    grace_seconds: int | None = None,
    propagation: str | None = None,
    depends_on: Iterable[Resource | tuple[Resource, Key]] | None = None,
) -> Delete:
    """Delete the object.

    which: an object that was read, whose uid is a precondition, so that no other object with its name is deleted; or a
        key, if only the name is known.
    unchanged: the resourceVersion of the object is a precondition as well.
    uid: uid that the object must have, if `which` is a key; otherwise the outcome is Conflict.
    resource_version: resourceVersion that it must have, if `which` is a key; otherwise the outcome is Conflict.
    depends_on: resources or objects that the decision depends on; None for all tables of the spec. The deletion is
        postponed while their tables are stale or these objects are unreadable.
    """
    check_resource(resource)
    if propagation is not None:
        one_of("propagation of delete", propagation, PROPAGATIONS)
    if grace_seconds is not None:
        check_number("grace_seconds of delete", grace_seconds, least=0, whole=True)
    key: Any = which
    if isinstance(which, Entry):
        key, uid = which.key, which.uid
        if unchanged:
            resource_version = str(which.resource_version)
    elif isinstance(which, str):
        if unchanged:
            raise ValueError("unchanged needs an object that was read, not a key")
    else:
        obj = as_object(which) if resource.model is not None and isinstance(which, resource.model) else which
        if isinstance(obj, Mapping) and "metadata" in obj:
            key, uid = key_of(obj), uid_of(obj)
            resource_version = resource_version_of(obj) if unchanged else resource_version
            if not uid or resource_version == "":
                raise ValueError(f"{resource} {key!r} has no uid or resourceVersion: it is not an object that was read")
    return Delete(
        resource.id,
        check_key(resource, key),
        uid=uid,
        resource_version=resource_version,
        grace_seconds=grace_seconds,
        propagation=propagation,
        depends_on=None if depends_on is None else _dependences(depends_on),
    )


def in_name_of(user: str, command: W) -> W:
    """Return the command with the credentials of this user, if the transport has them."""
    return msgspec.structs.replace(command, user=user)


def get_live(resource: Resource, key: Key, *, as_informer: bool = False) -> Get:
    """Read an object from the server. as_informer: for controllers without the permission to get it, see Get."""
    key = check_key(resource, key)
    return Get(resource.id, key, as_informer=as_informer)


def list_live(
    resource: Resource,
    namespace: str = "",
    *,
    label_selector: str = "",
    field_selector: str = "",
    metadata_only: bool = False,
    limit: int = 0,
    continue_from: str = "",
) -> List:
    """List objects from the server.

    metadata_only: return only the metadata of each object.
    limit: maximum number of objects; 0: unlimited.
    continue_from: see List.
    """
    check_resource(resource)
    for name, text in (
        ("namespace", namespace),
        ("label_selector", label_selector),
        ("field_selector", field_selector),
        ("continue_from", continue_from),
    ):
        check_text(f"{name} of list_live", text, may_be_empty=True)
    check_number("limit of list_live", limit, least=0, whole=True)
    return List(resource.id, namespace, label_selector, field_selector, metadata_only, limit, continue_from)


def delete_all(
    resource: Resource, namespace: str, *, propagation: str | None = None, limit: int = 0, continue_from: str = ""
) -> DeleteCollection:
    """Delete all objects of a namespace, or a page of them as in list_live. It depends on no table."""
    return DeleteCollection(
        resource.id, namespace, propagation=propagation, depends_on=(), limit=limit, continue_from=continue_from
    )


def record(
    resource: Resource[M],
    about: Mapping[str, Any] | M,
    type: RecordType,
    reason: str,
    message: str,
    *,
    field_path: str = "",
) -> Record:
    """Record an event about an object."""
    if type not in RECORD_TYPES:
        raise ValueError(f"the type of an event is one of {', '.join(RECORD_TYPES)}, not {type!r}")
    check_text("reason of record", reason, may_be_empty=True)
    check_text("message of record", message, may_be_empty=True)
    meta = metadata(_map(resource, about))
    return Record(
        resource.api_version,
        resource.kind,
        meta.get("namespace") or "",
        meta.get("name") or "",
        meta.get("uid") or "",
        meta.get("resourceVersion") or "",
        type,
        reason,
        message,
        field_path,
        cluster=resource.cluster,
    )


def _map(resource: Resource, obj: Any) -> Mapping[str, Any]:
    """Return an object or a model of the resource as a map. Raises TypeError for other types."""
    check_resource(resource)
    if type(obj) is dict or isinstance(obj, Mapping):
        return obj
    if resource.model is None or not isinstance(obj, resource.model):
        known = "" if resource.model is None else f" or a {resource.model.__qualname__}"
        raise TypeError(f"an object of {resource} is a map{known}, not {obj!r:.80}")
    return as_object(obj)


def _dependences(depends_on: object) -> tuple[str, ...]:
    if isinstance(depends_on, str | Resource) or not isinstance(depends_on, Iterable):
        raise TypeError(f"depends_on of delete takes a tuple, as (PODS, (NODES, 'n1')), not {depends_on!r:.80}")
    return tuple(map(_dependence, depends_on))


def _dependence(on: object) -> str:
    if isinstance(on, Resource):
        return on.id
    if not isinstance(on, tuple) or len(on) != 2:
        raise TypeError(f"depends_on of delete takes resources and (resource, key), not {on!r:.80}")
    key = check_key(*on)
    return f"{on[0].id} {key}"


def check_resource(resource: Any) -> None:
    """Raise TypeError for anything but a Resource, for example its plural."""
    if not isinstance(resource, Resource):
        raise TypeError(f"a command takes a Resource(version=…, plural=…, kind=…), not {resource!r:.80}")


def check_key(resource: Resource, key: Any) -> Key:
    """Return the key. Raises TypeError or ValueError for an invalid key of this resource."""
    check_resource(resource)
    if not isinstance(key, str):
        raise TypeError(f"a key of {resource} is text, not {key!r:.80}")
    namespace, name = split_key(key)
    if not name or "/" in namespace or bool(namespace) != resource.namespaced:
        form = "namespace/name" if resource.namespaced else "name"
        raise ValueError(f"{key!r} is no key of {resource}: it is {form!r}")
    return key


def _whole(resource: Resource, obj: Mapping[str, Any], subresource: str) -> bytes:
    """Encode the object with kind and apiVersion. Raises ValueError if they differ from those of the resource."""
    check_text("subresource of a command", subresource, may_be_empty=True)
    if subresource not in OF_THE_OBJECT:
        return encode_object(obj)
    if check_kind(resource, obj):
        return encode_object(obj)
    return encode_object({**obj, "apiVersion": resource.api_version, "kind": resource.kind})


def check_kind(resource: Resource, obj: Mapping[str, Any]) -> bool:
    """Report whether the object has kind and apiVersion. Raises ValueError if they differ from the resource's."""
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if kind == resource.kind and api_version == resource.api_version:
        return True
    for given, known in ((kind, resource.kind), (api_version, resource.api_version)):
        if given and given != known:
            raise ValueError(
                f"{kind or 'an object'} of {api_version or 'no apiVersion'} is no {resource.kind} of "
                f"{resource.api_version}, as {resource} are"
            )
    return False
