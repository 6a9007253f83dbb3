"""Recording of field managers in metadata.managedFields.

For a create or update, the fields that it has set or changed are recorded with its manager; for a server-side apply
(server_side_apply.py), all fields of its body. An update of an object without managedFields records nothing.

Source: apimachinery pkg/util/managedfields/internal, structured-merge-diff merge/update.go (Update),
apiserver pkg/endpoints/handlers/{create,update}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import orjson

from kcm.protocols.objects import Object
from kcm.protocols.times import parse_time
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest
from kcm.runtime.apiserver.core.long_computations import carried_out, key_of
from kcm.runtime.apiserver.core.merge_types import merge_type_of
from kcm.runtime.apiserver.errors.status_errors import StatusError, without_reason
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.schema.field_differences import Comparison, all_fields, compare, non_zero_fields
from kcm.runtime.apiserver.schema.field_sets import Tree, has_path, minus, united, without
from kcm.runtime.apiserver.schema.merge_types import MergeType
from kcm.runtime.apiserver.schema.typed_errors import typed_errors

MANAGED_FIELDS = "managedFields"
APPLY, UPDATE = "Apply", "Update"
STATUS, SCALE = "status", "scale"
SERVER = "kube-apiserver"  # the field manager of objects that the server itself creates
ANCIENT, UNKNOWN = "ancient-changes", "unknown"
MOST_UPDATERS = 10
_FIELDS_V1 = "FieldsV1"
_ABSENT = object()
# Fields of metadata that are never recorded.
_OF_METADATA = "name namespace creationTimestamp selfLink uid clusterName generation managedFields resourceVersion"
_STRIPPED_OF_METADATA: Tree = {".": {}, **{f"f:{name}": {} for name in _OF_METADATA.split()}}
_STRIPPED: Tree = {"f:apiVersion": {}, "f:kind": {}, "f:metadata": _STRIPPED_OF_METADATA}
_MOST_KEPT, _LONGEST_KEPT = 64, 8192  # cached values of a type; bytes of JSON of a cached value
_seen: WeakKeyDictionary[MergeType, dict[bytes, Tree | None]] = WeakKeyDictionary()
_RESET_STATUS: Tree = {"f:status": {}}


class Manager(NamedTuple):
    """Identity of a field manager, from an entry of managedFields.

    operation: APPLY or UPDATE.
    api_version: API version of the request; "" for APPLY, which has one entry for all versions.
    subresource: subresource of the request, or "".
    """

    name: str
    operation: str
    api_version: str
    subresource: str


def update_manager(call: RoutedRequest) -> Manager:
    """Return the field manager of an update or create request."""
    name = call.query.get("fieldManager") or call.agent or UNKNOWN
    return Manager(name, UPDATE, call.definition.api_version, call.route.subresource)


def entry_of(manager: Manager, fields: Tree, api_version: str, time: str | None) -> Object:
    """Return an entry of managedFields, with its fields in upstream's order. time: RFC 3339, or None to omit it."""
    entry: Object = {"manager": manager.name, "operation": manager.operation, "apiVersion": api_version}
    if time is not None:
        entry["time"] = time
    entry["fieldsType"], entry["fieldsV1"] = _FIELDS_V1, fields
    if manager.subresource:
        entry["subresource"] = manager.subresource
    return entry


def entries_by_manager(entries: Any) -> dict[Manager, Object]:
    """Return the entries of managedFields by manager; {} if an entry is invalid. entries: a list, or None."""
    found = {}
    for entry in entries or ():
        operation, api_version = entry.get("operation"), entry.get("apiVersion")
        if operation not in (APPLY, UPDATE) or not api_version or entry.get("fieldsType") != _FIELDS_V1:
            return {}
        name, subresource = entry.get("manager", ""), entry.get("subresource", "")
        manager = Manager(name, operation, "" if operation == APPLY else api_version, subresource)
        found[manager] = entry if "fieldsV1" in entry else {**entry, "fieldsV1": {}}
    return found


