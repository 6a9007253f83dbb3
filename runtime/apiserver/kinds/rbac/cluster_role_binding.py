"""ClusterRoleBindings.

Source: kubernetes pkg/registry/rbac/clusterrolebinding/strategy.go, pkg/printers/internalversion/printers.go
(printClusterRoleBinding) (v1.36).
"""

from __future__ import annotations

from runtime.apiserver.kinds.shared.role_bindings import BINDING_COLUMNS, binding_cells
from runtime.apiserver.registry.definitions import ResourceDefinition
from runtime.apiserver.registry.printers import Printer
from runtime.apiserver.registry.strategy import Strategy

RESOURCE = ResourceDefinition(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="clusterrolebindings",
    kind="ClusterRoleBinding",
    namespaced=False,
    strategy=Strategy(
        allow_create_on_update=True,
    ),
    printer=Printer(columns=BINDING_COLUMNS, cells=binding_cells),
)
