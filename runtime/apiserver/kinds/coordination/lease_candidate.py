"""LeaseCandidates (coordination.k8s.io/v1beta1): table columns.

Source: kubernetes pkg/registry/coordination/leasecandidate/strategy.go, pkg/printers/internalversion/printers.go
(printLeaseCandidate) (v1.36).
"""

from __future__ import annotations

from typing import Any

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import AGE, NAME, Column, Printer
from kcm.runtime.apiserver.registry.strategy import Strategy
from kcm.runtime.apiserver.rules.cells import age_cell, name_cell, part


def cells(candidate: Object, now: float) -> list[Any]:
    spec = part(candidate, "spec")
    words = [spec.get(what) or "" for what in ("leaseName", "binaryVersion", "emulationVersion")]
    return [name_cell(candidate), *words, age_cell(candidate, now)]


RESOURCE = ResourceDefinition(
    group="coordination.k8s.io",
    version="v1beta1",
    plural="leasecandidates",
    kind="LeaseCandidate",
    strategy=Strategy(
        allow_create_on_update=True,
        allow_unconditional_update=False,
    ),
    printer=Printer(
        columns=(
            NAME,
            Column("LeaseName"),
            Column("BinaryVersion"),
            Column("EmulationVersion"),
            AGE,
        ),
        cells=cells,
    ),
)
