"""Columns of RoleBindings and ClusterRoleBindings.

Source: kubernetes pkg/printers/internalversion/printers.go, printRoleBinding (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import age_cell, items, name_cell, part
from runtime.apiserver.registry.printers import AGE, NAME, Column, wide


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
