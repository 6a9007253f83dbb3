"""Server-side apply: merges the applied fields, and removes fields that the manager no longer applies.

Source: structured-merge-diff merge/update.go (Apply), apimachinery pkg/util/managedfields/internal (v1.36).
Differs from upstream: when a schema changes a field from granular to atomic, or back, the entries of managedFields that
were recorded before are not converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcm.protocols.objects import Object, annotations_of, metadata
from kcm.runtime.apiserver.core.cluster import Cluster, RoutedRequest, stored_form
from kcm.runtime.apiserver.core.field_conflicts import (
    KUBECTL,
    LAST_APPLIED,
    Conflicts,
    conflict,
    last_applied_text,
    without_last_applied,
)
from kcm.runtime.apiserver.core.field_managers import (
    APPLY,
    MANAGED_FIELDS,
    SCALE,
    UPDATE,
    Comparisons,
    Manager,
    entries_by_manager,
    entry_of,
    fields_of_new,
    in_version_of,
    recordable,
    reset_fields,
    sorted_entries,
)
from kcm.runtime.apiserver.core.merge_types import merge_type_of
from kcm.runtime.apiserver.errors import status_errors
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.request_info import is_set
from kcm.runtime.apiserver.schema.field_sets import (
    Tree,
    common,
    field_set,
    in_order,
    minus,
    united,
    with_named_members,
    without,
)
from kcm.runtime.apiserver.schema.merge_types import MergeType
from kcm.runtime.apiserver.schema.typed_errors import typed_errors
from kcm.runtime.apiserver.schema.typed_merge import merge, removed

BEFORE_FIRST_APPLY = "before-first-apply"
_SCALES = "autoscaling/v1"  # API version of Scale; conflicts of an apply to a scale subresource name this version

Entries = dict[Manager, Object]


def apply(cluster: Cluster, call: RoutedRequest, live: Mapping[str, Any], body: Mapping[str, Any]) -> Object:
    """Return the object after a server-side apply, with its new managedFields, in the version of the request.

    live: the object before the apply; {} if it does not exist.
    body: the applied object.

    Raises StatusError: 400 for another kind; 409 for conflicts with other managers, unless the request has `force`; and
    500, as upstream, for fields that are not in the schema of the kind.
    """
    definition = call.definition
    type_ = merge_type_of(definition)
    _check(definition, body, type_)
    meta = {name: value for name, value in metadata(live).items() if name != MANAGED_FIELDS}
    base = {**live, "metadata": meta} if live else {}
    entries = entries_by_manager(metadata(live).get(MANAGED_FIELDS))
    now = cluster.timestamp()
    if live and not entries:
        entries = _before_first_apply(call, base, now)
    mine = Manager(call.query["fieldManager"], APPLY, "", call.route.subresource)
    fields = without(field_set(body, type_), reset_fields(definition, call.route.subresource))
    former = entries.get(mine)
    new: Object = merge(base, body, type_)
    claimed = entries | {mine: entry_of(mine, fields, definition.api_version, now)}
    if former is not None and minus(former["fieldsV1"], fields):
        new = _without_abandoned_fields(cluster, definition, new, former, claimed)
    comparisons = Comparisons(cluster, definition, stored_form(definition, base), stored_form(definition, new))
    conflicts = _conflicts(comparisons, entries, mine)
    if conflicts and not is_set(call.query, "force"):
        if mine.name == KUBECTL:
            conflicts = without_last_applied(conflicts, base, type_, definition.api_version)
        if call.route.subresource == SCALE:
            conflicts = {other._replace(api_version=_SCALES): clash for other, clash in conflicts.items()}
        if conflicts:
            raise conflict(conflicts)
    after = _remaining_entries(comparisons, entries, mine)
    if fields := in_order(recordable(fields)):
        time: str | None = now
        if mine.subresource == SCALE:
            time = None  # as upstream, see field_managers.py
        elif live and new == base:  # An apply that changes nothing must not change the time either.
            time = None if former is None else former.get("time")
        after[mine] = entry_of(mine, fields, definition.api_version, time)
    if mine.name == KUBECTL and annotations_of(new).get(LAST_APPLIED):
        noted = {**new["metadata"]["annotations"], LAST_APPLIED: last_applied_text(body)}
        new = {**new, "metadata": {**new["metadata"], "annotations": noted}}
    managed = {MANAGED_FIELDS: sorted_entries(after)} if after else {}
    return {**new, "metadata": {**metadata(new), **managed}}


def _check(definition: ResourceDefinition, body: Mapping[str, Any], type_: MergeType) -> None:
    api_version, kind = body.get("apiVersion") or "", body.get("kind") or ""
    group, _, version = str(api_version).rpartition("/")
    described = f"{group}/{version}, Kind={kind}"
    if (api_version, kind) != (definition.api_version, definition.kind):
        raise status_errors.bad_request(f"invalid object type: {described}")
    meta = metadata(body)
    if meta.get(MANAGED_FIELDS) is not None:
        raise status_errors.bad_request("metadata.managedFields must be nil")
    errors = typed_errors(body, type_)
    if errors:
        found = errors[0] if len(errors) == 1 else "errors:\n" + "\n".join(f"  {error}" for error in errors)
        where = f"{meta.get('namespace') or ''}/{meta.get('name') or ''}; {described}"
        raise StatusError(500, "", f"failed to create typed patch object ({where}): {found}")


def _before_first_apply(call: RoutedRequest, live: Mapping[str, Any], now: str) -> Entries:
    definition = call.definition
    fields = recordable(fields_of_new(definition, live))
    if not fields:
        return {}
    manager = Manager(BEFORE_FIRST_APPLY, UPDATE, definition.api_version, call.route.subresource)
    return {manager: entry_of(manager, fields, definition.api_version, now)}


def _conflicts(comparisons: Comparisons, entries: Entries, mine: Manager) -> Conflicts:
    found = {}
    for other, entry in entries.items():
        comparison = None if other == mine else comparisons.of(entry["apiVersion"])
        if comparison is not None:
            clash = common(entry["fieldsV1"], united(comparison.modified, comparison.added))
            if clash:
                found[other] = clash
    return found


def _remaining_entries(comparisons: Comparisons, entries: Entries, mine: Manager) -> Entries:
    """Return the entries of the other managers, without the fields that the apply has changed or removed."""
    found = {}
    for other, entry in entries.items():
        comparison = None if other == mine else comparisons.of(entry["apiVersion"])
        if comparison is None:
            continue
        left = minus(minus(entry["fieldsV1"], united(comparison.modified, comparison.added)), comparison.removed)
        if left:
            found[other] = entry if left is entry["fieldsV1"] else {**entry, "fieldsV1": left}
    return found


def _without_abandoned_fields(
    cluster: Cluster, definition: ResourceDefinition, merged: Object, former: Mapping[str, Any], claimed: Entries
) -> Object:
    """Return the merged object without fields that only this manager managed, and that it no longer applies.

    former: the manager's entry of managedFields before this apply.
    claimed: the entries of all managers, with the new entry of this manager.
    """
    then = cluster.registry.in_version(definition, former["apiVersion"])
    if then is None:
        return merged
    stored = stored_form(definition, merged)
    whole = dict(in_version_of(then, stored))
    type_ = merge_type_of(then)
    last = with_named_members(former["fieldsV1"], type_)
    left = stored_form(then, removed(whole, last, type_))
    managed: dict[str, Tree] = {}
    for entry in claimed.values():
        version = entry["apiVersion"]
        managed[version] = united(managed.get(version, {}), entry["fieldsV1"])
    for version in sorted(managed, key=lambda managed_version: managed_version != former["apiVersion"]):
        of_version = cluster.registry.in_version(definition, version)
        if of_version is not None:
            left = stored_form(of_version, _with_managed_fields(of_version, stored, left, managed[version]))
    here = with_named_members(field_set(whole, type_), type_)
    still = with_named_members(field_set(in_version_of(then, left), type_), type_)
    kept: Object = removed(whole, common(minus(here, still), last), type_)
    return kept if then is definition else dict(in_version_of(definition, stored_form(then, kept)))


def _with_managed_fields(definition: ResourceDefinition, merged: Object, left: Object, managed: Tree) -> Object:
    """Add those fields of the object `merged` to the object `left` that are in the set `managed`. Returns a new object.

    merged: the live object with the applied fields.
    left: `merged` without the fields that its manager applied before.
    definition: the resource in the API version of `managed`.
    """
    type_ = merge_type_of(definition)
    whole = in_version_of(definition, merged)
    here = with_named_members(field_set(whole, type_), type_)
    still = with_named_members(field_set(in_version_of(definition, left), type_), type_)
    gone = minus(here, united(still, with_named_members(managed, type_)))
    found: Object = removed(whole, gone, type_)
    return found