def client_entries(entries: Any) -> dict[Manager, Object]:
    """Return managedFields of a client's object by manager; {} if an entry or its fieldsV1 is invalid."""
    found = entries_by_manager(entries)
    return found if all(_is_tree(entry["fieldsV1"]) for entry in found.values()) else {}


def _is_tree(fields: Any) -> bool:
    return isinstance(fields, dict) and all(map(_is_tree, fields.values()))


def sorted_entries(entries: Mapping[Manager, Object]) -> list[Object]:
    """Return managedFields as a list, with the entries in upstream's order."""
    if len(entries) == 1:
        return [*entries.values()]
    return sorted(entries.values(), key=_entry_order)


def _entry_order(entry: Mapping[str, Any]) -> tuple[str, str, str, str, str]:
    # The times are RFC 3339 in UTC, so they can be compared as text.
    time, name = entry.get("time") or "", entry.get("manager", "")
    return entry["operation"], time, name, entry["apiVersion"], entry.get("subresource", "")


def reset_fields(definition: ResourceDefinition, subresource: str) -> Tree:
    """Return the field set that a request cannot change, such as status outside the status subresource.

    subresource: subresource in the path of the request, or "".
    """
    strategy = definition.strategy
    if subresource == STATUS:
        reset: Tree = {f"f:{name}": {} for name in merge_type_of(definition).named if name not in (STATUS, "metadata")}
        reset.setdefault("f:spec", {})
        if strategy.status_update_keeps:
            reset["f:metadata"] = {f"f:{name}": {} for name in strategy.status_update_keeps}
        return reset
    return _RESET_STATUS if strategy.has_status else {}


def recordable(fields: Tree) -> Tree:
    """Return a field set without the fields that are never recorded in managedFields, such as metadata.name."""
    return minus(fields, _STRIPPED)


def record_new(cluster: Cluster, definition: ResourceDefinition, obj: Object, *, manager: str) -> None:
    """Record the manager of a new object in its managedFields. Called after defaulting and before admission.

    obj: the object in the version of the definition; changed in place.
    manager: name of the field manager.
    """
    given = client_entries(obj["metadata"].pop(MANAGED_FIELDS, None))
    if not cluster.settings.record_managers:
        return
    fields = fields_of_new(definition, obj)
    if fields:
        mine = Manager(manager, UPDATE, definition.api_version, "")
        if given:
            given = {other: left for other, entry in given.items() if (left := _without(entry, fields, {}))}
        entries = _with_entry(given, mine, fields, cluster.timestamp())
        obj["metadata"][MANAGED_FIELDS] = sorted_entries(entries)


def fields_of_new(definition: ResourceDefinition, obj: Mapping[str, Any]) -> Tree:
    """Return the field set of a new object: the fields that differ from their zero values."""
    type_ = merge_type_of(definition)
    zero, omitted, has_status = type_.zero, type_.omitted, definition.strategy.has_status
    found: Tree = {}
    for name, value in obj.items():
        if name == "metadata":
            of_meta = type_.field(name)
            fields = {
                step: all_fields(inner, of_meta.field(part))
                for part, inner in value.items()
                if (step := f"f:{part}") not in _STRIPPED_OF_METADATA
            }
            if fields:
                found["f:metadata"] = fields
        elif (
            name not in ("kind", "apiVersion")
            and not (name == STATUS and has_status)
            and (value or name not in omitted)
        ):
            of_value = _changed_fields(value, zero.get(name, _ABSENT), type_.field(name))
            if of_value is not None:
                found[f"f:{name}"] = of_value
    return found


