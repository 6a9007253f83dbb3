"""Conflicts of a server-side apply with other field managers.

Source: apimachinery pkg/util/managedfields/internal/{conflict,lastappliedmanager}.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kcm.protocols.objects import annotations_of
from kcm.runtime.apiserver.core.field_managers import UPDATE, Manager
from kcm.runtime.apiserver.errors.field_errors import quoted
from kcm.runtime.apiserver.errors.status_errors import StatusError
from kcm.runtime.apiserver.schema.field_differences import compare
from kcm.runtime.apiserver.schema.field_sets import Tree, field_set, minus, paths
from kcm.runtime.apiserver.schema.merge_types import MergeType

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KUBECTL = "kubectl"  # the field manager that may take over the fields of its earlier client-side apply

Conflicts = dict[Manager, Tree]


def conflict(conflicts: Conflicts) -> StatusError:
    """Return the error (409) for an apply that conflicts with other managers. Its text is upstream's."""
    found = [(_described(who), list(paths(conflicts[who]))) for who in sorted(conflicts, key=_sort_key)]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": path}
        for who, places in found
        for path in places
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [f"conflicts with {who}:\n" + "\n".join(f"- {path}" for path in places) for who, places in found]
        text = f"Apply failed with {len(causes)} conflicts: " + "\n".join(lines)
    return StatusError(409, "Conflict", text, details={"causes": causes})


def _sort_key(manager: Manager) -> str:
    return orjson.dumps(list(manager)).decode()


def _described(manager: Manager) -> str:
    who = quoted(manager.name)
    if manager.subresource:
        who += f" with subresource {quoted(manager.subresource)}"
    return f"{who} using {manager.api_version}" if manager.operation == UPDATE else who


def without_last_applied(
    conflicts: Conflicts, live: Mapping[str, Any], type_: MergeType, api_version: str
) -> Conflicts:
    """Return the conflicts without those over fields that client-side apply wrote and that have not changed since.

    live: the stored object; its annotation LAST_APPLIED contains the object of the last client-side apply.
    """
    try:
        last = orjson.loads(annotations_of(live).get(LAST_APPLIED) or b"")
    except ValueError:
        return conflicts
    if not isinstance(last, dict) or last.get("apiVersion") != api_version:
        return conflicts
    allowed = field_set(last, type_)
    for differing in compare(last, live, type_):
        allowed = minus(allowed, differing)
    return {who: left for who, fields in conflicts.items() if (left := minus(fields, allowed))}


def last_applied_text(body: Mapping[str, Any]) -> str:
    """Return an applied object in JSON, as client-side apply records it in the annotation LAST_APPLIED."""
    meta = dict(body.get("metadata") or {})
    if isinstance(meta.get("annotations"), dict):
        meta["annotations"] = {name: text for name, text in meta["annotations"].items() if name != LAST_APPLIED}
    return orjson.dumps({**body, "metadata": meta}, option=orjson.OPT_SORT_KEYS).decode() + "\n"
