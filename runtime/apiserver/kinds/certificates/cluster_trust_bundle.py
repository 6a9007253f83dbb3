"""ClusterTrustBundles.

Source: kubernetes pkg/registry/certificates/clustertrustbundle/strategy.go, pkg/printers/internalversion/printers.go
(printClusterTrustBundle) (v1.36).
"""

from __future__ import annotations

from typing import Any

from protocols.objects import Object
from runtime.apiserver.kinds.shared.cells import NONE, name_cell, part
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import NAME, Column, Printer
from runtime.apiserver.registry.strategy import Strategy


def cells(bundle: Object, now: float) -> list[Any]:  # noqa: ARG001
    return [name_cell(bundle), part(bundle, "spec").get("signerName") or NONE]


RESOURCE = ResourceDefinition(
    group="certificates.k8s.io",
    version="v1beta1",
    plural="clustertrustbundles",
    kind="ClusterTrustBundle",
    namespaced=False,
    strategy=Strategy(allow_unconditional_update=False),
    printer=Printer(
        columns=(
            NAME,
            Column("SignerName"),
        ),
        cells=cells,
    ),
)
