"""Defaults, validation and table columns that RoleBindings and ClusterRoleBindings share.

Source: kubernetes pkg/apis/rbac/v1/defaults.go, pkg/apis/rbac/validation/validation.go,
pkg/printers/internalversion/printers.go, printRoleBinding (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError, invalid, not_supported, required
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, wide
from kcm.runtime.apiserver.rules.cells import age_cell, items, name_cell, part
from kcm.runtime.apiserver.rules.names import dns_subdomain, path_segment

GROUP = "rbac.authorization.k8s.io"
_SUBJECTS = ("ServiceAccount", "User", "Group")


def set_defaults(binding: Object) -> None:
    role = binding.setdefault("roleRef", {"kind": "", "name": ""})
    role["apiGroup"] = role.get("apiGroup") or GROUP
    for subject in items(binding, "subjects"):
        if subject.get("kind") in ("User", "Group") and not subject.get("apiGroup"):
            subject["apiGroup"] = GROUP


def validate_binding(binding: Object, *, roles: tuple[str, ...], namespaced: bool) -> list[FieldError]:
    """Validate a RoleBinding or ClusterRoleBinding. roles: kinds that roleRef may refer to."""
    role, errors = part(binding, "roleRef"), []
    if role.get("apiGroup") != GROUP:
        errors.append(not_supported("roleRef.apiGroup", role.get("apiGroup") or "", (GROUP,)))
    if role.get("kind") not in roles:
        errors.append(not_supported("roleRef.kind", role.get("kind") or "", roles))
    name = role.get("name") or ""
    if not name:
        errors.append(required("roleRef.name"))
    else:
        errors += [invalid("roleRef.name", name, text) for text in path_segment(name)]
    for i, subject in enumerate(items(binding, "subjects")):
        errors += _validate_subject(subject, f"subjects[{i}]", namespaced=namespaced)
    return errors


def _validate_subject(subject: Object, field: str, *, namespaced: bool) -> list[FieldError]:
    name, kind, group = (subject.get(part) or "" for part in ("name", "kind", "apiGroup"))
    errors = [] if name else [required(f"{field}.name")]
    match kind:
        case "ServiceAccount":
            if name:
                errors += [invalid(f"{field}.name", name, text) for text in dns_subdomain(name)]
            if group:
                errors.append(not_supported(f"{field}.apiGroup", group, ("",)))
            if not namespaced and not subject.get("namespace"):
                errors.append(required(f"{field}.namespace"))
        case "User" | "Group":
            if group != GROUP:
                errors.append(not_supported(f"{field}.apiGroup", group, (GROUP,)))
        case _:
            errors.append(not_supported(f"{field}.kind", kind, _SUBJECTS))
    return errors


def validate_binding_update(new: Object, old: Object) -> list[FieldError]:
    role = part(new, "roleRef")
    if role == part(old, "roleRef"):
        return []
    shown = {
        name: role.get(field) or "" for name, field in (("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"))
    }
    return [invalid("roleRef", shown, "cannot change roleRef")]


def binding_cells(binding: Object, now: float) -> list[Any]:
    role = part(binding, "roleRef")
    subjects: dict[str, list[str]] = {"User": [], "Group": [], "ServiceAccount": []}
    for subject in items(binding, "subjects"):
        kind, name = subject.get("kind"), subject.get("name") or ""
        if kind in subjects:
            subjects[kind].append(f"{subject.get('namespace') or ''}/{name}" if kind == "ServiceAccount" else name)
    return [
        name_cell(binding),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        age_cell(binding, now),
        *(", ".join(names) for names in subjects.values()),
    ]


BINDING_COLUMNS = (NAME, Column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts"))
