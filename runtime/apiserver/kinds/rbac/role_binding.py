"""RoleBindings (rbac.authorization.k8s.io/v1): defaults, validation, authorization and table columns.

Source: kubernetes pkg/registry/rbac/rolebinding/strategy.go, pkg/printers/internalversion/printers.go
(printRoleBinding) (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.rbac.shared.escalation import confirm_binding
from kcm.runtime.apiserver.kinds.rbac.shared.role_bindings import (
    BINDING_COLUMNS,
    binding_cells,
    set_defaults,
    validate_binding,
    validate_binding_update,
)
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.printers import Printer
from kcm.runtime.apiserver.registry.strategy import Strategy


def validate(binding: Object) -> list[FieldError]:
    return validate_binding(binding, roles=("Role", "ClusterRole"), namespaced=True)


RESOURCE = ResourceDefinition(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="rolebindings",
    kind="RoleBinding",
    strategy=Strategy(
        set_defaults=set_defaults,
        validate=validate,
        validate_update=validate_binding_update,
        allow_create_on_update=True,
        confirm=confirm_binding,
    ),
    printer=Printer(columns=BINDING_COLUMNS, cells=binding_cells),
)
