"""Roles (rbac.authorization.k8s.io/v1): defaults, validation and authorization.

Source: kubernetes pkg/registry/rbac/role/strategy.go, pkg/apis/rbac/validation/validation.go (v1.36).
"""

from __future__ import annotations

from kcm.protocols.objects import Object
from kcm.runtime.apiserver.errors.field_errors import FieldError
from kcm.runtime.apiserver.kinds.rbac.shared.escalation import confirm_role
from kcm.runtime.apiserver.kinds.rbac.shared.policy_rules import validate_rules
from kcm.runtime.apiserver.registry.definitions import ResourceDefinition
from kcm.runtime.apiserver.registry.strategy import Strategy


def set_defaults(role: Object) -> None:
    role.setdefault("rules", None)  # upstream always encodes this field


def validate(role: Object) -> list[FieldError]:
    return validate_rules(role, namespaced=True)


RESOURCE = ResourceDefinition(
    group="rbac.authorization.k8s.io",
    version="v1",
    plural="roles",
    kind="Role",
    strategy=Strategy(
        allow_create_on_update=True,
        set_defaults=set_defaults,
        confirm=confirm_role,
        validate=validate,
    ),
)
