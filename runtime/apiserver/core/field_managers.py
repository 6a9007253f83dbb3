"""Who manages which fields, by server-side apply: metadata.managedFields.

Recording begins when an object is first applied, so that no other object pays for it. What was there before is managed
by "before-first-apply", and a write without ?fieldManager by "unknown", where upstream takes the user agent.

Source: apimachinery pkg/util/managedfields (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from protocols.objects import Object, metadata
from runtime.apiserver.core.cluster import Call, Cluster
from runtime.apiserver.errors.status_errors import StatusError
from runtime.apiserver.schema.api_types import built_in_types
from runtime.apiserver.schema.field_sets import Tree, common, differing, field_set, minus, paths, united

MANAGED_FIELDS = "managedFields"
APPLY, UPDATE = "Apply", "Update"
STATUS = "status"
_NOT_MANAGED = frozenset(
    {
        "creationTimestamp",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)


def _fields_of(call: Call, body: Mapping[str, Any]) -> Tree:
    """What an applied object says: of the object, or of its status where that is applied."""
    definition = call.definition
    if call.route.subresource == STATUS:
        said = {STATUS: body[STATUS]} if body.get(STATUS) else {}
    else:
        ignored = {"kind", "apiVersion", "metadata", *((STATUS,) if definition.strategy.has_status else ())}
        said = {name: value for name, value in body.items() if name not in ignored}
        meta = {name: value for name, value in metadata(body).items() if name not in _NOT_MANAGED}
        if meta:
            said["metadata"] = meta
    name = built_in_types().name_of(definition.group, definition.version, definition.kind)
    return field_set(said, name)


class Applied(NamedTuple):
    """gone: what the manager applied before and leaves out now, and nobody else manages. entries: managedFields."""

    gone: Tree
    entries: list[Object]


def applied(
    cluster: Cluster, call: Call, live: Mapping[str, Any], body: Mapping[str, Any], merged: Mapping[str, Any]
) -> Applied:
    """live: the object, in the request's version; {} for one that is made. merged: the same with the
    body in it. Raises StatusError (409) where others manage these fields with other values, unless it is forced: then
    they lose them.
    """
    fields = _fields_of(call, body)
    changed, mine = differing(fields, merged, live), _entry(cluster, call, APPLY, call.query["fieldManager"], fields)
    former = metadata(live).get(MANAGED_FIELDS) or _before_first_apply(cluster, call, live)
    conflicts: list[tuple[str, Tree]] = []
    entries: list[Object] = []
    gone: Tree = {}
    for entry in former:
        if _is_same(entry, mine):
            gone = minus(entry["fieldsV1"], fields)
            mine = entry if entry["fieldsV1"] == fields else mine
            entries.append(mine)
            continue
        clash = common(changed, entry["fieldsV1"])
        if clash:
            conflicts.append((_described(entry), clash))
        entries.append({**entry, "fieldsV1": minus(entry["fieldsV1"], clash)})
    if conflicts and call.query.get("force") not in ("true", "1"):
        raise _conflict(conflicts)
    for entry in former:
        if not _is_same(entry, mine):
            gone = minus(gone, entry["fieldsV1"])
    if not any(one is mine for one in entries):
        entries.append(mine)
    return Applied(gone, [entry for entry in entries if entry["fieldsV1"]])


def settle_managers(
    cluster: Cluster, call: Call, new: Object, old: Mapping[str, Any], entries: list[Object] | None
) -> None:
    """Set the managedFields of the object to be stored. entries: of what was applied; None after any other write: who
    writes manages what is changed.
    """
    if entries is None:
        written = differing(_fields_of(call, new), old, new)
        mine = _entry(cluster, call, UPDATE, call.query.get("fieldManager") or "unknown", written)
        entries = []
        for entry in old["metadata"][MANAGED_FIELDS]:
            if _is_same(entry, mine):
                mine["fieldsV1"] = united(_left(entry, old, new), written)
            elif left := _left(entry, old, new):
                entries.append({**entry, "fieldsV1": left})
        if mine["fieldsV1"]:
            entries.append(mine)
    if entries:
        new["metadata"][MANAGED_FIELDS] = entries
    else:
        new["metadata"].pop(MANAGED_FIELDS, None)


def _left(entry: Mapping[str, Any], old: Mapping[str, Any], new: Mapping[str, Any]) -> Tree:
    """Of its fields those that a write did not change."""
    fields: Tree = entry["fieldsV1"]
    changed = differing(fields, old, new)
    return minus(fields, changed) if changed else fields


def _before_first_apply(cluster: Cluster, call: Call, live: Mapping[str, Any]) -> list[Object]:
    fields = _fields_of(call, live)
    return [_entry(cluster, call, UPDATE, "before-first-apply", fields)] if fields else []


def _entry(cluster: Cluster, call: Call, operation: str, manager: str, fields: Tree) -> Object:
    entry: Object = {
        "manager": manager,
        "operation": operation,
        "apiVersion": call.definition.api_version,
        "time": cluster.timestamp(),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if call.route.subresource:
        entry["subresource"] = call.route.subresource
    return entry


def _is_same(entry: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return all(entry.get(field) == other.get(field) for field in ("manager", "operation", "apiVersion", "subresource"))


def _described(entry: Mapping[str, Any]) -> str:
    who = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        who += f' with subresource "{entry["subresource"]}"'
    return who if entry["operation"] == APPLY else f"{who} using {entry['apiVersion']}"


def _conflict(conflicts: list[tuple[str, Tree]]) -> StatusError:
    """The text is upstream's."""
    found = [(who, list(paths(fields))) for who, fields in sorted(conflicts, key=lambda one: one[0])]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, places in found
        for path in places
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            f"conflict{'s' if len(causes) > 1 else ''} with {who}:\n" + "\n".join(f"- {path}" for path in places)
            for who, places in found
        ]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", text, details={"causes": causes})
