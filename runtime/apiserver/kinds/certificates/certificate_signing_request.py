"""CertificateSigningRequests.

Source: kubernetes pkg/registry/certificates/certificates/strategy.go, pkg/printers/internalversion/printers.go
(printCertificateSigningRequest) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from protocols.times import human_duration
from runtime.apiserver.kinds.shared.cells import NONE, age_cell, items, name_cell, part
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(request: Object, now: float) -> list[Any]:
    spec = part(request, "spec")
    seconds = spec.get("expirationSeconds")
    return [
        name_cell(request),
        age_cell(request, now),
        spec.get("signerName") or NONE,
        spec.get("username") or "",
        NONE if seconds is None else human_duration(seconds),
        _state(request),
    ]


def _state(request: Object) -> str:
    status = part(request, "status")
    types = {one.get("type") for one in items(status, "conditions")}
    words = ["Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"]
    if "Failed" in types:
        words.append("Failed")
    if status.get("certificate"):
        words.append("Issued")
    return ",".join(words)


RESOURCE = ResourceDefinition(
    group="certificates.k8s.io",
    version="v1",
    plural="certificatesigningrequests",
    kind="CertificateSigningRequest",
    short_names=("csr",),
    namespaced=False,
    subresources=("approval", "status"),
    strategy=Strategy(has_status=True),
    printer=Printer(
        columns=(
            NAME,
            AGE,
            Column("SignerName"),
            Column("Requestor"),
            Column("RequestedDuration"),
            Column("Condition"),
        ),
        cells=cells,
    ),
)
