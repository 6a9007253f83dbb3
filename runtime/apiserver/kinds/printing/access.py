"""Who may do what, and how they prove who they are."""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from protocols.times import human_duration
from runtime.apiserver.kinds.printing.columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Printer,
    age_cell,
    items,
    name_cell,
    part,
    wide,
)


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


def signing_request_cells(request: Object, now: float) -> list[Any]:
    spec = part(request, "spec")
    seconds = spec.get("expirationSeconds")
    return [
        name_cell(request),
        age_cell(request, now),
        spec.get("signerName") or NONE,
        spec.get("username") or "",
        NONE if seconds is None else human_duration(seconds),
        _signing_state(request),
    ]


def _signing_state(request: Object) -> str:
    status = part(request, "status")
    types = {one.get("type") for one in items(status, "conditions")}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


def trust_bundle_cells(bundle: Object, now: float) -> list[Any]:  # noqa: ARG001
    return [name_cell(bundle), part(bundle, "spec").get("signerName") or NONE]


BINDING = Printer(
    (NAME, Column("Role"), AGE, wide("Users"), wide("Groups"), wide("ServiceAccounts")),
    binding_cells,
)
SIGNING_REQUEST = Printer(
    (NAME, AGE, Column("SignerName"), Column("Requestor"), Column("RequestedDuration"), Column("Condition")),
    signing_request_cells,
)
TRUST_BUNDLE = Printer((NAME, Column("SignerName")), trust_bundle_cells)