def _changed_fields(value: Any, before: Any, type_: MergeType) -> Tree | None:
    """Return the field set in which a top-level value differs from `before`; None if the two are equal.

    The result is cached, because a controller creates many objects with an equal spec.
    before: zero value of the field, or _ABSENT.
    """
    key = orjson.dumps(value) if isinstance(value, dict) else b""
    if not key or len(key) > _LONGEST_KEPT:
        return all_fields(value, type_) if before is _ABSENT else non_zero_fields(value, before, type_)
    known = _seen.setdefault(type_, {})
    if key not in known:
        if len(known) >= _MOST_KEPT:
            known.clear()
        known[key] = all_fields(value, type_) if before is _ABSENT else non_zero_fields(value, before, type_)
    return known[key]


def record_update(cluster: Cluster, call: RoutedRequest, new: Object, old: Mapping[str, Any]) -> None:
    """Record the manager of an update in the managedFields of the new object, in place.

    Called before admission and before the server sets fields, so only the client's changes are recorded. Does nothing
    if the object has no managedFields.
    new, old: objects in the form that the handlers of verbs process. new contains the managedFields from the client.
    """
    given = new["metadata"].pop(MANAGED_FIELDS, None)
    live = old["metadata"].get(MANAGED_FIELDS)
    if given is live or given == live or call.route.subresource:
        entries = live
    elif given is not None and given in ([], [{}]):
        entries = None
    else:
        entries = given if client_entries(given) else live
    managers = entries_by_manager(entries)
    if not managers:
        return
    try:
        _record_update(cluster, call, new, old, managers, entries)
    except StatusError:
        return  # As upstream: if an object cannot be converted, its managedFields are removed.


def _record_update(
    cluster: Cluster,
    call: RoutedRequest,
    new: Object,
    old: Mapping[str, Any],
    managers: dict[Manager, Object],
    entries: Any,
) -> None:
    """Record an update in the managedFields of `new`. Raises StatusError if an object cannot be converted.

    entries: managedFields before the update.
    managers: the same entries by manager.
    """
    comparisons = Comparisons(cluster, call.definition, {**old, "metadata": _unmanaged(old["metadata"])}, new)
    mine = update_manager(call)
    if mine.subresource == SCALE and not _manages_replicas(call.definition, managers):
        new["metadata"][MANAGED_FIELDS] = entries  # as upstream: replicas have no manager yet, and get none
        return
    comparison = comparisons.of(mine.api_version)
    if comparison is None or not any(comparison):
        new["metadata"][MANAGED_FIELDS] = entries
        return
    after = {}
    for other, entry in managers.items():
        theirs = comparisons.of(entry["apiVersion"])
        if theirs is not None and (left := _without(entry, united(theirs.modified, theirs.added), theirs.removed)):
            after[other] = left
    reset = reset_fields(call.definition, call.route.subresource)
    fields = recordable(without(united(comparison.modified, comparison.added), reset))
    if fields:
        after = _with_entry(after, mine, fields, cluster.timestamp())
    if after:
        new["metadata"][MANAGED_FIELDS] = sorted_entries(after)


def _unmanaged(meta: Mapping[str, Any]) -> Object:
    return {name: value for name, value in meta.items() if name != MANAGED_FIELDS}


class Comparisons:
    """Differences between an object before and after a write, in each API version that a field manager uses."""

    def __init__(
        self, cluster: Cluster, definition: ResourceDefinition, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> None:
        self._cluster, self._definition, self._old, self._new = cluster, definition, old, new
        self._known: dict[str, Comparison | None] = {}

    def of(self, api_version: str) -> Comparison | None:
        """Return the differences in an API version; None if the resource does not have this version."""
        if api_version not in self._known:
            self._known[api_version] = self._compare(api_version)
        return self._known[api_version]

    def _compare(self, api_version: str) -> Comparison | None:
        definition = self._cluster.registry.in_version(self._definition, api_version)
        if definition is None:
            return None
        type_ = merge_type_of(definition)
        old, new = in_version_of(definition, self._old), in_version_of(definition, self._new)
        if definition.dynamic and definition is not self._definition:
            for obj, which in ((old, "old"), (new, "new")):
                _check_fields(obj, type_, f"failed to convert {which} object: ")
        key = partial(key_of, "compare", definition, old, new)
        return carried_out(self._cluster, key, lambda: compare(old, new, type_))


def _manages_replicas(definition: ResourceDefinition, managers: Mapping[Manager, Object]) -> bool:
    """Report whether a manager is recorded for the field with the number of replicas."""
    paths = definition.strategy.scale_paths
    steps = ".spec.replicas" if paths is None else paths.replicas
    path = tuple(f"f:{step}" for step in steps.removeprefix(".").split("."))
    return any(has_path(entry["fieldsV1"], path) for entry in managers.values())


def _check_fields(obj: Mapping[str, Any], type_: MergeType, what: str) -> None:
    """Raise StatusError (500) if an object has fields that are not in its schema, as after a faulty conversion webhook.

    what: beginning of the error text.
    """
    errors = typed_errors(obj, type_)
    if errors:
        raise without_reason(
            what + (errors[0] if len(errors) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in errors))
        )


def in_version_of(definition: ResourceDefinition, obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Convert an object from the form that the handlers of verbs process to the version of the definition."""
    return obj if definition.from_storage is None else definition.from_storage(dict(obj))


def _without(entry: Object, taken: Tree, removed: Tree) -> Object | None:
    """Return an entry of managedFields without some fields; None if no fields are left.

    taken: fields that another manager has changed. removed: fields that are no longer in the object.
    """
    before = entry["fieldsV1"]
    left = minus(minus(before, taken), removed)
    if left is before:
        return entry
    return {**entry, "fieldsV1": left} if left else None


def _with_entry(entries: dict[Manager, Object], mine: Manager, fields: Tree, now: str) -> dict[Manager, Object]:
    former = entries.get(mine)
    if former is not None:
        fields = united(former["fieldsV1"], fields)
    # As upstream, the entry of a scale update has no time.
    entries[mine] = entry_of(mine, fields, mine.api_version, None if mine.subresource == SCALE else now)
    return entries if len(entries) <= MOST_UPDATERS else _merge_oldest(entries)


def _merge_oldest(entries: dict[Manager, Object]) -> dict[Manager, Object]:
    """Merge the oldest UPDATE entries into one entry per API version, until at most MOST_UPDATERS are left.

    Changes and returns `entries`. The merged entry has the manager "ancient-changes".
    """
    updaters = sorted(
        (manager for manager in entries if manager.operation == UPDATE),
        key=lambda manager: (_age(entries[manager]), manager),
    )
    many, first = len(updaters), {}
    for manager in updaters:
        if many <= MOST_UPDATERS:
            break
        version = manager.api_version
        if version not in first:
            first[version] = manager
            continue
        bucket = Manager(ANCIENT, UPDATE, version, "")
        if bucket not in entries:
            entries[bucket] = entries.pop(first[version])
        fields = united(entries[manager]["fieldsV1"], entries[bucket]["fieldsV1"])
        entries[bucket] = entry_of(bucket, fields, version, entries[manager].get("time"))
        if manager != bucket:
            del entries[manager]
        many -= 1
    return entries


def _age(entry: Mapping[str, Any]) -> float:
    return parse_time(entry["time"]) if entry.get("time") else 0.0


def keep_times(new: Object, old: Mapping[str, Any]) -> None:
    """Restore the old managedFields in a new object if the objects differ only in the times of managedFields."""
    now, before = new["metadata"].get(MANAGED_FIELDS), old["metadata"].get(MANAGED_FIELDS)
    if not now or now is before or not before or len(now) != len(before) or now == before:
        return
    if _without_times(now) == _without_times(before) and {**new, "metadata": 0} == {**old, "metadata": 0}:
        if _unmanaged(new["metadata"]) == _unmanaged(old["metadata"]):
            new["metadata"][MANAGED_FIELDS] = before


def _without_times(entries: Sequence[Mapping[str, Any]]) -> list[Object]:
    return [{name: value for name, value in entry.items() if name != "time"} for entry in entries]
